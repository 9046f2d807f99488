// Package watch shows what happens in a fleet while it happens: events as lines, a
// rollout as a view that moves, and resources until they are as was asked.
package watch

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/term"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/prose"
)

// Printer returns a function that prints events as lines for people. A host's own
// events carry the host's clock, which is not comparable: they show the time of the
// server's event before them, marked with ~.
func Printer(w io.Writer) func(operator.Event) error {
	var last clock.Instant
	return func(e operator.Event) error {
		if e.HostSeq == 0 {
			last = e.At
		}
		_, err := fmt.Fprintln(w, Line(e, last, clock.FromTime(time.Now())))
		return err
	}
}

// Line is one event as a line: sequence, time in UTC, host, what happened.
func Line(e operator.Event, at, now clock.Instant) string {
	when, mark := "", " "
	if at != 0 {
		when = prose.Stamp(at, now)
	}
	if e.HostSeq != 0 && when != "" {
		mark = "~"
	}
	return term.Printable(fmt.Sprintf("%6d %s%-8s  %-12s  %s", e.Seq, mark, when, cmp.Or(e.Subject.Host(), "server"), operator.Message(e)))
}
