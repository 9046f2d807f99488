package deploy

import (
	"cmp"

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
	// StopFrom is from when it may be stopped for that; zero is NotAfter.
	StopFrom clock.Instant `json:"stopFrom,omitempty"`
	Owner    spec.Owner    `json:"owner,omitempty"`
}

// ending is what ends together: the resources of one owner that have one end.
type ending struct {
	owner    spec.Owner
	notAfter clock.Instant
}

// beginsAt is when the end of a resource begins: as long before it as the slowest of what ends with it may take
// to stop, and no sooner than it may.
func (e *LayerEnd) beginsAt(takes map[ending]clock.Duration) clock.Instant {
	return min(e.NotAfter, max(cmp.Or(e.StopFrom, e.NotAfter), e.NotAfter.Add(-takes[ending{e.Owner, e.NotAfter}])))
}

// left is what has not begun to end, and when the next of it does; zero: never. A clock that was set may be past
// an end that the resource's own row has later.
func (l *Layer) left(now clock.Instant) (left *spec.Set, next clock.Instant) {
	takes := map[ending]clock.Duration{}
	for _, e := range l.Until {
		if w := l.Set.Workspace(e.Name); w != nil && e.Kind == spec.KindWorkspace {
			takes[ending{e.Owner, e.NotAfter}] = max(takes[ending{e.Owner, e.NotAfter}], w.StopTime())
		}
	}
	var ended []spec.ID
	for i := range l.Until {
		e := &l.Until[i]
		if at := e.beginsAt(takes); at.Reached(now) {
			ended = append(ended, spec.ID{Kind: e.Kind, Name: e.Name})
		} else {
			next = clock.Earliest(next, at)
		}
	}
	if len(ended) == 0 {
		return &l.Set, next
	}
	return l.Set.Without(ended), next
}

// DecideLayer sets what of a managed layer may be set now. Unlike a generation, it lets
// each resource fail for itself.
func DecideLayer(title spec.NameMapper, v engine.View[Layer, struct{}]) engine.Decision {
	w := Want{Run: LayerKind, Title: title, Requests: map[spec.ID]Request{}, Until: map[spec.ID]clock.Instant{}, Versions: map[spec.ID]uint64{}}
	var next clock.Instant
	if !v.Resource.Delete {
		d := v.Resource.Desired
		w.Set, next = d.left(clock.FromTime(v.Now))
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
	d := engine.IsConverged(engine.Reason{})
	if len(p.Waiting) > 0 {
		d = engine.Wait(engine.NewReason(CodeWaiting, p.Message()))
	}
	if next != 0 {
		d = d.RequeueAt(next.Time())
	}
	return d.With(p.Intents...)
}
