package network_test

import (
	"context"
	"testing"

	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/dockertest"
	"github.com/steadyfleet/steady/internal/docker/network"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// The loop takes the reconciler with its policy, and brings a network from nothing
// to converged and back.
func TestInTheLoop(t *testing.T) {
	l := begin(t)
	phases := make(chan engine.Phase, 64)
	loop := reconcile.New(dockertest.Rows(t), reconcile.WithPurityChecks(), reconcile.WithAfterCommit(func(ts []engine.Transition) {
		for _, x := range ts {
			phases <- x.To
		}
	}))
	l.must(reconcile.Register(loop, spec.KindNetwork, l.manager, network.Policy()))
	ctx, cancel := context.WithCancel(l.ctx)
	done := make(chan error, 1)
	go func() { done <- loop.Run(ctx) }()
	ref := engine.Ref{Kind: spec.KindNetwork, ID: "front"}
	until := func(want engine.Phase) {
		t.Helper()
		for p := range phases {
			if p == want {
				return
			}
			if p == engine.Failed {
				t.Fatalf("failed: %+v", loop.LastTurn(l.ctx, ref))
			}
		}
	}
	_, err := loop.Apply(l.ctx, engine.Upsert(ref, network.Desired{Spec: full(), Run: "r"}), engine.Cause{Trigger: engine.TriggerOperator})
	l.must(err)
	until(engine.Converged)
	if l.count(l.owner.Title("front")) != 1 {
		t.Fatal("it is not there")
	}
	_, err = loop.Apply(l.ctx, engine.Delete(ref), engine.Cause{Trigger: engine.TriggerOperator})
	l.must(err)
	until(engine.Deleted)
	if l.count(l.owner.Title("front")) != 0 {
		t.Fatal("it is still there")
	}
	cancel()
	l.must(<-done)
}
