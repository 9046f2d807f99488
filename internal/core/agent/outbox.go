package agent

import (
	"errors"
	"fmt"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/host"
)

// Retention of acknowledged events: a server restored from an old backup asks for them
// again. They are kept for RetainFor, and the newest RetainBytes of them.
const (
	RetainFor         = 30 * clock.Day
	RetainBytes int64 = 64 << 20
)

// Outbox is where a host's events stand, by their numbers: Oldest is the first that is
// kept, 0 for none, Acked the last that the server acknowledged, and Last the newest.
type Outbox struct{ Oldest, Acked, Last uint64 }

// Prompt reports whether an event is sent at once. The others travel with what follows them
// within a moment: the server knows of the claim that began an activation, and what one
// resource does is for people.
func Prompt(e event.Event) bool {
	switch e := e.(type) {
	case event.ResourceReported, event.HostFacts:
		return false
	case event.HostStepped:
		return e.To != host.Activating
	}
	return true
}

// Acknowledge checks the server's answer to a batch from first to last.
func (o Outbox) Acknowledge(first, last, acked uint64) error {
	if acked < first || acked > last {
		return fmt.Errorf("the server acknowledged event %d of a batch from %d to %d", acked, first, last)
	}
	return nil
}

// ErrEventsRefused means that the server answers and does not take the host's events.
var ErrEventsRefused = errors.New("the server refuses the events of this host")

// Resume is called when the server refused a batch that begins with first and says that
// it holds the events up to held, for a reason. It fails when this host cannot go on
// from there; otherwise what follows held is pending again.
func (o Outbox) Resume(first, held uint64, reason string) error {
	switch {
	case held > o.Last:
		return fmt.Errorf("%w: it has event %d and this host has only made %d: its state was set back or its identity runs twice; enrol it again (%s)", ErrEventsRefused, held, o.Last, reason)
	case held+1 == first:
		return fmt.Errorf("%w after %d: %s", ErrEventsRefused, held, reason)
	case held+1 < o.Oldest:
		return fmt.Errorf("%w: it asks for those from %d and this host keeps them from %d; enrol it again (%s)", ErrEventsRefused, held+1, o.Oldest, reason)
	}
	return nil
}

// Replay reports whether a server that holds the events up to held lost some that it
// acknowledged, and what counts as acknowledged then: the rest is sent again as far as
// it is kept.
func (o Outbox) Replay(held uint64) (acked uint64, lost bool) {
	if held >= o.Acked {
		return o.Acked, false
	}
	return max(held, max(o.Oldest, 1)-1), true
}
