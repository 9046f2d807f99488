package reconcile_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
	"github.com/steadyfleet/steady/reconcile/sqlite"
)

// counted counts reads of single resources.
type counted struct {
	*sqlite.Store
	loads atomic.Int64
}

func (c *counted) Load(ctx context.Context, ref engine.Ref) (engine.Snapshot, error) {
	c.loads.Add(1)
	return c.Store.Load(ctx, ref)
}

// Turns that only look again read no row while nothing is written; a write, be it
// the owner's own behind the controller's back, has every row read anew after it is enqueued.
func TestQuietTurnsReadNoRows(t *testing.T) {
	const n = 20
	synctest.Test(t, func(t *testing.T) {
		store := &counted{Store: openStore(t)}
		var latest atomic.Int64
		m := odd{decide: func(v engine.View[leaf, int]) engine.Decision {
			if v.Resource.Ref.ID == "A" {
				latest.Store(v.Resource.Generation)
			}
			return asDesired(v)
		}}
		for i := range n {
			testkit.Value(store.Apply(t.Context(), engine.Upsert(engine.Ref{Kind: "odd", ID: string(rune('A' + i))}, leaf{}), time.Now(), hand))(t)
		}
		loop := reconcile.New(store, reconcile.WithPurityChecks())
		testkit.Must(t, reconcile.Register(loop, "odd", m, engine.Policy{Resync: time.Minute}))
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- loop.Run(ctx) }()
		time.Sleep(150 * time.Second) // the start, and one resync that reads once more
		settled := store.loads.Load()
		time.Sleep(10 * time.Minute)
		if more := store.loads.Load() - settled; more != 0 {
			t.Errorf("%d rows read in ten minutes without a write", more)
		}
		ref := engine.Ref{Kind: "odd", ID: "A"}
		testkit.Value(store.Apply(t.Context(), engine.Upsert(ref, leaf{Content: "new"}), time.Now(), hand))(t)
		loop.Enqueue(ref, hand)
		time.Sleep(10 * time.Minute)
		if more := store.loads.Load() - settled; more < n || more > 2*n+2 || latest.Load() != 2 {
			t.Errorf("%d rows read after a write, want each of %d once more or twice; generation %d", more, n, latest.Load())
		}
		stop()
		testkit.Must(t, <-done)
	})
}
