package plan_test

import (
	"slices"
	"testing"

	"github.com/steadyfleet/steady/internal/core/audit"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// TestS40BoundHoldsWhereTheFirstWaveHasNothingToChange: a wave that passes without
// evidence does not hand the whole next wave to a bundle that nobody has proven.
func TestS40BoundHoldsWhereTheFirstWaveHasNothingToChange(t *testing.T) {
	w := onOne(t, "h0 h1 h2 h3")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 | h1 h2 h3", target: bundles[1], canaryMax: 1,
		targets: map[string]digest.Digest{"h0": bundles[0]}}))
	w.tick()
	if n := w.granted("c@r2"); n != 1 {
		t.Fatalf("%d hosts were granted before one converged, expected 1\n%s", n, w.tail())
	}
	a, err := plan.Why(w.s, "h2", w.now)
	if err != nil || a.Block == nil || a.Block.Code != gate.Canary {
		t.Fatalf("h2 waits for %+v, %v", a, err)
	}
	w.live(6)
	w.phase("c@r2", rollout.Terminal)
	w.expect("h0=converged/one h1=converged/two h2=converged/two h3=converged/two")
}

// TestS40OthersStandInForACanaryThatNeverCame: the order in which hosts enrol does not
// decide whether a bundle is tried by few first, nor does it once the canary comes.
func TestS40OthersStandInForACanaryThatNeverCame(t *testing.T) {
	w := scene(t, "h1 h2 h3")
	w.release(fleet.Queue, w.manifest(spec{ref: "r1", waves: "h0 | h1 h2 h3", target: bundles[0]}))
	w.tick()
	w.enrol("h0")
	w.presence("h0", true)
	w.tick()
	if n := w.granted("c@r1"); n != 1 {
		t.Fatalf("%d hosts were granted before one converged, expected 1\n%s", n, w.tail())
	}
	w.why("h2", gate.Canary)
	w.s = w.restored()
	w.why("h2", gate.Canary)
	w.live(6)
	w.phase("c@r1", rollout.Terminal)
	w.expect("h0=converged/one h1=converged/one h2=converged/one h3=converged/one")
}

// TestS40NoMoreAreTriedThanTheBound: tolerated failures spend the bound as well,
// and a host that is granted again spends nothing more.
func TestS40NoMoreAreTriedThanTheBound(t *testing.T) {
	w := onOne(t, "h0 h1 h2")
	w.breakOn(bundles[1], "h0 h1 h2")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 h1 h2", target: bundles[1], canaryMax: 2, maxFailures: 3}))
	w.live(12)
	w.expect("h0=reverted/one h1=reverted/one h2=converged/one")
	if a, err := plan.Why(w.s, "h2", w.now); err != nil || a.Block == nil || a.Block.Code != gate.Canary {
		t.Fatalf("h2 waits for %+v, %v", a, err)
	}
}

// TestAuditSeesMoreCanariesThanAllowed: the checker counts by itself.
func TestAuditSeesMoreCanariesThanAllowed(t *testing.T) {
	w := onOne(t, "h0 h1 h2")
	m := w.manifest(spec{ref: "r2", waves: "h0 h1 h2", target: bundles[1]})
	w.release(fleet.Queue, m)
	w.live(6)
	w.phase("c@r2", rollout.Terminal)
	m.Header.CanaryMax = 2 // as if the planner had not kept it
	l, seen := audit.NewLog(w.docs), false
	for i, e := range w.log {
		seen = seen || slices.ContainsFunc(l.Observe(uint64(i+1), e), func(v audit.Violation) bool { return v.Invariant == "S40" })
	}
	if !seen {
		t.Error("three canaries of two are not seen")
	}
}

// granted counts the hosts that a rollout granted.
func (w *world) granted(name string) int {
	n := 0
	for _, e := range w.log {
		if ev, err := event.Decode(e); err == nil {
			if g, is := ev.(event.Granted); is && g.Rollout == name {
				n++
			}
		}
	}
	return n
}

// TestS40ClaimIsWithinTheBoundThatItsOfferCounted has a server that was restored from
// a backup offer the one try that a host made under a claim that the backup lacks. The
// host says so before the offer is claimed.
func TestS40ClaimIsWithinTheBoundThatItsOfferCounted(t *testing.T) {
	w := onOne(t, "h0 h1")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 h1", target: bundles[1], canaryMax: 1}))
	backup := len(w.log)
	w.tick()
	h0 := w.hosts["h0"]
	h0.poll()
	h0.prepare(true)
	h0.claim(false)
	h0.deliver()
	w.restore(backup)
	w.presence("h0", false)
	w.tick()
	g := w.s.Hosts["h1"].Grant
	if g == nil || w.s.Hosts["h0"].Grant != nil {
		t.Fatalf("h1 was granted %+v\n%s", g, w.tail())
	}
	w.presence("h0", true)
	h0.deliver()
	w.claimsAfter(h0, g, "at most 1", "S40")
}
