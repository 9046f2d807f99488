// Package layer manages the managed layer of a host: the container resources
// that are set through the API rather than by a release. Its one resource is the
// parent of them all; unlike a generation it lets each fail for itself.
package layer

import (
	"context"
	"fmt"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/container"
	"github.com/steadyfleet/steady/internal/core/deploy"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// Kind of the managed layer.
const Kind = "layer"

// Current names the one managed layer of a host; it is a root.
var Current = engine.Ref{Kind: Kind, ID: "managed"}

// CodeWaiting is the reason of a layer with resources that wait for others.
const CodeWaiting engine.Code = "waiting_for_resources"

// Layer is what is desired: the resources that the host's signed declaration
// lets through.
type Layer struct {
	Set      container.Set `json:"set"`
	Asks     []Ask         `json:"asks,omitempty"`
	Until    []End         `json:"until,omitempty"`
	Versions []Version     `json:"versions,omitempty"`
}

// Ask is a verb for one resource.
type Ask struct {
	Kind    string `json:"kind"`
	Name    string `json:"name"`
	Verb    string `json:"verb"`
	Nonce   string `json:"nonce"`
	Version uint64 `json:"version,omitempty"` // of the managed layer, that asked
}

// Version is that of the managed layer which set a resource last.
type Version struct {
	Kind    string `json:"kind"`
	Name    string `json:"name"`
	Version uint64 `json:"version"`
}

// End is the instant that a resource must not outlive.
type End struct {
	Kind     string        `json:"kind"`
	Name     string        `json:"name"`
	NotAfter clock.Instant `json:"notAfter"`
}

// manager is a reconcile.Manager of layers.
type manager struct{ title container.Titled }

// Register adds the kind to a loop.
func Register(l *reconcile.Loop, title container.Titled) error {
	return reconcile.Register(l, Kind, &manager{title}, engine.Policy{
		OnChildFailure: engine.Continue, OnDrift: engine.Enforce,
		Resync: 10 * clock.Minute, Revive: 5 * clock.Minute, History: engine.History{Keep: 20},
	})
}

// Observe has nothing to look at: the resources observe themselves.
func (m *manager) Observe(context.Context, engine.Resource[Layer]) (struct{}, error) {
	return struct{}{}, nil
}

// Act has nothing to do: a layer only sets its resources.
func (m *manager) Act(context.Context, engine.Resource[Layer], engine.Action) error {
	return fmt.Errorf("a managed layer has no action of its own")
}

// Decide sets what may be set now.
func (m *manager) Decide(v engine.View[Layer, struct{}]) engine.Decision {
	w := deploy.Want{Run: Kind, Title: m.title, Asks: map[container.ID]deploy.Ask{}, Until: map[container.ID]engine.Instant{}, Versions: map[container.ID]uint64{}}
	if !v.Resource.Retire {
		d := v.Resource.Desired
		w.Set = &d.Set
		for _, a := range d.Asks {
			w.Asks[container.ID{Kind: a.Kind, Name: a.Name}] = deploy.Ask{Verb: a.Verb, Nonce: a.Nonce, Version: a.Version}
		}
		for _, e := range d.Until {
			w.Until[container.ID{Kind: e.Kind, Name: e.Name}] = e.NotAfter
		}
		for _, x := range d.Versions {
			w.Versions[container.ID{Kind: x.Kind, Name: x.Name}] = x.Version
		}
	}
	p := deploy.Next(w, v.Children)
	if len(p.Waiting) > 0 {
		return engine.Wait(0, engine.Because(CodeWaiting, p.Words())).With(p.Intents...)
	}
	return engine.IsConverged(engine.Reason{}).With(p.Intents...)
}
