package container

import (
	"cmp"
	"slices"
	"strings"
)

// SnapshotImage begins the Image of a workspace that runs from a snapshot.
const SnapshotImage = "snapshot/"

// SharePrefix begins a namespace mode that shares the one of a workspace.
const SharePrefix = "workspace:"

// ID names a resource by kind and name.
type ID struct{ Kind, Name string }

func (i ID) String() string { return i.Kind + "/" + i.Name }

// Compare orders by kind, as in Kinds, and name.
func (i ID) Compare(o ID) int {
	return cmp.Or(cmp.Compare(slices.Index(Kinds, i.Kind), slices.Index(Kinds, o.Kind)), strings.Compare(i.Name, o.Name))
}

// Need is what has to be there before a resource can be deployed. Condition is
// set for workspaces alone; the others have to be converged.
type Need struct {
	ID
	Condition Condition
	Required  bool
}

// Needs lists what a workspace needs, in order of kind and name.
func (w *Workspace) Needs() []Need {
	var out []Need
	add := func(kind, name string, c Condition) {
		out = append(out, Need{ID{kind, name}, c, true})
	}
	for i := range w.Networks {
		add(KindNetwork, w.Networks[i].Network, "")
	}
	for i := range w.Mounts {
		if w.Mounts[i].Type == MountVolume {
			add(KindVolume, w.Mounts[i].Source, "")
		}
	}
	if name, ok := strings.CutPrefix(w.Image, SnapshotImage); ok {
		add(KindSnapshot, name, "")
	} else {
		add(KindImage, w.Image, "")
	}
	for _, mode := range w.shares() {
		add(KindWorkspace, mode, Started)
	}
	for _, name := range w.linked() {
		add(KindWorkspace, name, Started)
	}
	for _, d := range w.DependsOn {
		out = append(out, Need{ID{KindWorkspace, d.Workspace}, d.Condition, d.Required})
	}
	slices.SortStableFunc(out, func(a, b Need) int { return a.Compare(b.ID) })
	return slices.CompactFunc(out, func(a, b Need) bool { return a == b })
}

// shares lists the workspaces whose namespaces are shared.
func (w *Workspace) shares() []string {
	var out []string
	for _, mode := range []string{w.NetworkMode, w.Namespaces.IPC, w.Namespaces.PID} {
		if name, ok := strings.CutPrefix(mode, SharePrefix); ok {
			out = append(out, name)
		}
	}
	return out
}

// linked lists the workspaces whose containers the engine itself links.
func (w *Workspace) linked() []string {
	var out []string
	if w.Bridged() {
		for _, l := range w.Links {
			out = append(out, l.Target)
		}
	}
	return out
}

// Bridged reports a workspace on the engine's own bridge, where names are those
// of links alone.
func (w *Workspace) Bridged() bool {
	m := w.NetworkMode
	return len(w.Networks) == 0 && (m == "" || m == "default" || m == "bridge")
}

// Needs lists the workspace that is captured.
func (s *Snapshot) Needs() []Need {
	return []Need{{ID{KindWorkspace, s.Workspace}, Started, true}}
}

// Needs lists the workspace that the route leads to.
func (r *Route) Needs() []Need {
	return []Need{{ID{KindWorkspace, r.Workspace}, Started, true}}
}

