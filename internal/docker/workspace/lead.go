package workspace

import (
	"fmt"

	"github.com/moby/moby/api/types/container"

	"github.com/steadyfleet/steady/internal/core/replace"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// follow tells the router where a workspace is that nothing is being done about:
// after a restart of the agent, and when a container was started again, which may
// give it another address. While one is replaced the steps themselves tell.
func (m *Reconciler) follow(r *engine.Resource[Desired], found []*container.InspectResponse, o *Observed) {
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
				m.told(name, fmt.Sprintf("%+v", to), func() { u.Set(name, to) })
			}
		}
	case main != nil && main.State == replace.Running && main.Health == replace.HealthStarting:
		m.told(name, "starting "+main.ID, func() { u.Pause(name) })
	case wanted && main != nil:
		m.told(name, "away "+main.ID, func() { u.Pause(name) })
	default:
		m.told(name, "gone", func() { u.Set(name, Target{}) })
	}
}

// told calls tell if the word is not the last one that was told.
func (m *Reconciler) told(name, word string, tell func()) {
	m.mu.Lock()
	same := m.words[name] == word
	m.words[name] = word
	m.mu.Unlock()
	if !same {
		tell()
	}
}
