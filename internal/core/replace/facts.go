package replace

import (
	"fmt"
	"slices"

	"github.com/steadyfleet/steady/internal/core/spec"
)

// StartFirst reports whether a replacement of the workspace may start before the
// one in place stops, and why not. ImageVolumes are the targets of the volumes
// that the image declares; checked says that there is a healthcheck, declared or
// of the image.
func StartFirst(w *spec.Workspace, imageVolumes []string, checked bool) (bool, string) {
	order := w.Update.Order
	if order == spec.StopFirst {
		return false, "declared as stop-first"
	}
	if w.State != "" && w.State != spec.Running {
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
	if order == spec.StartFirst {
		return true, ""
	}
	if w.NetworkMode == "host" {
		return false, "it shares the network of the host"
	}
	var mounted []string
	for _, m := range w.Mounts {
		mounted = append(mounted, m.Target)
		if m.Type != spec.MountTmpfs && !m.ReadOnly {
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
