package deploy

import (
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// LayerKind is the kind of the managed layer of a host: the container resources that
// are set through the API rather than by a release.
const LayerKind = "layer"

// ManagedLayer names the one managed layer of a host, the parent of them all; it is a
// root.
var ManagedLayer = engine.Ref{Kind: LayerKind, ID: "managed"}

// CodeWaiting is the reason of a layer with resources that wait for others.
const CodeWaiting engine.Code = "waiting-for-resources"

// Layer is what is desired: the resources that the host's signed declaration
// lets through.
type Layer struct {
	Set      spec.Set       `json:"set"`
	Requests []LayerRequest `json:"requests,omitempty"`
	Until    []LayerEnd     `json:"until,omitempty"`
	Versions []LayerVersion `json:"versions,omitempty"`
}

// LayerRequest is a verb for one resource.
type LayerRequest struct {
	Kind    string `json:"kind"`
	Name    string `json:"name"`
	Verb    string `json:"verb"`
	Nonce   string `json:"nonce"`
	Version uint64 `json:"version,omitempty"` // of the managed layer, that asked
}

// LayerVersion is that of the managed layer which set a resource last.
type LayerVersion struct {
	Kind    string `json:"kind"`
	Name    string `json:"name"`
	Version uint64 `json:"version"`
}

// LayerEnd is the instant that a resource must not outlive.
type LayerEnd struct {
	Kind     string        `json:"kind"`
	Name     string        `json:"name"`
	NotAfter clock.Instant `json:"notAfter"`
}

// left is what has not ended. A clock that was set may be past an end that the resource's own row has later.
func (l *Layer) left(now clock.Instant) *spec.Set {
	var ended []spec.ID
	for _, e := range l.Until {
		if e.NotAfter.Reached(now) {
			ended = append(ended, spec.ID{Kind: e.Kind, Name: e.Name})
		}
	}
	if len(ended) == 0 {
		return &l.Set
	}
	return l.Set.Without(ended)
}

// DecideLayer sets what of a managed layer may be set now. Unlike a generation, it lets
// each resource fail for itself.
func DecideLayer(title spec.NameMapper, v engine.View[Layer, struct{}]) engine.Decision {
	w := Want{Run: LayerKind, Title: title, Requests: map[spec.ID]Request{}, Until: map[spec.ID]clock.Instant{}, Versions: map[spec.ID]uint64{}}
	if !v.Resource.Delete {
		d := v.Resource.Desired
		w.Set = d.left(clock.FromTime(v.Now))
		for _, a := range d.Requests {
			w.Requests[spec.ID{Kind: a.Kind, Name: a.Name}] = Request{Verb: a.Verb, Nonce: a.Nonce, Version: a.Version}
		}
		for _, e := range d.Until {
			w.Until[spec.ID{Kind: e.Kind, Name: e.Name}] = e.NotAfter
		}
		for _, x := range d.Versions {
			w.Versions[spec.ID{Kind: x.Kind, Name: x.Name}] = x.Version
		}
	}
	p := Next(w, v.Children)
	if len(p.Waiting) > 0 {
		return engine.Wait(engine.NewReason(CodeWaiting, p.Message())).With(p.Intents...)
	}
	return engine.IsConverged(engine.Reason{}).With(p.Intents...)
}
