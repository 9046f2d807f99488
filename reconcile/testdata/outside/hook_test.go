package outside

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/memory"
)

// A deployment converges when a webhook says that it was approved, until its deadline.

type deployment struct{ Image string }

const deployments reconcile.KindOf[deployment] = "deployment"

type hookKind struct{}

func (hookKind) Observe(context.Context, reconcile.Resource[deployment]) (struct{}, error) {
	return struct{}{}, nil
}

func (hookKind) Decide(v reconcile.View[deployment, struct{}]) reconcile.Decision {
	if v.Resource.Delete {
		return reconcile.IsConverged(reconcile.Because("gone", ""))
	}
	for _, e := range v.Events {
		if e.Type == "approved" {
			return reconcile.IsConverged(reconcile.Because("approved", e.ID))
		}
	}
	return reconcile.Wait(reconcile.Because("awaits-approval", "it waits for the webhook"))
}

func (hookKind) Act(context.Context, reconcile.Resource[deployment], reconcile.Action) error {
	return nil
}

func TestHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log []memory.Write // what is left when the process is killed
		store := memory.New(memory.WithJournal(func(_ context.Context, w memory.Write) error { log = append(log, w); return nil }))
		life := func(store *memory.Store, f func(*reconcile.Controller)) {
			ctx, stop := context.WithCancel(t.Context())
			c, done := reconcile.New(store), make(chan error)
			if err := reconcile.Register(c, "deployment", hookKind{}, reconcile.Policy{}); err != nil {
				t.Fatal(err)
			}
			go func() { done <- c.Run(ctx) }()
			f(c)
			stop()
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
		ctx, now := t.Context(), time.Now()
		approved := reconcile.Event{Source: "ci", ID: "7", Type: "approved", Data: json.RawMessage(`{"by":"eve"}`)}
		life(store, func(c *reconcile.Controller) {
			_, a := c.Apply(ctx, deployments.Upsert("web", deployment{"v1"}).WithConvergeBy(now.Add(time.Hour)).WithNotAfter(now.Add(5*time.Hour)), reconcile.By("me"))
			_, b := c.Apply(ctx, deployments.Upsert("late", deployment{"v1"}).WithConvergeBy(now.Add(time.Hour)), reconcile.By("me"))
			if err := errors.Join(a, b, c.Deliver(ctx, deployments.Ref("web"), approved), c.Deliver(ctx, deployments.Ref("web"), approved)); err != nil {
				t.Fatal(err)
			}
			if err := c.Deliver(ctx, deployments.Ref("none"), approved); !errors.Is(err, reconcile.ErrNotFound) {
				t.Errorf("an event for nothing: %v", err)
			}
		})
		again := memory.New()
		for _, w := range log {
			if err := again.Fold(w); err != nil {
				t.Fatal(err)
			}
		}
		life(again, func(c *reconcile.Controller) {
			if err := c.WaitConverged(ctx, deployments.Ref("web")); err != nil {
				t.Error(err)
			}
			time.Sleep(2 * time.Hour)
			var not *reconcile.NotConvergedError
			if err := c.WaitConverged(ctx, deployments.Ref("late")); !errors.As(err, &not) || not.Row.Reason.Code != reconcile.CodeConvergeBy {
				t.Errorf("what was not approved: %v", err)
			}
			if rows, err := c.Attention(ctx); err != nil || len(rows) != 1 {
				t.Errorf("%d need a person, %v", len(rows), err)
			}
			time.Sleep(4 * time.Hour)
			if row, err := c.Get(ctx, deployments.Ref("web")); err != nil || row.Phase != reconcile.Deleted {
				t.Errorf("after its time it is %s, %v", row.Phase, err)
			}
		})
	})
}
