package workspace

import (
	"context"
	"slices"

	"github.com/moby/moby/api/types/container"

	"github.com/steadyfleet/steady/internal/core/replace"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/convert"
	"github.com/steadyfleet/steady/internal/docker/dockerapi"
)

// Find is the container in the place of a workspace, or nil: it is not one that a
// replacement works with.
func (m *Reconciler) Find(ctx context.Context, name string) (*container.Summary, error) {
	list, err := m.o.Engine.ContainerList(ctx, true, m.labels(name)...)
	if err != nil {
		return nil, err
	}
	list, err = m.inPlace(ctx, list)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return &list[0], nil
}

// inPlace picks the containers that have their workspace's name: the one that they were
// made with, or, after those, one that a change of the title gave them. A name proves
// nothing there, so the very container has to be known to the ledger.
func (m *Reconciler) inPlace(ctx context.Context, list []container.Summary) (named []container.Summary, err error) {
	var renamed []container.Summary
	for _, s := range list {
		made := s.Labels[convert.LabelTitle]
		switch {
		case m.o.Owner.HasPrefix(made) && slices.Contains(s.Names, "/"+made):
			named = append(named, s)
		case slices.ContainsFunc(s.Names, func(n string) bool { return m.o.Owner.HasPrefix(n) && !replace.IsReplacement(n) }):
			_, known, err := m.o.Ledger.Baseline(ctx, s.ID)
			if err != nil {
				return nil, err
			}
			if known {
				renamed = append(renamed, s)
			}
		}
	}
	return append(named, renamed...), nil
}

// Process is a running container of a workspace.
type Process struct {
	Name string // of the workspace
	ID   string
	PID  int // of its first process, on the host
}

// Processes lists the containers that run under the names of workspaces. A number
// that is remembered of one that was started again meanwhile may be old: whoever
// uses it asks the kernel whose it is.
func (m *Reconciler) Processes(ctx context.Context) ([]Process, error) {
	list, err := m.o.Engine.ContainerList(ctx, false, convert.LabelOwner+"="+m.o.Owner.ID(), convert.LabelKind+"="+spec.KindWorkspace)
	if err != nil {
		return nil, err
	}
	if list, err = m.inPlace(ctx, list); err != nil {
		return nil, err
	}
	named := make([]*container.Summary, 0, len(list))
	for i := range list {
		named = append(named, &list[i])
	}
	m.cache.Refresh(ctx, slices.Clone(named))
	out := make([]Process, 0, len(named))
	for _, s := range named {
		c, err := m.cache.Container(ctx, s.ID, s)
		switch {
		case dockerapi.NotFound(err):
			continue
		case err != nil:
			return nil, err
		}
		if c.State != nil && c.State.Pid > 0 {
			out = append(out, Process{Name: s.Labels[convert.LabelName], ID: s.ID, PID: c.State.Pid})
		}
	}
	return out, nil
}
