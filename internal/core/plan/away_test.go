package plan_test

import (
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/agent"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
	"github.com/steadyfleet/steady/internal/testkit"
)

// TestServerThatWasAwayGivesNobodyUp: a server that was away for longer than all that a policy allows gives the hosts
// that act their confirm window and three minutes to report, also those that it took for silent.
func TestServerThatWasAwayGivesNobodyUp(t *testing.T) {
	for _, silent := range []bool{false, true} {
		w := onOne(t, "h0 h1")
		w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 | h1", target: bundles[1], confirm: 30 * clock.Second}))
		w.tick()
		w.claimed("h0")
		if silent {
			w.presence("h0", false)
		}
		w.now = w.now.Add(10 * clock.Hour)
		w.refresh()
		w.record("", event.ServerResumed{Reason: "it began to lead"})
		due := w.now.Add(30*clock.Second + 3*clock.Minute)
		for _, at := range []clock.Instant{w.now, due - 1} {
			w.now = at
			w.tick()
			if n := w.count(event.HostFailedSilently{}, "h0"); n != 0 {
				t.Fatalf("silent %v: given up before its time\n%s", silent, w.tail())
			}
		}
		w.now = due
		w.tick()
		if n := w.count(event.HostFailedSilently{}, "h0"); n != 1 {
			t.Fatalf("silent %v: never given up\n%s", silent, w.tail())
		}
	}
}

// TestServersAbsenceBlamesNoBundle: a host that lost contact fails its rollout. Its bundle is quarantined if the
// server served all of the confirm window, and only then.
func TestServersAbsenceBlamesNoBundle(t *testing.T) {
	const confirm = 30 * clock.Second
	for name, c := range map[string]struct {
		back clock.Duration // when the server is back, since the activation; 0: it was not away
		want int
	}{
		"served all of it": {0, 1}, "back before it": {-clock.Second, 1}, "back within it": {clock.Second, 0}, "back after it": {confirm + clock.Second, 0},
	} {
		w := onOne(t, "h0 h1")
		w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 | h1", target: bundles[1], confirm: confirm}))
		w.tick()
		h0 := w.claimed("h0")
		activated := w.now.Add(20 * clock.Second)
		if c.back != 0 {
			w.now = activated.Add(c.back)
			w.record("", event.ServerResumed{Reason: "it began to lead"})
		}
		w.now = activated
		h0.activated(true)
		w.now = activated.Add(confirm)
		testkit.Must(t, h0.step(agent.Elapsed{}))
		w.now = activated.Add(confirm + 2*clock.Second)
		h0.deliver()
		w.tick()
		if got := w.count(event.QuarantineAdded{}, ""); got != c.want {
			t.Errorf("%s: %d quarantines, expected %d\n%s", name, got, c.want, w.tail())
		}
	}
}

// TestRevertThatBringsNoHostBack: a rollout of which a host could not go back is not called reverted.
func TestRevertThatBringsNoHostBack(t *testing.T) {
	w := onOne(t, "h0 h1")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 | h1", target: bundles[1], policy: fleet.RollbackAndHalt}))
	w.tick()
	h0 := w.claimed("h0")
	h0.activated(false)
	for range host.MaxReverts {
		h0.reverted(false)
	}
	h0.deliver()
	w.tick()
	r := w.phase("c@r2", rollout.Reverted)
	if got := plan.Status(r); got != rollout.StatusRevertFailed || !strings.Contains(r.Reason, "0 hosts went back, 1 could not") {
		t.Fatalf("%s: %s\n%s", got, r.Reason, w.tail())
	}
	if sum := w.s.RolloutSummary(r, w.now); !sum.Level.NeedsPerson() || len(sum.Next) == 0 {
		t.Errorf("%+v", sum)
	}
}
