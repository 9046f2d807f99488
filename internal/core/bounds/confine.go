package bounds

import (
	"cmp"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/container"
)

// Confine writes into a set that Check takes what holds it to the bounds where things
// are made: mounts stay below the folder that allows them, networks away from the host's
// own, and builds have limits.
func (b *Bounds) Confine(s *container.Set) {
	for i := range s.Workspaces {
		w := &s.Workspaces[i]
		w.Mounts = slices.Clone(w.Mounts)
		for k := range w.Mounts {
			if m := &w.Mounts[k]; m.Type == container.MountBind {
				m.Beneath = b.allowing(m.Source)
			} else {
				m.Beneath = ""
			}
		}
	}
	for i := range s.Networks {
		s.Networks[i].Apart = len(s.Networks[i].Pools) > 0
	}
	for i := range s.Images {
		if was := s.Images[i].Build; was != nil {
			build := *was
			build.Memory, build.NanoCPUs = cmp.Or(build.Memory, b.MaxMemory), cmp.Or(build.NanoCPUs, b.MaxNanoCPUs)
			build.Timeout = cmp.Or(build.Timeout, longestBuild)
			s.Images[i].Build = &build
		}
	}
}

// allowing is the outermost folder of the declaration that holds a path.
func (b *Bounds) allowing(p string) string {
	clean, out := container.CleanPath(p), ""
	for _, allowed := range b.HostMounts {
		if allowed = container.CleanPath(allowed); within(clean, allowed) && (out == "" || within(out, allowed)) {
			out = allowed
		}
	}
	return out
}

// crossed finds mounts of a folder that another mount of the layer may write above: who
// writes there can put a link in the folder's place, and engines follow links whenever
// they start a container.
func crossed(c container.Checker, s *container.Set) {
	type place struct{ path, who string }
	var writable []place
	note := func(path, who string) { writable = append(writable, place{container.CleanPath(path), who}) }
	for i := range s.Workspaces {
		for _, m := range s.Workspaces[i].Mounts {
			if m.Type == container.MountBind && !m.ReadOnly {
				note(m.Source, "workspace "+s.Workspaces[i].Name)
			}
		}
	}
	for i := range s.Volumes {
		if o := s.Volumes[i].Options; o["device"] != "" && o["type"] != "tmpfs" && !slices.Contains(strings.Split(o["o"], ","), "ro") {
			note(o["device"], "volume "+s.Volumes[i].Name)
		}
	}
	check := func(c container.Checker, path string) {
		clean := container.CleanPath(path)
		for _, w := range writable {
			if clean != w.path && within(clean, w.path) {
				c.Addf("path %q lies in %q, which %s may write: it could put a link in its place; mount the whole folder, or let others only read it", path, w.path, w.who)
				return
			}
		}
	}
	for i := range s.Workspaces {
		for k, m := range s.Workspaces[i].Mounts {
			if m.Type == container.MountBind {
				check(c.Of(container.ID{Kind: container.KindWorkspace, Name: s.Workspaces[i].Name}).Item("mounts", k), m.Source)
			}
		}
	}
}
