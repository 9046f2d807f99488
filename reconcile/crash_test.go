package reconcile_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/steadyfleet/steady/reconcile/engine"
	"github.com/steadyfleet/steady/reconcile/reconciletest"
)

// outcomeOf is the end state that a crash must not change.
type outcomeOf struct {
	Phases  map[string]engine.Phase
	Desired map[string]string
	World   map[string]string
}

// life drives one tree through its life: born with a leaf that fails once,
// changed, a leaf dropped, drifted, and one tree deleted. Every process that
// dies is followed by another.
func life(t *testing.T, in kept, dieAt int) (outcomeOf, int) {
	l := newLab(t, in)
	defer l.close()
	l.killer = reconciletest.NewCrasher(dieAt)
	l.w.breakLeaf("b", fails)
	l.start()
	settle := func() {
		t.Helper()
		for range 10 {
			pass(time.Minute)
			if l.killer.Crashed() {
				l.restart()
			}
		}
		pass(5 * time.Minute)
		l.quiet()
	}
	one, two := treeRef("one"), treeRef("two")
	l.set(engine.Upsert(one, tree{Leaves: []string{"a", "b", "c"}, Content: "1"}))
	l.set(engine.Upsert(two, tree{Leaves: []string{"x", "y"}, Content: "1"}))
	settle()
	l.set(engine.Upsert(one, tree{Leaves: []string{"a", "b"}, Content: "2"}))
	l.w.breakLeaf("x", lies)
	l.w.set("y", "by hand")
	settle()
	l.set(engine.Delete(two))
	l.w.breakLeaf("y", nothing)
	settle()
	out := outcomeOf{map[string]engine.Phase{}, map[string]string{}, map[string]string{}}
	for _, r := range l.rows() {
		out.Phases[r.Ref.String()] = r.Phase
		out.Desired[r.Ref.String()] = string(r.Desired)
	}
	for _, name := range l.w.names() {
		out.World[name], _ = l.w.get(name)
	}
	l.stop()
	return out, l.killer.Points()
}

// TestP7CrashBetweenAnyTwoWrites kills the controller before and after every write
// and every act of a whole life, restarts it on what the store kept, and wants the
// same end.
func TestP7CrashBetweenAnyTwoWrites(t *testing.T) {
	for name, storage := range storages {
		t.Run(name, func(t *testing.T) { crashBetweenAnyTwoWrites(t, storage) })
	}
}

func crashBetweenAnyTwoWrites(t *testing.T, storage func(string) kept) {
	var want outcomeOf
	points := 0
	synctest.Test(t, func(t *testing.T) { want, points = life(t, storage(t.TempDir()), -1) })
	if want.Phases["tree/one"] != engine.Converged || want.Phases["tree/two"] != engine.Deleted || len(want.World) != 2 {
		t.Fatalf("without a crash: %s", mustJSON(want))
	}
	if points < 40 {
		t.Fatalf("only %d crash points: the scenario does not do what it says", points)
	}
	step := 1
	if testing.Short() {
		step = 5 // the race detector makes each life long
	}
	for at := 0; at < points; at += step {
		synctest.Test(t, func(t *testing.T) {
			got, _ := life(t, storage(t.TempDir()), at)
			if d := cmp.Diff(want, got); d != "" {
				t.Fatalf("killed at point %d of %d (-want +got)\n%s", at, points, d)
			}
		})
		if t.Failed() {
			return
		}
	}
	t.Logf("%d crash points", points)
}
