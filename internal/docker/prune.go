package docker

import (
	"context"
	"fmt"
	"io"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/container"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// Prune removes what carries this host's labels and nobody declares: containers
// and networks. Volumes are listed and kept with their data; images go when
// nothing refers to them. With dry nothing is removed. Each is a line on w.
func (h *Host) Prune(ctx context.Context, dry bool, w io.Writer) error {
	workspaces, err := h.workspaces.Orphans(ctx)
	if err != nil {
		return err
	}
	networks, err := h.networks.Orphans(ctx)
	if err != nil {
		return err
	}
	volumes, err := h.volumes.Orphans(ctx)
	if err != nil {
		return err
	}
	verb := map[bool]string{true: "would remove", false: "removed"}[dry]
	for _, ref := range append(workspaces, networks...) {
		if !dry {
			if err := h.retire(ctx, ref); err != nil {
				return fmt.Errorf("remove %s: %w", ref, err)
			}
		}
		if _, err := fmt.Fprintf(w, "%s %s\n", verb, ref); err != nil {
			return err
		}
	}
	for _, ref := range volumes {
		if _, err := fmt.Fprintf(w, "kept %s: it holds data; remove it on the host if it is of no use\n", ref); err != nil {
			return err
		}
	}
	if dry {
		return nil
	}
	return h.collect(ctx, 0)
}

// retire takes the manager of an orphan through the steps of its removal.
func (h *Host) retire(ctx context.Context, ref engine.Ref) error {
	if ref.Kind == container.KindNetwork {
		return retire(ctx, h, ref, container.Network{Name: ref.ID}, h.networks)
	}
	return retire(ctx, h, ref, container.Deployment{Workspace: container.Workspace{Name: ref.ID}}, h.workspaces)
}

// actor is a manager.
type actor[D, O any] interface {
	previewer[D, O]
	Act(ctx context.Context, r engine.Resource[D], a engine.Action) error
}

func retire[S, O any](ctx context.Context, h *Host, ref engine.Ref, spec S, m actor[container.Desired[S], O]) error {
	r := engine.Resource[container.Desired[S]]{Ref: ref, Generation: -1, Retire: true, Desired: container.Desired[S]{Spec: spec, Run: "prune"}}
	for range mostSteps {
		o, err := m.Observe(ctx, r)
		if err != nil {
			return err
		}
		d := m.Decide(engine.View[container.Desired[S], O]{Resource: r, Observed: o, Now: clock.FromTime(h.o.Now())})
		switch d.Name() {
		case "converged":
			return nil
		case "do":
			if err := m.Act(ctx, r, d.Action()); err != nil {
				return err
			}
		default:
			return fmt.Errorf("it stays: %s", d.Reason())
		}
	}
	return fmt.Errorf("it is not gone after %d steps", mostSteps)
}
