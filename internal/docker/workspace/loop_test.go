package workspace_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/dockerapi"
	"github.com/steadyfleet/steady/internal/docker/dockertest"
	"github.com/steadyfleet/steady/internal/docker/workspace"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// TestUnderTheLoop: the loop deploys, events tell it of what somebody does by
// hand, a bad declaration is given up with the one before in place, and one that
// waits for room is let in.
func TestUnderTheLoop(t *testing.T) {
	w := newWorld(t)
	store := dockertest.Rows(t)
	moved := make(chan engine.Transition, 1024)
	loop := reconcile.New(store, reconcile.WithPurityChecks(), reconcile.WithAfterCommit(func(ts []engine.Transition) {
		for _, tr := range ts {
			moved <- tr
		}
	}))
	w.o.Now = nil // the time is the real one
	w.o.Starts = dockerapi.NewPool(1, func(ref string) {
		loop.Enqueue(engine.Ref{Kind: spec.KindWorkspace, ID: ref[len(spec.KindWorkspace)+1:]}, engine.Cause{Trigger: engine.TriggerExternal})
	})
	w.anew()
	p := workspace.Policy()
	p.Retry = engine.RetryPolicy{Max: 2, Base: 10 * time.Millisecond, Cap: 20 * time.Millisecond}
	w.ok(reconcile.Register(loop, spec.KindWorkspace, w.m, p))
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := loop.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	e := w.open()
	wg.Go(func() {
		_ = e.Watch(ctx, func(ev dockerapi.Event) { // ends with ctx
			w.m.OnEvent(ev)
			for _, ref := range w.m.Affected(ev) {
				loop.Enqueue(ref, engine.Cause{Trigger: engine.TriggerExternal})
			}
		})
	})
	defer wg.Wait()
	defer cancel()
	await := func(to engine.Phase, ids ...string) {
		t.Helper()
		left := map[string]bool{}
		for _, id := range ids {
			left[id] = true
		}
		timeout := time.After(patience)
		for len(left) > 0 {
			select {
			case tr := <-moved:
				t.Logf("%s %s -> %s %s %s %s", tr.Ref.ID, tr.From, tr.To, tr.Reason, tr.Action, tr.Error)
				if tr.To == to {
					delete(left, tr.Ref.ID)
				}
			case <-timeout:
				t.Fatalf("%v do not become %s", left, to)
			}
		}
	}
	apply := func(id string) {
		t.Helper()
		ref := engine.Ref{Kind: spec.KindWorkspace, ID: id}
		_, err := loop.Apply(ctx, engine.Upsert(ref, w.r.Desired), engine.Cause{Trigger: engine.TriggerOperator})
		w.ok(err)
	}
	for _, id := range []string{"a", "b", "web"} {
		w.want(func(d *workspace.Desired) { d.Spec.Workspace.Name = id; d.Spec.Workspace.Update.Monitor = 200 })
		apply(id)
	}
	await(engine.Converged, "a", "b", "web")
	_, err := w.api.ContainerStop(ctx, w.n.Name("web"), client.ContainerStopOptions{})
	w.ok(err)
	await(engine.Converged, "web")
	before := w.box("web")
	if !before.State.Running {
		t.Errorf("state %+v", before.State)
	}
	w.want(func(d *workspace.Desired) { // it is given the time to fail
		d.Spec.Workspace.Command, d.Spec.Workspace.Update.Monitor = []string{"false"}, clock.Hour
	})
	apply("web")
	await(engine.Failed, "web")
	if after := w.box("web"); after.ID != before.ID || !after.State.Running {
		t.Errorf("not the one before: %+v", after.State)
	}
}
