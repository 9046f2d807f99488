package workspace

import (
	"os"
	"path"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/moby/moby/api/types/container"

	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/docker/convert"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// staleFiles lists the bundle's files of which a running container has another one than the host: a file that is
// written anew takes the place of the old one, which stays mounted. It asks the kernel, and where that does not
// tell, as on an engine of another machine, nothing is stale.
func (m *Reconciler) staleFiles(r *engine.Resource[Desired], c *container.InspectResponse) []diff.Difference {
	if m.o.HostRoot == "" || c.State == nil || c.State.Pid == 0 {
		return nil
	}
	var out []diff.Difference
	for _, x := range r.Desired.Spec.Workspace.Mounts {
		if x.File == "" {
			continue
		}
		target := path.Clean(x.Target)
		host, err := os.Stat(filepath.Join(m.o.HostRoot, x.Source))
		if err != nil {
			continue
		}
		inside, err := os.Lstat(filepath.Join("/proc", strconv.Itoa(c.State.Pid), "root", target))
		if err != nil || !replaced(host, inside) {
			continue
		}
		out = append(out, diff.Difference{Field: convert.FieldFile + "/" + target, Class: diff.Replace, Cause: diff.Outside,
			Desired: x.Source + " as it is now", Observed: x.Source + " as it was when the container started",
			Why: "one file is mounted as it was at the start: the container is made again with the one that is there now"})
	}
	return out
}

// replaced reports whether two regular files of one file system are different ones. A path that leads elsewhere
// inside of a container is no bind of the host's file.
func replaced(host, inside os.FileInfo) bool {
	h, knownHost := host.Sys().(*syscall.Stat_t)
	i, knownInside := inside.Sys().(*syscall.Stat_t)
	return knownHost && knownInside && h.Dev == i.Dev && h.Ino != i.Ino && host.Mode().IsRegular() && inside.Mode().IsRegular()
}
