package docker

import (
	"context"
	"strings"

	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/dockerapi"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// onEvent turns an event of the engine into turns of what it concerns. It does not
// wait for the engine.
func (h *Host) onEvent(ctx context.Context, e dockerapi.Event) {
	h.workspaces.OnEvent(e)
	why := e.Action
	switch e.Subject {
	case dockerapi.Resync:
		h.tryAnew(ctx)
		h.enqueueAll(ctx, "events may have been missed", spec.Kinds...)
	case dockerapi.Network:
		if e.Container == "" {
			h.enqueueAll(ctx, "network "+why, spec.KindNetwork)
		}
	case dockerapi.Volume:
		if e.Container == "" {
			h.enqueueAll(ctx, "volume "+why, spec.KindVolume)
		}
	case dockerapi.Image:
		h.enqueueAll(ctx, "image "+why, spec.KindImage, spec.KindSnapshot)
	}
	for _, ref := range h.workspaces.Affected(e) {
		h.loop.Enqueue(ref, because(why))
	}
}

// tryAnew gives what was given up new attempts: an engine that ends stops what is started, as often as it is.
func (h *Host) tryAnew(ctx context.Context) {
	why := because("the engine answers again")
	for _, kind := range spec.Kinds {
		rows, err := h.rows(ctx, kind)
		for i := range rows {
			if err == nil && rows[i].Phase == engine.Failed {
				_, err = h.loop.Apply(ctx, engine.Retry(rows[i].Ref), why)
			}
		}
		if err != nil && ctx.Err() == nil {
			h.o.Log.Warn("what was given up is not tried again yet", "kind", kind, "error", err)
		}
	}
}

func because(what string) engine.Cause {
	return engine.Cause{Trigger: engine.TriggerExternal, ID: what}
}

// enqueue asks for a turn of a resource by its printed name.
func (h *Host) enqueue(ref string, why engine.Cause) {
	kind, name, _ := strings.Cut(ref, "/")
	h.loop.Enqueue(engine.Ref{Kind: kind, ID: name}, why)
}

// enqueueAll asks for a turn of every resource of some kinds.
func (h *Host) enqueueAll(ctx context.Context, why string, kinds ...string) {
	for _, kind := range kinds {
		rows, err := h.rows(ctx, kind)
		if err != nil {
			if ctx.Err() == nil {
				h.o.Log.Warn("what is declared could not be listed", "kind", kind, "error", err)
			}
			return // the next resync checks all of them
		}
		for i := range rows {
			h.loop.Enqueue(rows[i].Ref, because(why))
		}
	}
}
