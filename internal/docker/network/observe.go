package network

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"

	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/convert"
	"github.com/steadyfleet/steady/internal/docker/dockerapi"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// labelAsked holds the declaration that a network was made from. A network never
// changes, so what was asked for is all that has to be compared.
const labelAsked = convert.Prefix + "asked"

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
func (m *Reconciler) Observe(ctx context.Context, r engine.Resource[Desired]) (Observed, error) {
	m.mu.Lock()
	if m.known[r.Ref] = r; r.Delete {
		delete(m.known, r.Ref)
	}
	m.mu.Unlock()
	return Reader{m}.Observe(ctx, r)
}

// Reader looks and decides as its reconciler does, and takes nothing for what is
// desired from now on.
type Reader struct{ *Reconciler }

// Observe is that of the reconciler.
func (m Reader) Observe(ctx context.Context, r engine.Resource[Desired]) (Observed, error) {
	return m.find(ctx, r.Desired.Spec, r.Delete)
}

// ObserveAll checks every network that was checked before, with one listing.
// Only those that are as declared are reported: the others are checked alone.
func (m *Reconciler) ObserveAll(ctx context.Context) (map[engine.Ref]Observed, error) {
	all, err := m.o.Engine.NetworkList(ctx, "")
	if err != nil {
		return nil, dockerapi.ErrorOf(ctx, err)
	}
	m.mu.Lock()
	rows := slices.Collect(maps.Values(m.known))
	m.mu.Unlock()
	out := make(map[engine.Ref]Observed, len(rows))
	for _, r := range rows {
		if o := m.match(all, &r.Desired.Spec); o.asDeclared() {
			out[r.Ref] = o
		}
	}
	return out, nil
}

// asDeclared reports whether there is one network, this host's and as declared.
func (o *Observed) asDeclared() bool {
	return len(o.Found) == 1 && o.Found[0].Owned && o.Found[0].Name == o.Title && len(o.Found[0].Differences) == 0
}

// match finds the networks of a declaration in a listing.
func (m *Reconciler) match(all []network.Summary, n *spec.Network) Observed {
	o := Observed{Title: n.EngineName(m.o.Owner.Title)}
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

// find reads what is there. Who is on a network is asked only where one may have
// to go: going means that the declared one has to.
func (m *Reconciler) find(ctx context.Context, n spec.Network, going bool) (Observed, error) {
	all, err := m.o.Engine.NetworkList(ctx, "") // one call: engines filter no faster than we
	if err != nil {
		return Observed{Title: n.EngineName(m.o.Owner.Title)}, dockerapi.ErrorOf(ctx, err)
	}
	o := m.match(all, &n)
	if len(o.Found) == 0 || n.External != "" {
		return o, nil
	}
	slices.SortFunc(o.Found, func(a, b Found) int {
		return cmp.Or(cmp.Compare(a.Created, b.Created), strings.Compare(a.ID, b.ID))
	})
	if !going && o.asDeclared() {
		return o, nil
	}
	containers, err := m.o.Engine.ContainerList(ctx, true)
	if err != nil {
		return o, dockerapi.ErrorOf(ctx, err)
	}
	for i := range o.Found {
		o.Found[i].Members = m.members(containers, &o.Found[i])
	}
	return o, nil
}

// owns reports whether a network is this host's, by all its labels and its name.
func (m *Reconciler) owns(title string, labels map[string]string, name string) bool {
	return m.o.Owner.Owns(labels, spec.KindNetwork, name) && m.o.Owner.HasPrefix(title) && labels[convert.LabelTitle] == title
}

// members finds the containers on a network. One that does not run may know the
// network by its name alone.
func (m *Reconciler) members(all []container.Summary, f *Found) []Member {
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

func (m *Reconciler) nameOf(c *container.Summary) string {
	for _, n := range c.Names {
		if n = strings.TrimPrefix(n, "/"); !strings.Contains(n, "/") { // else it is a link
			return n
		}
	}
	return c.ID
}

// workspace reports whether a container is a workspace of this host: its name is
// the one it was made for, or one that it has while it is replaced.
func (m *Reconciler) workspace(c *container.Summary) bool {
	title := c.Labels[convert.LabelTitle]
	if title == "" || c.Labels[convert.LabelOwner] != m.o.Owner.ID() || c.Labels[convert.LabelKind] != spec.KindWorkspace {
		return false
	}
	name := m.nameOf(c)
	return m.o.Owner.HasPrefix(name) && (name == title || strings.HasPrefix(name, title+"."))
}

func runs(c *container.Summary) bool {
	switch c.State {
	case container.StateRunning, container.StatePaused, container.StateRestarting:
		return true
	}
	return false
}

// Orphans lists this host's networks that no row declares.
func (m *Reconciler) Orphans(ctx context.Context) ([]engine.Ref, error) {
	list := func(labels ...string) ([]network.Summary, error) { return m.o.Engine.NetworkList(ctx, "", labels...) }
	return convert.Orphans(ctx, m.o.Owner, spec.KindNetwork, m.o.Declared, list, func(n *network.Summary) (map[string]string, bool) {
		return n.Labels, m.owns(n.Name, n.Labels, n.Labels[convert.LabelName])
	})
}
