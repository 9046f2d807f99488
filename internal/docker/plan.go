package docker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/container"
	"github.com/steadyfleet/steady/internal/core/diff"
	core "github.com/steadyfleet/steady/internal/core/workspace"
	"github.com/steadyfleet/steady/internal/docker/network"
	"github.com/steadyfleet/steady/internal/docker/route"
	"github.com/steadyfleet/steady/internal/docker/volume"
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

// Preview says what setting a resource would do, or removing it when spec is
// empty, without doing any of it: it observes and decides as the manager would.
func (h *Host) Preview(ctx context.Context, kind, name string, spec json.RawMessage) (Preview, error) {
	if len(spec) == 0 {
		return h.previewRemoval(ctx, kind, name)
	}
	switch kind {
	case container.KindWorkspace:
		return h.previewWorkspace(ctx, name, spec)
	case container.KindNetwork:
		return preview(ctx, h, kind, name, spec, network.Reader{Manager: h.networks}, func(o network.Observed) []diff.Difference {
			for _, f := range o.Found {
				if len(f.Differences) > 0 {
					return f.Differences
				}
			}
			return nil
		})
	case container.KindVolume:
		return preview(ctx, h, kind, name, spec, h.volumes, func(o volume.Observed) []diff.Difference { return o.Differences })
	case container.KindImage:
		return preview(ctx, h, kind, name, spec, h.images, nil)
	case container.KindSnapshot:
		return preview(ctx, h, kind, name, spec, h.snapshots, nil)
	case container.KindRoute:
		if h.routes != nil {
			return preview(ctx, h, kind, name, spec, h.routes, func(o route.Observed) []diff.Difference { return o.Differences() })
		}
	}
	return Preview{}, fmt.Errorf("this host keeps no resource of kind %s", kind)
}

// previewer is the reading half of a manager.
type previewer[D, O any] interface {
	Observe(ctx context.Context, r engine.Resource[D]) (O, error)
	Decide(v engine.View[D, O]) engine.Decision
}

func preview[S, O any](ctx context.Context, h *Host, kind, name string, raw json.RawMessage,
	m previewer[container.Desired[S], O], differences func(O) []diff.Difference) (Preview, error) {
	s, err := read[S](raw)
	if err != nil {
		return Preview{}, err
	}
	r := engine.Resource[container.Desired[S]]{Ref: engine.Ref{Kind: kind, ID: name}, Generation: 1,
		Desired: container.Desired[S]{Spec: s, Run: "plan"}}
	o, err := m.Observe(ctx, r)
	if err != nil {
		return Preview{}, err
	}
	p := effect(m.Decide(engine.View[container.Desired[S], O]{Resource: r, Observed: o, Now: clock.FromTime(h.o.Now())}))
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
		p.Does, p.Why = DoesNothing, d.Reason().Words
	case d.Name() == "do":
		p.Does = does(d.Action())
	case d.Name() == "wait" && (d.Reason().Code == container.CodeStarting || d.Reason().Code == container.CodeRunsToEnd):
		p.Does = DoesNothing // it was done already
	default:
		p.Does = DoesBlocked
	}
	return p
}

func does(a engine.Action) string {
	switch a := a.(type) {
	case core.Create:
		if a.Replaces != "" {
			return DoesReplace
		}
		return DoesCreate
	case core.Swap, core.Promote, core.Restore:
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
	w, err := read[container.Workspace](raw)
	if err != nil {
		return Preview{}, err
	}
	var s container.Set
	if s.Networks, err = specs[container.Network](ctx, h, container.KindNetwork); err != nil {
		return Preview{}, err
	}
	if s.Volumes, err = specs[container.Volume](ctx, h, container.KindVolume); err != nil {
		return Preview{}, err
	}
	if s.Images, err = specs[container.Image](ctx, h, container.KindImage); err != nil {
		return Preview{}, err
	}
	if s.Snapshots, err = specs[container.Snapshot](ctx, h, container.KindSnapshot); err != nil {
		return Preview{}, err
	}
	uses := s.Uses(&w, h.Title)
	if uses.Image == "" {
		return Preview{Does: DoesBlocked, Why: fmt.Sprintf("image %s is not declared on this host: set it first", w.Image)}, nil
	}
	r := engine.Resource[container.Desired[container.Deployment]]{
		Ref: engine.Ref{Kind: container.KindWorkspace, ID: name}, Generation: -1,
		Desired: container.Desired[container.Deployment]{Spec: container.Deployment{Workspace: w, Uses: uses}, Run: "plan"},
	}
	o, err := h.workspaces.Preview(ctx, r)
	if err != nil {
		return Preview{}, err
	}
	p := effect(core.Decide(core.Want{Title: w.EngineName(h.Title), Run: w.State, ReportOnly: w.ReportOnly,
		StartFirst: o.StartFirst, Monitor: w.Update.Monitor, HealthWait: w.Update.HealthWait}, o.Seen, clock.FromTime(h.o.Now())))
	for _, c := range o.Seen.Containers {
		if c.Role == core.Main {
			p.Fields = c.Differences
		}
	}
	return p, nil
}

// previewRemoval says what would go.
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
	case container.KindVolume:
		p.Why = "its data stays unless the signed declaration has allowVolumeDelete"
	case container.KindWorkspace:
		p.Why = "its container goes with its anonymous volumes; named volumes stay"
	case container.KindImage:
		p.Why = "it is collected once nothing refers to it"
	}
	return p, nil
}
