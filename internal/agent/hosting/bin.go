package hosting

import (
	"context"

	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/wire"
)

// allowSessions reports whether the signed plan lets sessions in, whose volumes go with them.
func (h *Hosting) allowSessions() bool {
	d := h.o.Agent.Delegation()
	return d != nil && d.Bounds.CheckOwner(spec.SessionOwner("any")) == nil
}

// bin is what this host keeps of sessions that are over, nil if that is nothing.
func (h *Hosting) bin() *wire.Bin {
	if h.docker == nil {
		return nil
	}
	all := h.docker.Bin()
	if len(all) == 0 {
		return nil
	}
	out := &wire.Bin{Count: len(all)}
	for _, x := range all[:min(len(all), wire.MaxBinned)] {
		out.Volumes = append(out.Volumes, wire.Binned{ID: x.ID, Volume: x.Volume, Session: x.Session, Pod: x.Pod, Since: x.Since, Until: x.Until})
	}
	return out
}

// Discard removes a volume of the bin now.
func (h *Hosting) Discard(ctx context.Context, id string) error {
	if err := h.ready(ctx); err != nil {
		return err
	}
	err := h.docker.Discard(ctx, id)
	if err == nil {
		h.o.Log.Info("a kept volume was removed as an operator asked", "volume", id)
	}
	return err
}
