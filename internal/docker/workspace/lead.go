package workspace

import (
	"fmt"

	"github.com/moby/moby/api/types/container"

	spec "github.com/steadyfleet/steady/internal/core/container"
	core "github.com/steadyfleet/steady/internal/core/workspace"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// follow tells the router where a workspace is that nothing is being done about:
// after a restart of the agent, and when a container was started again, which may
// give it another address. While one is replaced the steps themselves tell.
func (m *Manager) follow(r *engine.Resource[Desired], found []*container.InspectResponse, o *Observed) {
	u := m.o.Upstreams
	if u == nil {
		return
	}
	var main *core.Container
	for i := range o.Seen.Containers {
		switch c := &o.Seen.Containers[i]; c.Role {
		case core.Main:
			main = c
		case core.New, core.Old:
			return
		}
	}
	name, wanted := r.Ref.ID, !r.Retire && !r.Desired.Parked && r.Desired.Spec.Workspace.State != spec.Stopped
	switch {
	case main != nil && main.State == core.Running && (main.Health == "" || main.Health == core.Healthy):
		for _, c := range found {
			if c.ID == main.ID {
				to := target(c)
				m.told(name, fmt.Sprintf("%+v", to), func() { u.Set(name, to) })
			}
		}
	case main != nil && main.State == core.Running && main.Health == core.HealthStarting:
		m.told(name, "starting "+main.ID, func() { u.Hold(name) })
	case wanted && main != nil:
		m.told(name, "away "+main.ID, func() { u.Hold(name) })
	default:
		m.told(name, "gone", func() { u.Set(name, Target{}) })
	}
}

// told calls tell if the word is not the last one that was told.
func (m *Manager) told(name, word string, tell func()) {
	m.mu.Lock()
	same := m.words[name] == word
	m.words[name] = word
	m.mu.Unlock()
	if !same {
		tell()
	}
}
