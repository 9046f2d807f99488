package reconcile_test

import (
	"sync"
	"testing"
	"time"

	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
	"github.com/steadyfleet/steady/reconcile/reconciletest"
)

// TestReplayOfALife: every decision of a life is made again as it was, unless the code changed.
func TestReplayOfALife(t *testing.T) {
	var recorded []reconcile.Recorded
	var mu sync.Mutex
	opts := reconcile.WithRecorder(func(r reconcile.Recorded) {
		mu.Lock()
		defer mu.Unlock()
		recorded = append(recorded, r)
	})
	inBubble(t, func(l *lab) { l.opts = append(l.opts, opts) }, func(l *lab) {
		l.w.breakLeaf("a", fails, lies)
		l.set(engine.Upsert(treeRef("t"), tree{Leaves: []string{"a", "b"}, Content: "x"}))
		pass(time.Minute)
		l.set(engine.Upsert(treeRef("thief"), tree{Leaves: []string{"a"}, Content: "y"})) // is refused
		pass(time.Minute)
		l.wantPhase(treeRef("thief"), engine.Failed)
		l.set(engine.Delete(treeRef("t")))
		pass(time.Minute)
		l.wantPhase(treeRef("t"), engine.Deleted)
	})
	kinds := map[string]int{}
	for _, r := range recorded {
		kinds[r.Ref.Kind]++
		if r.Ref.Kind == "tree" {
			reconciletest.Replay(t, trees{}, r)
			continue
		}
		reconciletest.Replay(t, leaves{}, r)
	}
	if kinds["leaf"] < 8 || kinds["tree"] < 4 {
		t.Errorf("recorded %v", kinds)
	}
	_, same, err := reconcile.Replay(hasty{}, recorded[0])
	if same || err != nil {
		t.Errorf("another decision: same %v, %v", same, err)
	}
}

// hasty are trees that want nothing below them.
type hasty struct{ trees }

func (hasty) Decide(engine.View[tree, struct{}]) engine.Decision {
	return engine.IsConverged(engine.NewReason("as-desired", ""))
}
