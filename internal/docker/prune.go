package docker

import (
	"context"
	"fmt"
	"io"

	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/reconcile"
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

// retire takes the reconciler of an orphan through the steps of its removal.
func (h *Host) retire(ctx context.Context, ref engine.Ref) error {
	if ref.Kind == spec.KindNetwork {
		return retire(ctx, h, ref, spec.Network{Name: ref.ID}, h.networks)
	}
	return retire(ctx, h, ref, spec.Deployment{Workspace: spec.Workspace{Name: ref.ID}}, h.workspaces)
}

func retire[S, O any](ctx context.Context, h *Host, ref engine.Ref, value S, m reconcile.Reconciler[spec.Desired[S], O]) error {
	d, err := reconcile.Drive(ctx, m, engine.Resource[spec.Desired[S]]{
		Ref: ref, Generation: -1, Delete: true, Desired: spec.Desired[S]{Spec: value, Run: "prune"},
	}, h.o.Now, mostSteps)
	if err == nil && d.Name() != "converged" {
		err = fmt.Errorf("it stays: %s", d.Reason())
	}
	return err
}
