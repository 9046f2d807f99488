package plan_test

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/plan"
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
			all := plan.Ask(w.s, w.now)
			for _, name := range w.s.HostNames() {
				got, err := all.Why(name)
				alone, failed := plan.Why(w.s, name, w.now)
				if err != nil || failed != nil || !reflect.DeepEqual(got, alone) {
					t.Fatalf("host %s answers %+v (%v), alone %+v (%v)", name, got, err, alone, failed)
				}
				if len(got.Holds) > 0 || got.PendingBlock != nil {
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
