package plan_test

import (
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/testkit"
)

// TestL5SharedReasonsAreEachHostsOwn checks that a host which is asked after others
// answers as one that is asked alone.
func TestL5SharedReasonsAreEachHostsOwn(t *testing.T) {
	shared := 0
	rapid.Check(t, func(t *rapid.T) {
		w, home := newRandomWorld(t)
		w.other = true // TestEveryInvariantOverRandomWorlds replays them
		steps := actions(w, home)
		live := steps[""]
		steps[""] = func(t *rapid.T) {
			live(t)
			all := plan.Explain(w.s, w.now)
			for _, name := range w.s.HostNames() {
				got, err := all.Why(name)
				alone, failed := plan.Why(w.s, name, w.now)
				if err != nil || failed != nil || !reflect.DeepEqual(got, alone) {
					t.Fatalf("host %s answers %+v (%v), alone %+v (%v)", name, got, err, alone, failed)
				}
				if len(got.WaveBlocks) > 0 || got.PendingBlock != nil {
					shared++
				}
			}
		}
		t.Repeat(steps)
	})
	if shared == 0 {
		t.Fatal("nothing was ever shared")
	}
}

// TestWhyNamesWhatFails: of a host that converged and whose enforced probe fails since,
// why says which probe, and in its own words why.
func TestWhyNamesWhatFails(t *testing.T) {
	w := onOne(t, "h0")
	h0 := w.hosts["h0"]
	says := func() string {
		a := testkit.Value(plan.Why(w.s, "h0", w.now))(t)
		return a.Message
	}
	if got := says(); strings.Contains(got, "fails") {
		t.Fatalf("it is well: %s", got)
	}
	h0.probed("up", false)
	h0.deliver()
	if got := says(); !strings.HasSuffix(got, "c@r1; probe up fails: exit 1") {
		t.Errorf("why says %q", got)
	}
	h0.probed("up", true)
	h0.deliver()
	if got := says(); strings.Contains(got, "fails") {
		t.Errorf("it is well again: %s", got)
	}
}
