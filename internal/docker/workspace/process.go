package workspace

import (
	"context"
	"slices"

	"github.com/moby/moby/api/types/container"

	spec "github.com/steadyfleet/steady/internal/core/container"
	"github.com/steadyfleet/steady/internal/docker/daemon"
	"github.com/steadyfleet/steady/internal/docker/ownership"
)

// Process is a running container of a workspace.
type Process struct {
	Name string // of the workspace
	ID   string
	PID  int // of its first process, on the host
}

// Processes lists the containers that run under the names of workspaces. A number
// that is remembered of one that was started again meanwhile may be old: whoever
// uses it asks the kernel whose it is.
func (m *Manager) Processes(ctx context.Context) ([]Process, error) {
	list, err := m.o.Engine.ContainerList(ctx, false, ownership.LabelOwner+"="+m.o.Owner.ID(), ownership.LabelKind+"="+spec.KindWorkspace)
	if err != nil {
		return nil, err
	}
	named := make([]*container.Summary, 0, len(list))
	for i := range list {
		if title := list[i].Labels[ownership.LabelTitle]; m.o.Owner.Gave(title) && slices.Contains(list[i].Names, "/"+title) {
			named = append(named, &list[i])
		}
	}
	m.cache.Refresh(ctx, slices.Clone(named))
	out := make([]Process, 0, len(named))
	for _, s := range named {
		c, err := m.cache.Container(ctx, s.ID, s)
		switch {
		case daemon.NotFound(err):
			continue
		case err != nil:
			return nil, err
		}
		if c.State != nil && c.State.Pid > 0 {
			out = append(out, Process{Name: s.Labels[ownership.LabelName], ID: s.ID, PID: c.State.Pid})
		}
	}
	return out, nil
}
