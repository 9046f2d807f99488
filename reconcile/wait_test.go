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
		// What is purged while somebody waits for it is gone too.
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
