package hosting

import (
	"context"
	"database/sql"
	"sync"

	"github.com/steadyfleet/steady/internal/agent/state"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// orphans are things on the engine that carry this host's labels and that nobody
// declares, such as what is left after a lost state folder. They are reported and
// left alone.
type orphans struct {
	mu       sync.Mutex
	found    map[string][]engine.Ref // by kind, as last listed
	reported map[engine.Ref]bool
	wake     chan struct{}
}

// Orphans takes the list of a kind. It does not block.
func (h *Hosting) Orphans(kind string, refs []engine.Ref) {
	h.orphans.mu.Lock()
	h.orphans.found[kind] = refs
	h.orphans.mu.Unlock()
	select {
	case h.orphans.wake <- struct{}{}:
	default:
	}
}

// reportOrphans reports each orphan when it is found and when it is gone.
func (h *Hosting) reportOrphans(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-h.orphans.wake:
		}
		h.orphans.mu.Lock()
		now := map[engine.Ref]bool{}
		for _, refs := range h.orphans.found {
			for _, r := range refs {
				now[r] = true
			}
		}
		h.orphans.mu.Unlock()
		for r := range now {
			if err := h.reportOrphan(ctx, r, true); err != nil {
				return err
			}
			h.orphans.reported[r] = true
		}
		for r := range h.orphans.reported {
			if now[r] {
				continue
			}
			if err := h.reportOrphan(ctx, r, false); err != nil {
				return err
			}
			delete(h.orphans.reported, r)
		}
	}
}

// reportOrphan reports one that is there, or that is gone unless it was declared
// meanwhile.
func (h *Hosting) reportOrphan(ctx context.Context, r engine.Ref, there bool) error {
	ctx = context.WithoutCancel(ctx)
	ev := event.ResourceReported{Resource: r.String(), State: string(spec.Removed), Layer: event.LayerBundle}
	if there {
		ev.State, ev.Message = string(spec.Undeclared), "it carries this host's labels and nobody declares it; it is left alone"
	}
	return h.o.Store.Tx(ctx, func(tx *sql.Tx) (err error) {
		var news bool
		if there {
			news, err = state.Reported(ctx, tx, r.String(), ev.State, ev.Message)
		} else {
			news, err = state.ForgetReportedAs(ctx, tx, r.String(), string(spec.Undeclared))
		}
		if err != nil || !news {
			return err
		}
		return h.o.Agent.Append(ctx, tx, ev)
	})
}
