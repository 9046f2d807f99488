package agent_test

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/agent"
)

// TestS33OutboxSendsAgainWhatAServerLost: whatever a server says that it holds, what is
// pending after it begins at the first event that it lacks, if that is kept, and nothing
// counts as acknowledged that the server does not hold and this host still has.
func TestS33OutboxSendsAgainWhatAServerLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		last := rapid.Uint64Range(0, 20).Draw(t, "last")
		acked := rapid.Uint64Range(0, last).Draw(t, "acked")
		o := agent.Outbox{Acked: acked, Last: last, Oldest: min(acked+1, rapid.Uint64Range(0, 20).Draw(t, "oldest"))}
		held := rapid.Uint64Range(0, 22).Draw(t, "held")
		next, lost := o.Replay(held)
		switch {
		case lost != (held < acked), !lost && next != acked:
			t.Fatalf("%+v, %d held: %d, lost %t", o, held, next, lost)
		case lost && next > held && next+1 != o.Oldest:
			t.Fatalf("%+v: %d counts as acknowledged, and %d are held", o, next, held)
		}
		first := acked + 1
		if err := o.Resume(first, held, "r"); errors.Is(err, agent.ErrEventsRefused) == (held <= last && held+1 >= o.Oldest && held+1 != first) {
			t.Fatalf("%+v, %d held: %v", o, held, err)
		}
		if err := o.Acknowledge(first, last, held); (err == nil) != (held >= first && held <= last) {
			t.Fatalf("%+v, %d acknowledged: %v", o, held, err)
		}
	})
}
