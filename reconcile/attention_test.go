package reconcile_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
	"github.com/steadyfleet/steady/reconcile/reconciletest"
)

func attention(t *testing.T, l *reconciletest.Loop) string {
	t.Helper()
	rows, err := l.Controller().Attention(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, r := range rows {
		out = append(out, fmt.Sprint(r.Ref, " ", r.Phase))
	}
	return strings.Join(out, ", ")
}

func TestAttention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		quick := leafPolicy
		quick.Revive = time.Hour
		l := reconciletest.NewLoop(t, reconcile.Of("leaf", leaves{w}, quick), reconcile.Of("tree", trees{w}, treePolicy))
		want := func(what string) {
			t.Helper()
			l.Advance(10 * time.Minute)
			if got := attention(t, l); got != what {
				t.Fatalf("needs a person: %q, want %q", got, what)
			}
		}
		w.breakLeaf("a", failsForEver)
		w.breakLeaf("b", failsForEver)
		l.Apply(engine.Upsert(leafRef("a"), leaf{"x"}))
		l.Apply(engine.Upsert(treeRef("t"), tree{Leaves: []string{"b"}}))
		want("leaf/a failed") // b is its parent's to answer for
		l.Restart()
		want("leaf/a failed")
		if _, err := l.Controller().Apply(t.Context(), engine.Acknowledge(treeRef("t"), ""), hand); err == nil {
			t.Error("acknowledged what has no alert")
		}
		l.Apply(engine.Acknowledge(leafRef("a"), "on it"))
		want("")
		l.Apply(engine.Retry(leafRef("a")))
		want("leaf/a failed")
		l.Apply(engine.Acknowledge(leafRef("a"), "still"))
		want("")
		w.heal()
		l.Advance(3 * time.Hour) // it gets another life
		l.WantPhase(leafRef("a"), engine.Converged)
		w.breakLeaf("a", failsForEver)
		w.set("a", "by hand")
		want("leaf/a failed") // a later failure, of the same generation
		w.heal()
		l.Apply(engine.Upsert(leafRef("a"), leaf{"y"}))
		want("")
		w.breakLeaf("a", failsForEver)
		l.Apply(engine.Delete(leafRef("a")))
		want("leaf/a orphaned")
		l.Apply(engine.Acknowledge(leafRef("a"), "removed by hand"))
		want("")
		l.WantPhase(leafRef("a"), engine.Orphaned)
	})
}

// TestARetriedChildIsNotBoundByWhatItMissed: though its parent says each time what it was bound by.
func TestARetriedChildIsNotBoundByWhatItMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		end := time.Now().Add(time.Minute)
		parent := func(v engine.View[leaf, int]) engine.Decision {
			return asDesired(v).With(engine.Upsert(leafRef("a"), leaf{"x"}).WithConvergeBy(end))
		}
		l := reconciletest.NewLoop(t, reconcile.Of("leaf", leaves{w}, leafPolicy), oddKind(engine.Policy{Resync: 10 * time.Second}, parent))
		w.breakLeaf("a", failsForEver)
		l.Apply(engine.Upsert(oddRef, leaf{}))
		l.Advance(5 * time.Minute)
		l.WantPhase(leafRef("a"), engine.Failed)
		w.heal()
		w.breakLeaf("a", hangs, hangs) // while its parent has turns
		l.Apply(engine.Retry(leafRef("a")))
		l.Advance(5 * time.Minute)
		l.WantPhase(leafRef("a"), engine.Converged)
		l.WantPhase(oddRef, engine.Converged)
	})
}
