package plan_test

import (
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// degrade commits that a host does not run its bundle, or its managed layer.
func (w *world) degrade(name string, bundle bool) {
	w.t.Helper()
	ev := event.HostDegraded{Resources: []event.DegradedResource{{Resource: "workspace/api", State: "Error"}}, Bundle: bundle}
	w.commit(plan.Record(w.s, name, w.now, ev))
}

// TestS8DegradedHostIsNoEvidence lets the one host of a wave converge and fall over
// before the wave is promoted: nothing goes on until it has recovered.
func TestS8DegradedHostIsNoEvidence(t *testing.T) {
	for name, c := range map[string]struct {
		bundle bool
		held   bool
	}{
		"its bundle":        {true, true},
		"its managed layer": {false, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := onOne(t, "h0 h1")
			w.degrade("h0", c.bundle)
			w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 | h1", target: bundles[1]}))
			w.live(6)
			if !c.held {
				w.phase("c@r2", rollout.Terminal)
				return
			}
			r := w.phase("c@r2", rollout.Active)
			b := plan.FirstBlock(w.s, r, w.now)
			if r.Blocked != "0/evidence" || r.Cursor != 0 || b == nil || !strings.Contains(b.Message, "1 converged and are degraded since") {
				t.Fatalf("rollout is held by %q at wave %d: %+v", r.Blocked, r.Cursor, b)
			}
			w.expect("h0=converged/two h1=converged/one")
			w.commit(plan.Record(w.s, "h0", w.now, event.HostRecovered{}))
			w.live(6)
			w.phase("c@r2", rollout.Terminal)
			w.expect("h1=converged/two")
		})
	}
}

// TestS8DegradedLastHostIsNoEvidence: a rollout of which nothing runs never ends.
func TestS8DegradedLastHostIsNoEvidence(t *testing.T) {
	w := onOne(t, "h0")
	w.degrade("h0", true)
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0", target: bundles[1]}))
	w.live(6)
	w.phase("c@r2", rollout.Converging)
	w.commit(plan.Promote(w.s, "c@r2", "w0", "it is known", "ada", w.now))
	w.phase("c@r2", rollout.Terminal)
}

// TestFailingProbeIsDegradedOnTheServersClock: of a converged host an enforce probe
// fails for longer than its policy calls sustained.
func TestFailingProbeIsDegradedOnTheServersClock(t *testing.T) {
	w := onOne(t, "h0")
	h := w.s.Hosts["h0"]
	if f := w.s.HealthFacts("h0", w.now); !f.Enrolled || !f.Runs || !f.Online || f.Moving || len(f.Failing) > 0 {
		t.Fatalf("a host that converged: %+v", f)
	}
	h.Clock = plan.HostClock{Ahead: 500, Known: true}
	h.Machine.Probes[0].Passing, h.Machine.Probes[0].FailingSince, h.Machine.Probes[0].Reason = false, w.now.Add(-500), "refused"
	by := w.now.Add(w.docs[h.Machine.Manifest].Header.Policy.SustainedFailure)
	if f := w.s.HealthFacts("h0", by.Add(-1)); len(f.Failing) > 0 && by > w.now || f.NextFailing != by && by > w.now {
		t.Errorf("before its time: %+v", f)
	}
	if f := w.s.HealthFacts("h0", by.Add(clock.Second)); len(f.Failing) != 1 || f.Failing[0].Name != "up" || f.Failing[0].Message != "refused" {
		t.Errorf("after its time: %+v", f)
	}
	h.Machine.Probes[0].Mode = fleet.Observe
	if f := w.s.HealthFacts("h0", by.Add(clock.Second)); len(f.Failing) > 0 {
		t.Errorf("a probe that only observes: %+v", f)
	}
}
