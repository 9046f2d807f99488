package plan_test

import (
	"testing"

	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// P2: a rollout may end with most of its hosts away. When they return, what is
// bad for them breaks as many as its policy allows and one more, not all of them
// one after the other.
func TestP2HostsThatReturnDoNotBreakOneByOne(t *testing.T) {
	w := onOne(t, "h0 h1 h2 h3")
	w.breakOn(bundles[1], "h1 h2 h3")
	for _, h := range []string{"h1", "h2", "h3"} {
		w.presence(h, false)
	}
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 | h1 h2 h3", target: bundles[1]}))
	w.live(6)
	w.phase("c@r2", rollout.Terminal)
	w.presence("h1", true)
	w.live(4)
	w.expect("h0=converged/two h1=reverted/one")
	w.presence("h2", true)
	w.presence("h3", true)
	w.live(6)
	w.phase("c@r2", rollout.Terminal)
	w.expect("h0=converged/two h1=reverted/one h2=converged/one h3=converged/one")
	w.commit(plan.ClearQuarantine(w.s, "c", string(bundles[1]), "looked at", "ada", w.now))
	w.live(6)
	if h2, h3 := w.s.Hosts["h2"], w.s.Hosts["h3"]; h2.Machine.Manifest == "" || h2.Machine.Rollout != "c@r2" && h3.Machine.Rollout != "c@r2" {
		t.Errorf("nothing was granted after the quarantine was cleared: %s, %s", h2.Machine.Rollout, h3.Machine.Rollout)
	}
}
