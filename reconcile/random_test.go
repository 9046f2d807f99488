package reconcile_test

import (
	"os"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/reconcile/engine"
)

// TestP1toP10RandomLives draws owners, faults, drift, kicks, kills and
// restarts; after healing everything must have settled as desired.
func TestP1toP10RandomLives(t *testing.T) {
	for name, storage := range storages {
		t.Run(name, func(t *testing.T) { randomLives(t, storage) })
	}
}

func randomLives(t *testing.T, storage func(string) kept) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "steady-lives")
		if err != nil {
			t.Fatalf("%v", err)
		}
		defer os.RemoveAll(dir)
		rapid.SyncTest(t, func(t *rapid.T) {
			l := newLab(t, storage(dir))
			defer l.close()
			l.tree.OnChildFailure = rapid.SampledFrom([]engine.FailureAction{engine.Continue, engine.Abort}).Draw(t, "onChildFailure")
			l.start()
			for range rapid.IntRange(1, 25).Draw(t, "steps") {
				l.randomStep(t)
				l.invariants()
				l.queued()
			}
			l.healAndSettle(t)
		})
	})
}

var (
	treeNames = []string{"one", "two"}
	leafNames = map[string][]string{"one": {"a", "b", "c"}, "two": {"x", "y"}}
)

func (l *lab) randomStep(t *rapid.T) {
	name := rapid.SampledFrom(treeNames).Draw(t, "tree")
	kids := leafNames[name]
	kid := rapid.SampledFrom(kids).Draw(t, "leaf")
	switch rapid.SampledFrom([]string{"set", "set", "delete", "break", "break", "drift", "enqueue", "kill", "restart", "wait", "wait", "retry"}).Draw(t, "step") {
	case "set":
		n := rapid.IntRange(0, len(kids)).Draw(t, "leaves")
		l.set(engine.Upsert(treeRef(name), tree{Leaves: kids[:n], Content: rapid.SampledFrom([]string{"1", "2"}).Draw(t, "content")}))
	case "delete":
		l.set(engine.Delete(treeRef(name)))
	case "break":
		l.w.breakLeaf(kid, rapid.SliceOfN(rapid.SampledFrom([]fault{works, fails, lies, nothing, panics, hangs}), 1, 4).Draw(t, "faults")...)
	case "drift":
		if _, ok := l.w.get(kid); ok {
			l.w.set(kid, "by hand")
		}
	case "enqueue":
		l.p.loop.Enqueue(leafRef(kid), engine.Cause{Trigger: engine.TriggerExternal})
	case "kill":
		l.killer.Crash()
		l.restart()
	case "restart":
		l.restart()
	case "wait":
		pass(time.Duration(rapid.IntRange(1, 400_000).Draw(t, "ms")) * time.Millisecond)
	case "retry":
		for _, r := range l.rows() {
			if r.Phase == engine.Failed || r.Phase == engine.Orphaned {
				l.set(engine.Retry(r.Ref))
				return
			}
		}
	}
}

// healAndSettle ends all faults, sets both trees anew, and wants the world as declared.
func (l *lab) healAndSettle(t *rapid.T) {
	l.w.heal()
	pass(15 * time.Minute) // whatever is still deleting ends
	for _, name := range treeNames {
		l.set(engine.Upsert(treeRef(name), tree{Leaves: leafNames[name][:1], Content: "end"}))
	}
	pass(30 * time.Minute)
	for _, r := range l.rows() {
		if r.Phase == engine.Failed || r.Phase == engine.Orphaned {
			l.set(engine.Retry(r.Ref))
		}
	}
	pass(30 * time.Minute)
	l.quiet()
	for _, name := range treeNames {
		l.wantPhase(treeRef(name), engine.Converged)
		if s, _ := l.w.get(leafNames[name][0]); s != "end" {
			t.Fatalf("leaf %s holds %q:\n%s", leafNames[name][0], s, l.story(leafRef(leafNames[name][0])))
		}
	}
	if names := l.w.names(); len(names) != 2 {
		t.Fatalf("the world holds %v, want one leaf a tree", names)
	}
	if n := l.p.loop.Stats().StoreErrs; n != 0 {
		t.Fatalf("%d store errors", n)
	}
}
