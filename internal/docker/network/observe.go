package network

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/container"

	spec "github.com/steadyfleet/steady/internal/core/container"
	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/docker/fault"
	"github.com/steadyfleet/steady/internal/docker/ownership"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// labelAsked holds the declaration that a network was made from. A network never
// changes, so what was asked for is all that has to be compared.
const labelAsked = ownership.Prefix + "asked"

// Observed is what the engine has under a network's name.
type Observed struct {
	Title string
	Found []Found // oldest first; this host's of another name too
}

// Found is one network.
type Found struct {
	ID      string
	Name    string
	Created int64 // ns since 1970
	Owned   bool
	Members []Member // sorted by name; not read of one that is to stay as it is
	// Differences are those to the declaration, of one of this host under the
	// declared name.
	Differences []diff.Difference
}

// Member is a container on a network, running or not.
type Member struct {
	ID      string
	Name    string
	Ours    bool
	Running bool
}

// Observe lists the networks of the name, and this host's that were made for the
// resource, with every container on them.
func (m *Manager) Observe(ctx context.Context, r engine.Resource[Desired]) (Observed, error) {
	return m.look(ctx, r.Desired.Spec, r.Retire)
}

// look reads what is there. Who is on a network is asked only where one may have
// to go: going says that the declared one has to.
func (m *Manager) look(ctx context.Context, n spec.Network, going bool) (Observed, error) {
	o := Observed{Title: n.EngineName(m.owner.Title)}
	all, err := m.engine.NetworkList(ctx, "") // one call: engines filter no faster than we
	if err != nil {
		return o, fault.Of(ctx, err)
	}
	for _, s := range all {
		f := Found{ID: s.ID, Name: s.Name, Created: s.Created.UnixNano(), Owned: m.owns(s.Name, s.Labels, n.Name)}
		if s.Name != o.Title && (n.External != "" || !f.Owned) {
			continue // somebody else's, or labels that were copied by hand
		}
		if f.Owned && s.Name == o.Title {
			f.Differences = m.compare(&n, &s.Network)
		}
		o.Found = append(o.Found, f)
	}
	if len(o.Found) == 0 || n.External != "" {
		return o, nil
	}
	slices.SortFunc(o.Found, func(a, b Found) int {
		return cmp.Or(cmp.Compare(a.Created, b.Created), strings.Compare(a.ID, b.ID))
	})
	if f := &o.Found[0]; !going && len(o.Found) == 1 && f.Owned && f.Name == o.Title && len(f.Differences) == 0 {
		return o, nil
	}
	containers, err := m.engine.ContainerList(ctx, true)
	if err != nil {
		return o, fault.Of(ctx, err)
	}
	for i := range o.Found {
		o.Found[i].Members = m.members(containers, &o.Found[i])
	}
	return o, nil
}

func (m *Manager) mine(name string) []string {
	return []string{ownership.LabelOwner + "=" + m.owner.ID(), ownership.LabelKind + "=" + spec.KindNetwork, ownership.LabelName + "=" + name}
}

// owns reports whether a network is this host's, by all its labels and its name.
func (m *Manager) owns(title string, labels map[string]string, name string) bool {
	return m.owner.Owns(labels, spec.KindNetwork, name) && labels[ownership.LabelTitle] == title
}

// members finds the containers on a network. One that does not run may know the
// network by its name alone.
func (m *Manager) members(all []container.Summary, f *Found) []Member {
	var out []Member
	for _, c := range all {
		if c.NetworkSettings == nil {
			continue
		}
		for name, e := range c.NetworkSettings.Networks {
			if e == nil || e.NetworkID != f.ID && (e.NetworkID != "" || name != f.Name) {
				continue
			}
			out = append(out, Member{ID: c.ID, Name: m.nameOf(&c), Ours: m.workspace(&c), Running: runs(&c)})
			break
		}
	}
	slices.SortFunc(out, func(a, b Member) int { return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.ID, b.ID)) })
	return out
}

func (m *Manager) nameOf(c *container.Summary) string {
	for _, n := range c.Names {
		if n = strings.TrimPrefix(n, "/"); !strings.Contains(n, "/") { // else it is a link
			return n
		}
	}
	return c.ID
}

// workspace reports whether a container is a workspace of this host: its name is
// the one it was made for, or one that it has while it is replaced.
func (m *Manager) workspace(c *container.Summary) bool {
	title := c.Labels[ownership.LabelTitle]
	if title == "" || c.Labels[ownership.LabelOwner] != m.owner.ID() || c.Labels[ownership.LabelKind] != spec.KindWorkspace {
		return false
	}
	name := m.nameOf(c)
	return name == title || strings.HasPrefix(name, title+".")
}

func runs(c *container.Summary) bool {
	switch c.State {
	case container.StateRunning, container.StatePaused, container.StateRestarting:
		return true
	}
	return false
}

// Orphans lists this host's networks that no row declares.
func (m *Manager) Orphans(ctx context.Context) ([]engine.Ref, error) {
	if m.declared == nil {
		return nil, nil
	}
	declared, err := m.declared(ctx)
	if err != nil {
		return nil, err
	}
	list, err := m.engine.NetworkList(ctx, "", m.mine("")[:2]...)
	var out []engine.Ref
	for _, n := range list {
		name := n.Labels[ownership.LabelName]
		if name != "" && m.owns(n.Name, n.Labels, name) && !declared[name] {
			out = append(out, engine.Ref{Kind: spec.KindNetwork, ID: name})
		}
	}
	slices.SortFunc(out, engine.Ref.Compare)
	return slices.Compact(out), errors.Join(err)
}
