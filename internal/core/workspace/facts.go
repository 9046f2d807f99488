package workspace

import (
	"fmt"
	"slices"

	"github.com/steadyfleet/steady/internal/core/container"
)

// StartFirst reports whether a replacement of the workspace may start before the
// one in place stops, and why not. ImageVolumes are the targets of the volumes
// that the image declares; checked says that there is a healthcheck, declared or
// of the image.
func StartFirst(w *container.Workspace, imageVolumes []string, checked bool) (bool, string) {
	order := w.Update.Order
	if order == container.StopFirst {
		return false, "declared as stop-first"
	}
	if w.State != "" && w.State != container.Running {
		return false, "it does not run for good"
	}
	// Two of these cannot be at once, whatever is declared.
	for _, p := range w.Ports {
		if p.Fixed() {
			return false, fmt.Sprintf("port %d of the host is fixed", p.HostPort)
		}
	}
	for _, a := range w.Networks {
		if a.IPv4 != "" || a.IPv6 != "" || a.MAC != "" || len(a.LinkLocal) > 0 {
			return false, "its address in network " + a.Network + " is fixed"
		}
	}
	if w.MAC != "" {
		return false, "its hardware address is fixed"
	}
	if order == container.StartFirst {
		return true, ""
	}
	if w.NetworkMode == "host" {
		return false, "it shares the network of the host"
	}
	var mounted []string
	for _, m := range w.Mounts {
		mounted = append(mounted, m.Target)
		if m.Type != container.MountTmpfs && !m.ReadOnly {
			return false, m.Target + " can be written"
		}
	}
	for _, f := range w.Contents {
		mounted = append(mounted, f.Target)
		if f.Writable && f.Tree {
			return false, f.Target + " can be written"
		}
	}
	for _, v := range imageVolumes {
		if !slices.Contains(mounted, v) {
			return false, v + " can be written"
		}
	}
	if !checked {
		return false, "it has no healthcheck"
	}
	return true, ""
}

// Met reports whether what is on the engine fulfils a condition of a dependency.
func Met(c container.Condition, w Want, s Seen) bool {
	m := castOf(s.Containers).main
	if m == nil {
		return false
	}
	switch c {
	case container.Completed:
		return m.State == Exited && m.ExitCode == 0
	case container.Healthy:
		return m.State == Running && judge(&w, m, false).good
	}
	return m.State == Running && !m.HookPending || w.Run == container.Once && m.State == Exited && m.ExitCode == 0
}

// Describe tells what is on the engine for people, one line per container.
func Describe(s Seen) []string {
	var out []string
	for i := range s.Containers {
		c := &s.Containers[i]
		line := fmt.Sprintf("%s %s (%s): %s", c.Role, c.Name, short(c.ID), c.State)
		if c.Health != "" {
			line += ", " + string(c.Health)
		}
		if l := Words(c.Differences); l != "" {
			line += "; " + l
		}
		out = append(out, line)
	}
	return out
}
