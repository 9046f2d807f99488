package workspace

import (
	"context"
	"fmt"

	"github.com/moby/moby/api/types/container"

	"github.com/steadyfleet/steady/internal/core/replace"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/convert"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// syncUpstream tells the router where a workspace is that nothing is being done about:
// after a restart of the agent, and when a container was started again, which may
// give it another address. While one is replaced the steps themselves tell.
func (m *Reconciler) syncUpstream(r *engine.Resource[Desired], found []*container.InspectResponse, o *Observed) {
	u := m.o.Upstreams
	if u == nil {
		return
	}
	var main *replace.Container
	for i := range o.Seen.Containers {
		switch c := &o.Seen.Containers[i]; c.Role {
		case replace.Main:
			main = c
		case replace.New, replace.Old:
			return
		}
	}
	name, wanted := r.Ref.ID, !r.Delete && !r.Desired.Suspended && r.Desired.Spec.Workspace.State != spec.Stopped
	switch {
	case main != nil && main.State == replace.Running && (main.Health == "" || main.Health == replace.Healthy):
		for _, c := range found {
			if c.ID == main.ID {
				to := target(c)
				m.setUpstream(name, fmt.Sprintf("%+v", to), func() { u.Set(name, to) })
			}
		}
	case main != nil && main.State == replace.Running && main.Health == replace.HealthStarting:
		m.setUpstream(name, "starting "+main.ID, func() { u.Pause(name) })
	case wanted && main != nil:
		m.setUpstream(name, "away "+main.ID, func() { u.Pause(name) })
	default:
		m.setUpstream(name, "gone", func() { u.Set(name, Target{}) })
	}
}

// Serving is where a workspace is by what is on the engine alone: its container runs, is not ill, and is this host's.
func Serving(ctx context.Context, engine interface {
	ContainerInspect(ctx context.Context, id string) (container.InspectResponse, error)
}, o convert.Owner, w *spec.Workspace) (Target, bool) {
	c, err := engine.ContainerInspect(ctx, w.EngineName(o.Title))
	if err != nil || c.State == nil || !c.State.Running || c.Config == nil || !o.Owns(c.Config.Labels, spec.KindWorkspace, w.Name) {
		return Target{}, false
	}
	if h := c.State.Health; h != nil && h.Status == container.Unhealthy {
		return Target{}, false
	}
	return target(&c), true
}

// setUpstream calls tell if the word is not the last one that was told.
func (m *Reconciler) setUpstream(name, state string, set func()) {
	m.mu.Lock()
	same := m.upstreams[name] == state
	m.upstreams[name] = state
	m.mu.Unlock()
	if !same {
		set()
	}
}
