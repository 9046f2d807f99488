package spec

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Deployment is a workspace with what it names resolved to the engine's names:
// all that its reconciler needs to know.
type Deployment struct {
	Workspace Workspace `json:"workspace"`
	Uses      Uses      `json:"uses"`
}

// Uses is what a workspace names, as the engine names it, by the name in the
// set.
type Uses struct {
	Image      string            `json:"image"` // a reference
	Networks   map[string]string `json:"networks,omitempty"`
	Volumes    map[string]string `json:"volumes,omitempty"`
	Workspaces map[string]string `json:"workspaces,omitempty"` // shared or linked
}

// NameMapper gives the engine's name of a thing that is not external.
type NameMapper func(title string) string

// EngineName is the workspace's name on the engine.
func (w *Workspace) EngineName(t NameMapper) string { return t(cmp.Or(w.Title, w.Name)) }
func (w *Workspace) Named() *string                 { return &w.Name }

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

func (w *Workspace) Blobs() []Blob {
	var out []Blob
	for _, c := range w.Contents {
		if c.Blob != nil {
			out = append(out, *c.Blob)
		}
	}
	return out
}

func (w *Workspace) Unique() string { return cmp.Or(w.Title, w.Name) }

func (w *Workspace) Claims(t NameMapper) []Claim {
	out := []Claim{{What: fmt.Sprintf("container %q", w.EngineName(t))}}
	for _, p := range w.Ports {
		if p.Fixed() {
			out = append(out, Claim{What: fmt.Sprintf("port %d/%s of the host", p.HostPort, cmp.Or(strings.ToLower(p.Protocol), "tcp"))})
		}
	}
	return out
}

// Uses resolves what the workspace names within the set. What the set does not
// have is left out: Check has refused it.
func (s *Set) Uses(w *Workspace, t NameMapper) Uses {
	u := Uses{}
	set := func(m *map[string]string, name, title string) {
		if *m == nil {
			*m = map[string]string{}
		}
		(*m)[name] = title
	}
	for _, n := range w.Needs() {
		switch r := s.Find(n.ID).(type) {
		case *Network:
			set(&u.Networks, n.Name, r.EngineName(t))
		case *Volume:
			set(&u.Volumes, n.Name, r.EngineName(t))
		case *Image:
			u.Image = r.EngineRef(t)
		case *Snapshot:
			u.Image = r.EngineRef(t)
		}
	}
	for _, name := range append(w.shares(), w.linked()...) {
		if other := s.Workspace(name); other != nil {
			set(&u.Workspaces, name, other.EngineName(t))
		}
	}
	return u
}
