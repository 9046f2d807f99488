package agent_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/agent"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/host"
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

// TestEventsLingerAMoment: what can wait is sent within a moment, however often more comes,
// and never before the server answers or takes events again.
func TestEventsLingerAMoment(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := agent.NewPace(30*clock.Second, 1)
		p.Replied(0, 1)
		now := clock.Instant(2)
		p.Lingers(now)
		first := now.Add(p.Next(clock.Day, now))
		if first <= now || first.Sub(now) > clock.Second {
			t.Fatalf("the first waits until %s", first)
		}
		for range rapid.IntRange(0, 5).Draw(t, "more") {
			now = now.Add(clock.Duration(rapid.Int64Range(0, int64(first.Sub(now))).Draw(t, "pause")))
			p.Lingers(now)
			if got := now.Add(p.Next(clock.Day, now)); got != first {
				t.Fatalf("more came at %s: %s instead of %s", now, got, first)
			}
		}
		wait := clock.Duration(rapid.Int64Range(1, int64(clock.Second)).Draw(t, "wait"))
		p.Failed(wait, now)
		if got := now.Add(p.Next(clock.Day, now)); got < now.Add(wait) {
			t.Fatalf("sends at %s to a server that is left alone until %s", got, now.Add(wait))
		}
		if later := now.Add(wait); !p.Sends(later) || p.Next(clock.Day, later) < clock.Second {
			t.Fatal("what was sent lingers on")
		}
	})
}

// TestPromptEvents: what ends something, or that others wait for, is sent at once.
func TestPromptEvents(t *testing.T) {
	for _, c := range []struct {
		e      event.Event
		prompt bool
	}{
		{event.HostStepped{From: host.Pending, To: host.Activating}, false},
		{event.HostStepped{From: host.Activating, To: host.Soaking}, true},
		{event.HostStepped{From: host.Soaking, To: host.Failed}, true},
		{event.ResourceReported{}, false},
		{event.GrantDeclined{}, true},
		{event.BundleQuarantined{}, true},
	} {
		if agent.Prompt(c.e) != c.prompt {
			t.Errorf("%s %+v: prompt %t", c.e.EventType(), c.e, !c.prompt)
		}
	}
}
