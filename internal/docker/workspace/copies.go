package workspace

import (
	"slices"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"

	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// copiesEvery is how often copies are compared with what they were made from.
const copiesEvery = 30 * time.Second

// copies is what was found of a workspace's copies.
type copies struct {
	at         time.Time
	generation int64
	written    []string
}

// written lists the targets of the copies that containers wrote. Files are read
// now and then: nothing follows from it but a message.
func (m *Reconciler) written(r *engine.Resource[Desired]) ([]string, error) {
	list := r.Desired.Spec.Workspace.Contents
	if !slices.ContainsFunc(list, func(c spec.Content) bool { return c.Writable }) {
		return nil, nil
	}
	m.mu.Lock()
	have := m.copies[r.Ref]
	m.mu.Unlock()
	now := m.o.Now()
	if have.generation == r.Generation && now.Sub(have.at) < copiesEvery {
		return have.written, nil
	}
	found, err := m.files.Written(r.Ref.ID, list)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.copies[r.Ref] = copies{now, r.Generation, found}
	return found, nil
}

// tidy removes the files that the container does not mount, all without one.
func (h *hand) tidy(c *container.InspectResponse) error {
	kept, err := h.m.files.Tidy(h.r.Ref.ID, c)
	if len(kept) > 0 {
		h.m.o.Log.Info("what a container wrote in its copy of the bundle's files is kept", "workspace", h.r.Ref.ID, "files", strings.Join(kept, ", "))
	}
	return err
}
