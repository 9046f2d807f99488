package network

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"

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
	Generation int64 // that was compared with
	Title      string
	Found      []Found // oldest first; this host's of another name too
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
	m.mu.Lock()
	if m.known[r.Ref] = r; r.Retire {
		delete(m.known, r.Ref)
	}
	m.mu.Unlock()
	return Reader{m}.Observe(ctx, r)
}

// Reader looks and decides as its manager does, and takes nothing for what is
// desired from now on.
type Reader struct{ *Manager }

// Observe is that of the manager.
func (m Reader) Observe(ctx context.Context, r engine.Resource[Desired]) (Observed, error) {
	o, err := m.look(ctx, r.Desired.Spec, r.Retire)
	o.Generation = r.Generation
	return o, err
}

// ObserveAll looks at every network that was looked at before, with one listing.
// Only those that are as declared are told of: the others are looked at alone.
func (m *Manager) ObserveAll(ctx context.Context) (map[engine.Ref]Observed, error) {
	all, err := m.engine.NetworkList(ctx, "")
	if err != nil {
		return nil, fault.Of(ctx, err)
	}
	m.mu.Lock()
	rows := slices.Collect(maps.Values(m.known))
	m.mu.Unlock()
	out := make(map[engine.Ref]Observed, len(rows))
	for _, r := range rows {
		o := m.among(all, &r.Desired.Spec)
		if o.Generation = r.Generation; o.plain() {
			out[r.Ref] = o
		}
	}
	return out, nil
}

// plain reports whether there is one network, this host's and as declared.
func (o *Observed) plain() bool {
	return len(o.Found) == 1 && o.Found[0].Owned && o.Found[0].Name == o.Title && len(o.Found[0].Differences) == 0
}

// among finds the networks of a declaration in a listing.
func (m *Manager) among(all []network.Summary, n *spec.Network) Observed {
	o := Observed{Title: n.EngineName(m.owner.Title)}
	for _, s := range all {
		f := Found{ID: s.ID, Name: s.Name, Created: s.Created.UnixNano(), Owned: m.owns(s.Name, s.Labels, n.Name)}
		if s.Name != o.Title && (n.External != "" || !f.Owned) {
			continue // somebody else's, or labels that were copied by hand
		}
		if f.Owned && s.Name == o.Title {
			f.Differences = m.compare(n, &s.Network)
		}
		o.Found = append(o.Found, f)
	}
	return o
}

// look reads what is there. Who is on a network is asked only where one may have
// to go: going says that the declared one has to.
func (m *Manager) look(ctx context.Context, n spec.Network, going bool) (Observed, error) {
	all, err := m.engine.NetworkList(ctx, "") // one call: engines filter no faster than we
	if err != nil {
		return Observed{Title: n.EngineName(m.owner.Title)}, fault.Of(ctx, err)
	}
	o := m.among(all, &n)
	if len(o.Found) == 0 || n.External != "" {
		return o, nil
	}
	slices.SortFunc(o.Found, func(a, b Found) int {
		return cmp.Or(cmp.Compare(a.Created, b.Created), strings.Compare(a.ID, b.ID))
	})
	if !going && o.plain() {
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
	return m.owner.Owns(labels, spec.KindNetwork, name) && m.owner.Gave(title) && labels[ownership.LabelTitle] == title
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
	return m.owner.Gave(name) && (name == title || strings.HasPrefix(name, title+"."))
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
