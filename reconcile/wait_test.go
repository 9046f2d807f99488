package reconcile_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
	"github.com/steadyfleet/steady/reconcile/reconciletest"
	"github.com/steadyfleet/steady/reconcile/sqlite"
)

func TestWaitConverged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		watched := leafPolicy
		watched.OnDrift = engine.Report
		l := reconciletest.NewLoop(t, reconcile.Of("leaf", leaves{w}, watched), reconcile.Of("tree", trees{w}, treePolicy))
		wait := func(d time.Duration, refs ...engine.Ref) error {
			ctx, stop := context.WithTimeoutCause(t.Context(), d, errPatience)
			defer stop()
			return l.Controller().WaitConverged(ctx, refs...)
		}
		is := func(err error, words string) {
			t.Helper()
			if words == "" && err != nil || words != "" && (err == nil || !strings.Contains(err.Error(), words)) {
				t.Errorf("waited: %v; want %q", err, words)
			}
		}
		a, tr := leafRef("a"), treeRef("t")
		is(wait(time.Minute), "")
		is(wait(time.Minute, a), "no such resource")
		w.breakLeaf("a", fails, fails)
		l.Apply(engine.Upsert(a, leaf{"x"}))
		is(wait(time.Millisecond, a), "leaf/a is retrying: broken; patience")
		is(wait(time.Minute, a), "")
		w.breakLeaf("b", failsForEver)
		l.Apply(engine.Upsert(tr, tree{Leaves: []string{"b"}}))
		is(wait(time.Minute, a, tr), "") // degraded, as its parent accepts
		l.WantPhase(tr, engine.Degraded)
		is(wait(time.Minute), "leaf/b is failed: gave up")
		w.heal()
		l.Apply(engine.Retry(leafRef("b")))
		is(wait(time.Minute), "")
		w.set("a", "by hand")
		l.Advance(10 * time.Minute)
		is(wait(time.Minute, a), "leaf/a is drifted: differs")
		l.Apply(engine.Delete(a))
		is(wait(time.Minute, a), "")
		l.WantPhase(a, engine.Deleted)
		// Who waits for what never comes is not left behind.
		w.breakLeaf("b", hangs)
		l.Apply(engine.Upsert(tr, tree{Leaves: []string{"b"}, Content: "new"}))
		ended := make(chan error, 1)
		go func(c *reconcile.Controller) { ended <- c.WaitConverged(context.Background(), leafRef("b"), a) }(l.Controller())
		go func() { ended <- wait(time.Minute) }()
		synctest.Wait()
		l.Restart()
		for range 2 {
			is(<-ended, reconcile.ErrStopped.Error())
		}
	})
}

var errPatience = errors.New("patience")

// TestWhatIsPurgedIsGone: a resource may be purged while somebody still waits for another one.
func TestWhatIsPurgedIsGone(t *testing.T) {
	gone := engine.Ref{Kind: "odd", ID: "gone"}
	m := odd{decide: func(v engine.View[leaf, int]) engine.Decision {
		if v.Resource.Delete {
			return asDesired(v)
		}
		return job(v)
	}}
	runOdd(t, m, engine.Policy{}, func(t *testing.T, l *reconcile.Controller, s *sqlite.Store) {
		for _, in := range []engine.Intent{engine.Upsert(gone, leaf{}), engine.Delete(gone)} {
			if _, err := l.Apply(t.Context(), in, hand); err != nil {
				t.Error(err)
			}
		}
		pass(time.Second)
		ended := make(chan error, 1)
		go func() { ended <- l.WaitConverged(t.Context(), oddRef, gone) }()
		synctest.Wait()
		if n, err := s.Purge(t.Context(), "odd", time.Now()); n != 1 || err != nil {
			t.Errorf("purged %d, %v", n, err)
		}
		if err := l.Deliver(t.Context(), oddRef, ask("1", "result", "")); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil {
			t.Errorf("waited: %v", err)
		}
	})
}
