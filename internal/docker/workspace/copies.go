package workspace

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"

	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// copiesEvery is how often copies are compared with what they were made from.
const copiesEvery = 30 * time.Second

// copyState is what was found of a workspace's copies.
type copyState struct {
	at         time.Time
	generation int64
	written    []string
}

// changedCopies lists the targets of the copies that containers wrote. Files are read
// now and then: nothing follows from it but a message.
func (m *Reconciler) changedCopies(r *engine.Resource[Desired]) ([]string, error) {
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
	found, err := m.files.Changed(r.Ref.ID, list)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.copies[r.Ref] = copyState{now, r.Generation, found}
	return found, nil
}

// sharedFor is how long a shared copy stays that no container mounts: it may be made for one that comes.
const sharedFor = time.Hour

// PruneShared removes the copies that workspaces shared and no container mounts any more.
func (m *Reconciler) PruneShared(ctx context.Context) error {
	listed, err := m.o.Engine.ContainerList(ctx, true)
	if err != nil {
		return err
	}
	var mounted []string
	for i := range listed {
		for _, x := range listed[i].Mounts {
			mounted = append(mounted, x.Source)
		}
	}
	return m.files.PruneShared(mounted, m.o.Now().Add(-sharedFor))
}

// pruneFiles removes the files that the container does not mount, all without one.
func (h *handler) pruneFiles(c *container.InspectResponse) error {
	kept, err := h.m.files.Prune(h.r.Ref.ID, c)
	if len(kept) > 0 {
		h.m.o.Log.Info("what a container wrote in its copy of the bundle's files is kept", "workspace", h.r.Ref.ID, "files", strings.Join(kept, ", "))
	}
	return err
}
