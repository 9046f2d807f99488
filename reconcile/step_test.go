package reconcile_test

import (
	"context"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
	"github.com/steadyfleet/steady/reconcile/memory"
)

// clocked is a kind that is converged, and asks to be looked at again after a while.
type clocked struct{ looked []time.Time }

func (*clocked) Observe(context.Context, engine.Resource[leaf]) (int, error) { return 0, nil }
func (c *clocked) Decide(v engine.View[leaf, int]) engine.Decision {
	c.looked = append(c.looked, v.Now)
	return engine.IsConverged(engine.NewReason("as-desired", "")).RequeueAt(v.Now.Add(7 * time.Minute))
}
func (*clocked) Act(context.Context, engine.Resource[leaf], engine.Action) error { return nil }

// TestStepperGoesFromOneTurnToTheNext: all that is due is done in the caller's goroutine, acts too; what is
// converged is looked at when it asked for it; and a stepper that was stopped does nothing.
func TestStepperGoesFromOneTurnToTheNext(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	w, c := newWorld(), &clocked{}
	loop := reconcile.New(memory.New(), reconcile.WithNow(func() time.Time { return now }))
	testkit.Must(t, reconcile.Register(loop, "tree", trees{w}, engine.Policy{}))
	testkit.Must(t, reconcile.Register(loop, "leaf", quick{leaves{w}}, engine.Policy{}))
	testkit.Must(t, reconcile.Register(loop, "clocked", c, engine.Policy{}))
	s := testkit.Value(loop.Stepper(t.Context()))(t)
	if _, err := loop.Stepper(t.Context()); err == nil {
		t.Error("two steppers of one controller")
	}
	for _, in := range []engine.Intent{engine.Upsert(treeRef("t"), tree{Leaves: []string{"a", "b"}, Content: "x"}), engine.Upsert(engine.Ref{Kind: "clocked", ID: "c"}, leaf{})} {
		_ = testkit.Value(loop.Apply(t.Context(), in, engine.Cause{Trigger: engine.TriggerOperator}))(t)
	}
	if len(w.names())+len(c.looked) != 0 {
		t.Fatal("something happens between steps")
	}
	next := s.Step()
	if row := testkit.Value(loop.Get(t.Context(), treeRef("t")))(t); row.Phase != engine.Converged || len(w.names()) != 2 {
		t.Fatalf("%s with %v after a step", row.Phase, w.names())
	}
	for range 3 {
		now = next
		next = s.Step()
	}
	if n := len(c.looked); n != 4 || !c.looked[3].Equal(c.looked[0].Add(21*time.Minute)) {
		t.Errorf("looked at %v", c.looked)
	}
	s.Stop()
	now = now.Add(time.Hour)
	if s.Step(); len(c.looked) != 4 {
		t.Error("it goes on after its end")
	}
}

// quick acts at once.
type quick struct{ leaves }

func (q quick) Act(_ context.Context, r engine.Resource[leaf], a engine.Action) error {
	q.w.mu.Lock()
	defer q.w.mu.Unlock()
	a.(leafAction).do(q.w, r.Ref.ID)
	return nil
}
