package plan_test

import (
	"testing"

	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// TestWhoGoesAfterAnotherIsLookedAtOnce: a wave that waits for one host is not looked
// at again before that host has arrived, and then goes at once; hosts that hold a slot
// already do as the others.
func TestWhoGoesAfterAnotherIsLookedAtOnce(t *testing.T) {
	w := onOne(t, "h0 h1 h2 h3")
	w.breakOn(bundles[1], "h3")
	w.release(fleet.Supersede, w.manifest(spec{ref: "r2", waves: "h3", target: bundles[1], policy: fleet.Halt}))
	w.live(8)
	after := map[string][]string{"h1": {"h0"}, "h2": {"h0", "h1"}, "h3": {"h0"}}
	w.release(fleet.Supersede, w.manifest(spec{ref: "r3", waves: "h0 h1 h2 h3", target: bundles[2], after: after, policy: fleet.Halt}))
	w.tick()
	r := w.phase("c@r3", rollout.Active)
	looked := func() (ready, free int) {
		for k := range r.Classes {
			ready += r.Classes[k].Ready.Len()
			free += r.Classes[k].Free.Len()
		}
		return ready, free + r.InSlot.Len()
	}
	if ready, free := looked(); ready != 2 || free != 0 || !w.s.Hosts["h3"].InFlight() {
		t.Fatalf("%d members are ready and %d are looked at, expected 2 and 0\n%s", ready, free, w.tail())
	}
	w.presence("h2", false)
	w.working(4, "h0")
	if w.s.Hosts["h1"].Grant == nil || w.s.Hosts["h3"].Grant == nil || w.s.Hosts["h2"].Grant != nil {
		t.Fatalf("h1 and h3 may go, h2 not\n%s", w.tail())
	}
	w.presence("h2", true)
	w.live(8)
	w.expect("h0=converged/three h1=converged/three h2=converged/three h3=converged/three")
}
