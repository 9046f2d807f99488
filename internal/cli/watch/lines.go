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

// Printer returns a function that prints events as lines for people.
func Printer(w io.Writer) func(operator.Event) error {
	return func(e operator.Event) error {
		_, err := fmt.Fprintln(w, Line(e, clock.FromTime(time.Now())))
		return err
	}
}

// Line is one event as a line: sequence, when the server committed it in UTC, host, what happened.
func Line(e operator.Event, now clock.Instant) string {
	when := ""
	if at := e.Committed(); at != 0 {
		when = prose.Stamp(at, now)
	}
	return term.Printable(fmt.Sprintf("%6d  %-8s  %-12s  %s", e.Seq, when, cmp.Or(e.Subject.Host(), "server"), operator.Message(e)))
}