// Uses resolves what the workspace names within the set. What the set does not
// have is left out: Validate has refused it.
func (s *Set) Uses(w *Workspace, t Titled) Uses {
	u := Uses{}
	set := func(m *map[string]string, name, title string) {
		if *m == nil {
			*m = map[string]string{}
		}
		(*m)[name] = title
	}
	for _, n := range w.Needs() {
		switch n.Kind {
		case KindNetwork:
			if i, ok := find(s.Networks, n.Name, func(v *Network) string { return v.Name }); ok {
				set(&u.Networks, n.Name, s.Networks[i].EngineName(t))
			}
		case KindVolume:
			if i, ok := find(s.Volumes, n.Name, func(v *Volume) string { return v.Name }); ok {
				set(&u.Volumes, n.Name, s.Volumes[i].EngineName(t))
			}
		case KindImage:
			if i, ok := find(s.Images, n.Name, func(v *Image) string { return v.Name }); ok {
				u.Image = s.Images[i].EngineRef(t)
			}
		case KindSnapshot:
			if i, ok := find(s.Snapshots, n.Name, func(v *Snapshot) string { return v.Name }); ok {
				u.Image = s.Snapshots[i].EngineRef(t)
			}
		}
	}
	for _, name := range append(w.shares(), w.linked()...) {
		if i, ok := find(s.Workspaces, name, func(v *Workspace) string { return v.Name }); ok {
			set(&u.Workspaces, name, s.Workspaces[i].EngineName(t))
		}
	}
	return u
}

// find looks a name up in a list sorted by name.
func find[T any](list []T, name string, of func(*T) string) (int, bool) {
	return slices.BinarySearchFunc(list, name, func(v T, n string) int { return strings.Compare(of(&v), n) })
}

// IDs lists every resource, in order of kind and name; a nil set has none.
func (s *Set) IDs() []ID {
	if s == nil {
		return nil
	}
	var out []ID
	for i := range s.Networks {
		out = append(out, ID{KindNetwork, s.Networks[i].Name})
	}
	for i := range s.Volumes {
		out = append(out, ID{KindVolume, s.Volumes[i].Name})
	}
	for i := range s.Images {
		out = append(out, ID{KindImage, s.Images[i].Name})
	}
	for i := range s.Workspaces {
		out = append(out, ID{KindWorkspace, s.Workspaces[i].Name})
	}
	for i := range s.Snapshots {
		out = append(out, ID{KindSnapshot, s.Snapshots[i].Name})
	}
	for i := range s.Routes {
		out = append(out, ID{KindRoute, s.Routes[i].Name})
	}
	return out
}

// Has reports whether the set declares the resource; a nil set has none.
func (s *Set) Has(id ID) bool {
	if s == nil {
		return false
	}
	ok := false
	switch id.Kind {
	case KindNetwork:
		_, ok = find(s.Networks, id.Name, func(v *Network) string { return v.Name })
	case KindVolume:
		_, ok = find(s.Volumes, id.Name, func(v *Volume) string { return v.Name })
	case KindImage:
		_, ok = find(s.Images, id.Name, func(v *Image) string { return v.Name })
	case KindWorkspace:
		ok = s.Workspace(id.Name) != nil
	case KindSnapshot:
		_, ok = find(s.Snapshots, id.Name, func(v *Snapshot) string { return v.Name })
	case KindRoute:
		_, ok = find(s.Routes, id.Name, func(v *Route) string { return v.Name })
	}
	return ok
}

// Workspace finds a workspace by name; nil if there is none.
func (s *Set) Workspace(name string) *Workspace {
	if s == nil {
		return nil
	}
	if i, ok := find(s.Workspaces, name, func(v *Workspace) string { return v.Name }); ok {
		return &s.Workspaces[i]
	}
	return nil
}

// Dependencies gives for every resource of the set what it needs first.
func Dependencies(s *Set) map[ID][]Need {
	out := map[ID][]Need{}
	if s == nil {
		return out
	}
	for i := range s.Networks {
		out[ID{KindNetwork, s.Networks[i].Name}] = nil
	}
	for i := range s.Volumes {
		out[ID{KindVolume, s.Volumes[i].Name}] = nil
	}
	for i := range s.Images {
		out[ID{KindImage, s.Images[i].Name}] = nil
	}
	for i := range s.Workspaces {
		out[ID{KindWorkspace, s.Workspaces[i].Name}] = s.Workspaces[i].Needs()
	}
	for i := range s.Snapshots {
		out[ID{KindSnapshot, s.Snapshots[i].Name}] = s.Snapshots[i].Needs()
	}
	for i := range s.Routes {
		out[ID{KindRoute, s.Routes[i].Name}] = s.Routes[i].Needs()
	}
	return out
}
