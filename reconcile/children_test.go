package reconcile_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/memory"
)

// crowd is a parent of so many children, which counts the children that its decisions saw.
type crowd struct{ seen *int }

func (crowd) Observe(context.Context, reconcile.Resource[int]) (struct{}, error) {
	return struct{}{}, nil
}

func (c crowd) Decide(v reconcile.View[int, struct{}]) reconcile.Decision {
	*c.seen += len(v.Children)
	d := reconcile.IsConverged(reconcile.Because("as-desired", ""))
	for i := range v.Resource.Desired {
		d = d.With(reconcile.Upsert(reconcile.Ref{Kind: "leaf", ID: fmt.Sprint(i)}, leaf{"x"}))
	}
	return d
}

func (crowd) Act(context.Context, reconcile.Resource[int], reconcile.Action) error { return nil }

// oneByOne are leaves whose acts end one after the other, half a millisecond apart.
type oneByOne struct{ instant }

func (o oneByOne) Act(ctx context.Context, r reconcile.Resource[leaf], a reconcile.Action) error {
	n, err := strconv.Atoi(r.Ref.ID)
	if err != nil {
		return err
	}
	pass(time.Duration(n) * time.Millisecond / 2)
	return o.instant.Act(ctx, r, a)
}

// TestChildrenCostTheirParentALinearSum: what the turns of a parent see of its children, by child, does not
// rise with their number.
func TestChildrenCostTheirParentALinearSum(t *testing.T) {
	for _, n := range []int{250, 1000, 2000} {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			seen, w := 0, newWorld()
			c := reconcile.New(memory.New(), reconcile.WithWorkers(n+1))
			testkit.Must(t, reconcile.Register(c, "leaf", oneByOne{instant{w}}, reconcile.Policy{}))
			testkit.Must(t, reconcile.Register(c, "crowd", crowd{&seen}, reconcile.Policy{}))
			ref := reconcile.Ref{Kind: "crowd", ID: "all"}
			testkit.Value(c.Apply(ctx, reconcile.Upsert(ref, n), reconcile.By("me")))(t)
			go func() { _ = c.Run(ctx) }()
			testkit.Must(t, c.WaitConverged(ctx, ref))
			if seen > 150*n {
				t.Errorf("%d children: the parent saw %d of them, want at most 150 for each", n, seen)
			}
		})
	}
}

// TestAFewChildrenAreSeenAtOnce: the pause between turns of a parent is for many children.
func TestAFewChildrenAreSeenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		seen, w := 0, newWorld()
		c := reconcile.New(memory.New())
		testkit.Must(t, reconcile.Register(c, "leaf", leaves{w}, reconcile.Policy{}))
		testkit.Must(t, reconcile.Register(c, "crowd", crowd{&seen}, reconcile.Policy{}))
		ref := reconcile.Ref{Kind: "crowd", ID: "all"}
		testkit.Value(c.Apply(ctx, reconcile.Upsert(ref, 50), reconcile.By("me")))(t)
		began := time.Now()
		go func() { _ = c.Run(ctx) }()
		testkit.Must(t, c.WaitConverged(ctx, ref))
		// Each act takes a millisecond, and eight run at once.
		if took := time.Since(began); took > 8*time.Millisecond {
			t.Errorf("50 children took %s, want what their acts take", took)
		}
	})
}

// instant is a kind of leaves that take no time: what is measured is the framework.
type instant struct{ w *world }

func (i instant) Observe(_ context.Context, r reconcile.Resource[leaf]) (string, error) {
	s, _ := i.w.get(r.Ref.ID)
	return s, nil
}

func (instant) Decide(v reconcile.View[leaf, string]) reconcile.Decision {
	if v.Observed != v.Resource.Desired.Content {
		return reconcile.Do(write{v.Resource.Desired.Content}, reconcile.Because("differs", ""))
	}
	return reconcile.IsConverged(reconcile.Because("as-desired", ""))
}

func (i instant) Act(_ context.Context, r reconcile.Resource[leaf], a reconcile.Action) error {
	i.w.set(r.Ref.ID, a.(write).Content)
	return nil
}

// BenchmarkChildren brings up a parent with so many children, in memory. The time for one child
// (ns/child) does not rise with their number.
func BenchmarkChildren(b *testing.B) {
	for _, n := range []int{500, 4000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				ctx, stop := context.WithCancel(b.Context())
				seen, w := 0, newWorld()
				c := reconcile.New(memory.New())
				testkit.Must(b, reconcile.Register(c, "leaf", instant{w}, reconcile.Policy{}))
				testkit.Must(b, reconcile.Register(c, "crowd", crowd{&seen}, reconcile.Policy{}))
				ref := reconcile.Ref{Kind: "crowd", ID: "all"}
				testkit.Value(c.Apply(ctx, reconcile.Upsert(ref, n), reconcile.By("me")))(b)
				go func() { _ = c.Run(ctx) }()
				testkit.Must(b, c.WaitConverged(ctx, ref))
				stop()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/child")
		})
	}
}
