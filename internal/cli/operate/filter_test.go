package operate

import (
	"testing"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

func TestHostFilter(t *testing.T) {
	web := operator.Host{Name: "web-1", Channel: "stable", Tags: []string{"web", "eu"}, Online: true, Failed: "probe failing"}
	lab := operator.Host{Name: "lab-1", Channel: "lab"}
	for _, c := range []struct {
		f        hostFilter
		web, lab bool
	}{
		{hostFilter{}, true, true},
		{hostFilter{channel: "stable"}, true, false},
		{hostFilter{tag: "eu"}, true, false},
		{hostFilter{tag: "us"}, false, false},
		{hostFilter{offline: true}, false, true},
		{hostFilter{failed: true}, true, false},
		{hostFilter{failed: true, offline: true}, false, false},
		{hostFilter{channel: "lab", offline: true}, false, true},
	} {
		if w, l := c.f.picks(web), c.f.picks(lab); w != c.web || l != c.lab {
			t.Errorf("%+v picks %t %t, expected %t %t", c.f, w, l, c.web, c.lab)
		}
	}
}

// TestEveryStandingHasItsLegend: what a list can show is explained.
func TestEveryStandingHasItsLegend(t *testing.T) {
	explained := map[string]bool{}
	for _, s := range standings {
		explained[s.name] = s.means != ""
	}
	for _, phase := range []rollout.Phase{rollout.Opening, rollout.Active, rollout.Converging, rollout.Terminal, rollout.Failed, rollout.Reverted, rollout.Superseded} {
		for _, r := range []rollout.Rollout{{Phase: phase}, {Phase: phase, Paused: true}, {Phase: phase, Final: true}, {Phase: phase, Reverting: true}} {
			if is := plan.Status(&r); !explained[is] {
				t.Errorf("%q is not explained", is)
			}
		}
	}
}
