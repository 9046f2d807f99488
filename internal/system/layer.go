package system

import (
	"context"
	"fmt"
	"time"

	"github.com/steadyfleet/steady/internal/core/deploy"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// layers is the reconciler of the managed layer, which only sets its resources.
type layers struct{ title spec.NameMapper }

// RegisterLayer adds the managed layer to a controller.
func RegisterLayer(l *reconcile.Controller, title spec.NameMapper) error {
	return reconcile.Register(l, deploy.LayerKind, layers{title}, engine.Policy{
		OnChildFailure: engine.Continue, OnDrift: engine.Enforce,
		Resync: 10 * time.Minute, Revive: 5 * time.Minute, History: engine.History{Keep: 20},
	})
}

// Observe implements reconcile.Reconciler: the resources observe themselves.
func (layers) Observe(context.Context, engine.Resource[deploy.Layer]) (struct{}, error) {
	return struct{}{}, nil
}

// Act implements reconcile.Reconciler.
func (layers) Act(context.Context, engine.Resource[deploy.Layer], engine.Action) error {
	return fmt.Errorf("a managed layer has no action of its own")
}

// Decide implements reconcile.Reconciler.
func (l layers) Decide(v engine.View[deploy.Layer, struct{}]) engine.Decision {
	return deploy.DecideLayer(l.title, v)
}
