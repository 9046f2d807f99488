package agent_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/agent"
	"github.com/steadyfleet/steady/internal/core/clock"
)

// TestPaceNeverWaitsPastWhatIsDue: whatever a server names, a heartbeat is never more than
// ten minutes away, and what is put off comes when it is due and not before.
func TestPaceNeverWaitsPastWhatIsDue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := clock.Instant(rapid.Int64Range(1, 1<<40).Draw(t, "now"))
		p := agent.NewPace(30*clock.Second, now)
		if !p.Beats(now) || !p.Sends(now) || !p.Prunes(now) || p.Prunes(now) {
			t.Fatal("a host begins with all that there is to do")
		}
		p.Replied(clock.Duration(rapid.Int64Range(-1, 1<<40).Draw(t, "interval")), now)
		due := clock.Duration(rapid.Int64Range(-1<<30, 1<<40).Draw(t, "due"))
		wait := clock.Duration(rapid.Int64Range(1, 1<<30).Draw(t, "wait"))
		p.PutOff(wait, now)
		p.Failed(wait, now)
		p.RenewLater(wait, now)
		if p.Sends(now) || p.Wakes(now) || p.Renews(due, now) || p.Beats(now) {
			t.Fatal("what was put off is done at once")
		}
		next := p.Next(due, now)
		if next <= 0 || next > 10*clock.Minute || next > wait {
			t.Fatalf("it comes back after %s", next)
		}
		later := now.Add(wait)
		if !p.Sends(later) || !p.Wakes(later) || p.Renews(due, later) != (due <= 0) {
			t.Fatal("what was put off is not done when it is due")
		}
	})
}

func TestRetention(t *testing.T) {
	now := clock.Instant(40 * clock.Day)
	if before, upTo := (agent.Outbox{Acked: 5, Last: 20_000}).Retention(now); before != clock.Instant(10*clock.Day) || upTo != 5 {
		t.Errorf("before %s, up to %d", before, upTo)
	}
	if _, upTo := (agent.Outbox{Acked: 20_000, Last: 20_000}).Retention(now); upTo != 10_000 {
		t.Errorf("up to %d", upTo)
	}
	if _, upTo := (agent.Outbox{Acked: 20, Last: 20}).Retention(now); upTo != 0 {
		t.Errorf("up to %d", upTo)
	}
}
