package docker

import (
	"context"

	"github.com/steadyfleet/steady/internal/core/container"
	"github.com/steadyfleet/steady/internal/docker/daemon"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// hear turns an event of the engine into turns of what it concerns. It does not
// wait for the engine.
func (h *Host) hear(ctx context.Context, e daemon.Event) {
	h.workspaces.Hear(e)
	why := e.Action
	switch e.Subject {
	case daemon.Resync:
		h.kickAll(ctx, "events may have been missed", container.Kinds...)
	case daemon.Network:
		if e.Container == "" {
			h.kickAll(ctx, "network "+why, container.KindNetwork)
		}
	case daemon.Volume:
		if e.Container == "" {
			h.kickAll(ctx, "volume "+why, container.KindVolume)
		}
	case daemon.Image:
		h.kickAll(ctx, "image "+why, container.KindImage, container.KindSnapshot)
	}
	for _, ref := range h.workspaces.Concerns(e) {
		h.loop.Kick(ref, because(why))
	}
}

func because(what string) engine.Cause {
	return engine.Cause{Trigger: engine.TriggerExternal, ID: what}
}

// kick asks for a turn of a resource by its printed name.
func (h *Host) kick(ref string, why engine.Cause) {
	for i := range ref {
		if ref[i] == '/' {
			h.loop.Kick(engine.Ref{Kind: ref[:i], ID: ref[i+1:]}, why)
			return
		}
	}
}

// kickAll asks for a turn of every resource of some kinds.
func (h *Host) kickAll(ctx context.Context, why string, kinds ...string) {
	for _, kind := range kinds {
		rows, err := h.o.Rows.List(ctx, reconcile.Filter{Kind: kind})
		if err != nil {
			if ctx.Err() == nil {
				h.o.Log.Warn("what is declared could not be listed", "kind", kind, "error", err)
			}
			return // the next resync looks at all of them
		}
		for i := range rows {
			if !rows[i].Phase.Terminal() {
				h.loop.Kick(rows[i].Ref, because(why))
			}
		}
	}
}
