package plan_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
	"github.com/steadyfleet/steady/internal/testkit"
)

func (w *world) prune(keep plan.Retention) {
	w.t.Helper()
	w.commit(plan.Prune(w.s, keep, w.now))
	w.tick()
}

func TestRetentionKeepsTheLastAndTheYoung(t *testing.T) {
	w := onOne(t, "h0")
	for i := range 6 {
		w.release(fleet.Queue, w.manifest(spec{ref: fmt.Sprint("v", i), waves: "h0", target: bundles[i%2+1]}))
		w.live(4)
	}
	keep := plan.Retention{Age: clock.Day, Keep: 3}
	w.prune(keep)
	if n := len(w.s.Rollouts); n != 7 {
		t.Fatalf("%d rollouts are left of 7 that are young", n)
	}
	w.now = w.now.Add(clock.Day)
	w.refresh()
	w.prune(keep)
	if len(w.s.Rollouts) != 3 || len(w.s.Order) != 3 || len(w.s.Pruned) != 4 || w.s.Find("c@r1") != nil {
		t.Fatalf("%d rollouts are left, %d in order, %d pruned", len(w.s.Rollouts), len(w.s.Order), len(w.s.Pruned))
	}
	row, ok := w.s.FindPruned("c@r1")
	if !ok || row.Phase != rollout.Terminal || row.EndedAt == 0 {
		t.Fatalf("what is kept is %+v", row)
	}
	w.prune(keep)
	if n := w.count(event.RolloutPruned{}, ""); n != 4 {
		t.Fatalf("%d rollouts were pruned", n)
	}
	w.release(fleet.Queue, w.manifest(spec{ref: "r9", waves: "h0", target: bundles[3]}))
	w.live(4)
	w.phase("c@r9", rollout.Terminal)
}

// A fleet that releases often holds no more than so many rollouts, however young: what it
// keeps of hosts and rollouts does not grow with its age.
func TestRetentionBoundsWhatIsYoung(t *testing.T) {
	w := onOne(t, "h0 h1 h2 h3 h4 h5 h6 h7")
	keep := plan.Retention{Age: 90 * clock.Day, Keep: 1, Most: 4}
	var sizes []int
	for i := range 30 {
		w.release(fleet.Queue, w.manifest(spec{ref: fmt.Sprint("v", i+10), waves: "h0 h1 h2 h3 h4 h5 h6 h7", target: bundles[i%2+1]}))
		w.live(4)
		w.prune(keep)
		if n := len(w.s.Rollouts); n > keep.Most {
			t.Fatalf("%d rollouts are kept after change %d", n, i)
		}
		sizes = append(sizes, len(testkit.Value(json.Marshal([]any{w.s.Rollouts, w.s.Hosts, w.s.Order}))(t)))
	}
	if row, ok := w.s.FindPruned("c@v10"); !ok || row.Phase != rollout.Terminal {
		t.Errorf("what is kept of the first is %+v", row)
	}
	if second, last := slices.Max(sizes[10:20]), slices.Max(sizes[20:]); last > second+second/20 {
		t.Errorf("the state of the last ten changes has up to %d bytes, of those before %d", last, second)
	}
}

// A host that was away on a rollout nobody else is on keeps it from going: it is
// newer than what converged last, and the host must not be taken back.
func TestS13RolloutThatAHostStandsOnIsKept(t *testing.T) {
	w := onOne(t, "h0 h1")
	w.hosts["h1"].online = false
	w.presence("h1", false)
	w.release(fleet.Supersede, w.manifest(spec{ref: "r2", waves: "h0 | h1", target: bundles[1], minSoaked: 1, soak: clock.Hour}))
	for w.s.Hosts["h0"].Machine.Current != bundles[1] {
		w.live(1)
	}
	w.presence("h0", false)
	w.release(fleet.Supersede, w.manifest(spec{ref: "r3", waves: "h0 h1", target: bundles[2]}))
	w.tick()
	w.phase("c@r2", rollout.Superseded)
	w.now = w.now.Add(clock.Day)
	w.refresh()
	w.prune(plan.Retention{Age: 1})
	if w.s.Find("c@r2") == nil || w.s.Find("c@r1") == nil {
		t.Fatal("a rollout that a host stands on was pruned")
	}
	w.presence("h0", true)
	w.presence("h1", true)
	w.live(12)
	w.expect("h0=converged/three h1=converged/three")
	w.now = w.now.Add(clock.Day)
	w.prune(plan.Retention{Age: 1})
	if w.s.Find("c@r2") != nil || w.s.Find("c@r1") != nil || w.s.Find("c@r3") == nil {
		t.Fatalf("%d rollouts are left", len(w.s.Rollouts))
	}
}
