package docker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/core/replace"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/network"
	"github.com/steadyfleet/steady/internal/docker/storage"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// Effects of a preview.
const (
	DoesNothing = "none"
	DoesCreate  = "create"
	DoesInPlace = "in place"
	DoesReplace = "replace"
	DoesRemove  = "remove"
	DoesBlocked = "blocked"
)

// Preview is what setting a resource would do.
type Preview struct {
	Does   string
	Why    string
	Fields []diff.Difference
}

// Preview reports what setting a resource would do, or removing it when spec is
// empty, without doing any of it: it observes and decides as the reconciler would.
func (h *Host) Preview(ctx context.Context, kind, name string, value json.RawMessage) (Preview, error) {
	if len(value) == 0 {
		return h.previewRemoval(ctx, kind, name)
	}
	_, value, err := spec.Known.Read(kind, name, value) // with its name, which need not be in it
	if err != nil {
		return Preview{}, err
	}
	switch kind {
	case spec.KindWorkspace:
		return h.previewWorkspace(ctx, name, value)
	case spec.KindNetwork:
		return preview(ctx, h, kind, name, value, network.Reader{Reconciler: h.networks}, func(o network.Observed) []diff.Difference {
			for _, f := range o.Found {
				if len(f.Differences) > 0 {
					return f.Differences
				}
			}
			return nil
		})
	case spec.KindVolume:
		return preview(ctx, h, kind, name, value, h.volumes, func(o storage.VolumeObserved) []diff.Difference { return o.Differences })
	case spec.KindImage:
		return preview(ctx, h, kind, name, value, h.images, nil)
	case spec.KindSnapshot:
		return preview(ctx, h, kind, name, value, h.snapshots, nil)
	case spec.KindRoute:
		if h.routes != nil {
			return preview(ctx, h, kind, name, value, h.routes, func(o network.RouteObserved) []diff.Difference { return o.Differences() })
		}
	}
	return Preview{}, fmt.Errorf("this host keeps no resource of kind %s", kind)
}

// previewer is the reading half of a reconciler.
type previewer[D, O any] interface {
	Observe(ctx context.Context, r engine.Resource[D]) (O, error)
	Decide(v engine.View[D, O]) engine.Decision
}

func preview[S, O any](ctx context.Context, h *Host, kind, name string, raw json.RawMessage,
	m previewer[spec.Desired[S], O], differences func(O) []diff.Difference) (Preview, error) {
	s, err := read[S](raw)
	if err != nil {
		return Preview{}, err
	}
	r := engine.Resource[spec.Desired[S]]{Ref: engine.Ref{Kind: kind, ID: name}, Generation: 1,
		Desired: spec.Desired[S]{Spec: s, Run: "plan"}}
	o, err := m.Observe(ctx, r)
	if err != nil {
		return Preview{}, err
	}
	p := effect(m.Decide(engine.View[spec.Desired[S], O]{Resource: r, Observed: o, Now: h.o.Now()}))
	if differences != nil {
		p.Fields = differences(o)
	}
	return p, nil
}

func read[S any](raw json.RawMessage) (s S, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return s, fmt.Errorf("the resource is not what its kind looks like: %w", err)
	}
	return s, nil
}

// effect words a decision.
func effect(d engine.Decision) Preview {
	p := Preview{Why: d.Reason().String()}
	switch {
	case d.Name() == "converged":
		p.Does, p.Why = DoesNothing, d.Reason().Message
	case d.Name() == "do":
		p.Does = does(d.Action())
	case d.Name() == "wait" && (d.Reason().Code == spec.CodeStarting || d.Reason().Code == spec.CodeRunsToEnd):
		p.Does = DoesNothing // it was done already
	default:
		p.Does = DoesBlocked
	}
	return p
}

func does(a engine.Action) string {
	switch a := a.(type) {
	case replace.Create:
		if a.Replaces != "" {
			return DoesReplace
		}
		return DoesCreate
	case replace.Swap, replace.Promote, replace.Restore:
		return DoesReplace
	}
	switch a.ActionName() {
	case "create", "pull", "build", "load", "take", "set":
		return DoesCreate
	case "remove":
		return DoesRemove
	case "replace":
		return DoesReplace
	}
	return DoesInPlace
}

// previewWorkspace resolves what the workspace names among all that is declared.
func (h *Host) previewWorkspace(ctx context.Context, name string, raw json.RawMessage) (Preview, error) {
	w, err := read[spec.Workspace](raw)
	if err != nil {
		return Preview{}, err
	}
	var s spec.Set
	if s.Networks, err = specs[spec.Network](ctx, h, spec.KindNetwork); err != nil {
		return Preview{}, err
	}
	if s.Volumes, err = specs[spec.Volume](ctx, h, spec.KindVolume); err != nil {
		return Preview{}, err
	}
	if s.Images, err = specs[spec.Image](ctx, h, spec.KindImage); err != nil {
		return Preview{}, err
	}
	if s.Snapshots, err = specs[spec.Snapshot](ctx, h, spec.KindSnapshot); err != nil {
		return Preview{}, err
	}
	others, err := specs[spec.Deployment](ctx, h, spec.KindWorkspace)
	if err != nil {
		return Preview{}, err
	}
	for i := range others { // which it may be linked to
		if o := &others[i].Workspace; o.Name != w.Name {
			s.Workspaces = append(s.Workspaces, *o)
		}
	}
	uses := s.Uses(&w, h.Title)
	if uses.Image == "" {
		return Preview{Does: DoesBlocked, Why: fmt.Sprintf("image %s is not declared on this host: set it first", w.Image)}, nil
	}
	r := engine.Resource[spec.Desired[spec.Deployment]]{
		Ref: engine.Ref{Kind: spec.KindWorkspace, ID: name}, Generation: -1,
		Desired: spec.Desired[spec.Deployment]{Spec: spec.Deployment{Workspace: w, Uses: uses}, Run: "plan"},
	}
	o, err := h.workspaces.Preview(ctx, r)
	if err != nil {
		return Preview{}, err
	}
	p := effect(replace.Decide(h.workspaces.Want(&r, &o), o.Seen, clock.FromTime(h.o.Now())))
	for _, c := range o.Seen.Containers {
		if c.Role == replace.Main {
			p.Fields = c.Differences
		}
	}
	return p, nil
}

// previewRemoval reports what would go.
func (h *Host) previewRemoval(ctx context.Context, kind, name string) (Preview, error) {
	row, err := h.row(ctx, kind, name)
	switch {
	case err != nil:
		return Preview{}, err
	case row == nil:
		return Preview{Does: DoesNothing, Why: "it is not on this host"}, nil
	}
	p := Preview{Does: DoesRemove}
	switch kind {
	case spec.KindVolume:
		p.Why = "its data stays unless the signed declaration has allowVolumeDelete"
	case spec.KindWorkspace:
		p.Why = "its container goes with its anonymous volumes; named volumes stay"
	case spec.KindImage:
		p.Why = "it is collected once nothing refers to it"
	}
	return p, nil
}
