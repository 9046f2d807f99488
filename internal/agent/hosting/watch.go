package hosting

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/steadyfleet/steady/internal/agent/probe"
	"github.com/steadyfleet/steady/internal/core/replace"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/system"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// watch looks at what the bundle declares. It reads the rows only when one of them
// changed.
type watch struct {
	h *Hosting

	mu      sync.Mutex
	core    replace.Watch
	parts   []replace.Part
	read    uint64 // of changes, when parts were read
	changes uint64
}

// Watch begins to watch what the bundle declares, without memory of earlier
// failures, and gives the look at it.
func (h *Hosting) Watch() func(ctx context.Context) error {
	w := &watch{h: h, changes: 1}
	h.watch.Store(w)
	return w.look
}

// Seen takes committed transitions, in order. It does not block.
func (h *Hosting) Seen(ts []engine.Transition) {
	w := h.watch.Load()
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range ts {
		if t := &ts[i]; t.Parent == system.Current {
			w.changes++
			w.core.Observe(replace.Part{Ref: t.Ref, Phase: t.To, Reason: t.Reason}, h.o.Now())
		}
	}
}

// look fails with what does not run. Nothing is said of a host that an operator
// disabled: what does not run there is not the bundle's doing.
func (w *watch) look(ctx context.Context) error {
	if w.h.tuned.Load().Settings.Disabled() {
		return probe.ErrUnknown
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if changes := w.changes; w.read != changes {
		w.mu.Unlock() // Seen may not wait for the database
		parts, err := w.h.declaredParts(ctx)
		w.mu.Lock()
		if err != nil {
			return err
		}
		w.parts, w.read = parts, changes
	}
	if words := w.core.Failing(w.parts, w.h.o.Now()); words != "" {
		return errors.New(words)
	}
	return nil
}

// declaredParts reads where the parts of the bundle that runs stand.
func (h *Hosting) declaredParts(ctx context.Context) ([]replace.Part, error) {
	rows, err := h.o.Rows.List(ctx, reconcile.Filter{Parent: system.Current})
	if err != nil {
		return nil, fmt.Errorf("read where the resources of the bundle stand: %w", err)
	}
	var out []replace.Part
	for i := range rows {
		r := &rows[i]
		if r.Delete || r.Phase.Terminal() {
			continue
		}
		d, err := desiredOf(r.Ref.Kind, r.Desired)
		if err != nil {
			return nil, fmt.Errorf("read what is desired of %s: %w", r.Ref, err)
		}
		if excused := d.BrokenBefore && r.ConvergedGen != r.Generation; !d.Suspended && !excused {
			out = append(out, replace.Part{Ref: r.Ref, Phase: r.Phase, Reason: r.Reason, Run: d.run})
		}
	}
	return out, nil
}

// desired is of a resource whether it is of the bundle that may come back, whether the release
// is excused for it, and of a workspace how it is to run.
type desired struct {
	Suspended    bool            `json:"suspended"`
	BrokenBefore bool            `json:"brokenBefore"`
	Spec         json.RawMessage `json:"spec"`
	run          spec.RunState
}

// desiredOf reads what is desired. Other kinds have a "workspace" of another form in their spec.
func desiredOf(kind string, raw []byte) (d desired, err error) {
	if err := json.Unmarshal(raw, &d); err != nil || kind != spec.KindWorkspace {
		return d, err
	}
	var spec struct {
		Workspace struct {
			State spec.RunState `json:"state"`
		} `json:"workspace"`
	}
	err = json.Unmarshal(d.Spec, &spec)
	d.run = spec.Workspace.State
	return d, err
}
