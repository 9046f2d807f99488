package metrics

import (
	"path/filepath"
	"slices"
	"strings"
)

// controller is a part of the kernel that counts for a control group.
type controller int

const (
	cpuController controller = iota
	memoryController
	pidsController
	ioController
	controllers // how many
)

// v1Name is what version 1 calls a controller.
func (c controller) v1Name() string {
	return [controllers]string{"cpuacct", "memory", "pids", "blkio"}[c]
}

// place is the folder where a controller counts for one container; the folder
// is empty where it counts nowhere.
type place struct {
	dir string
	v2  bool
}

// hierarchies are the mounted control group hierarchies, below a root of /sys.
type hierarchies []cgroupMount

// under keeps the mounts that lie below sys, the place where /sys is found. If
// there are none, those below /sys are taken to be seen there.
func under(mounts []cgroupMount, sys string) hierarchies {
	var out hierarchies
	for _, m := range mounts {
		if strings.HasPrefix(m.point, sys+"/") {
			out = append(out, m)
		}
	}
	if len(out) > 0 {
		return out
	}
	for _, m := range mounts {
		if rest, ok := strings.CutPrefix(m.point, "/sys/"); ok {
			m.point = filepath.Join(sys, rest)
			out = append(out, m)
		}
	}
	return out
}

// locate finds where each controller counts for the process with these control
// groups. With a container id it is the container's own group even if the
// process sits in a group below it, and a controller whose group does not name
// the id is left out. Without an id the process's group counts, but never the
// root, which is the whole host.
func (h hierarchies) locate(groups []cgroupLine, id string) [controllers]place {
	var out [controllers]place
	for c := range controllers {
		for _, g := range groups {
			v2 := g.controllers == ""
			if !v2 && !hasWord(g.controllers, c.v1Name()) {
				continue
			}
			if dir := h.dir(c, v2, groupOf(g.path, id)); dir != "" {
				out[c] = place{dir: dir, v2: v2}
				if !v2 { // a controller bound to version 1 does not count in version 2
					break
				}
			}
		}
	}
	return out
}

// guess lists the groups that engines make for a container id by default, for
// readers whose /proc hides the real path.
func guess(groups []cgroupLine, id string) []cgroupLine {
	var out []cgroupLine
	for _, g := range groups {
		out = append(out, cgroupLine{g.controllers, "/docker/" + id}, cgroupLine{g.controllers, "/system.slice/docker-" + id + ".scope"})
	}
	return out
}

// hidden reports that a path lies outside what the reader's own control group
// namespace shows.
func hidden(groups []cgroupLine) bool {
	return slices.ContainsFunc(groups, func(g cgroupLine) bool { return g.path == "/.." || strings.HasPrefix(g.path, "/../") })
}

// names reports that a group of the process belongs to the container.
func names(groups []cgroupLine, id string) bool {
	return slices.ContainsFunc(groups, func(g cgroupLine) bool { return groupOf(g.path, id) != "" })
}

// groupOf cuts a path after the part that names the container, or returns "".
func groupOf(path, id string) string {
	if slices.Contains(strings.Split(path, "/"), "..") {
		return ""
	}
	if id == "" {
		return strings.TrimRight(path, "/")
	}
	at := strings.Index(path, id)
	if at < 0 {
		return ""
	}
	if end := strings.IndexByte(path[at:], '/'); end >= 0 {
		return path[:at+end]
	}
	return path
}

// dir returns the folder of a group, or "" if no mount shows it.
func (h hierarchies) dir(c controller, v2 bool, group string) string {
	if group == "" {
		return ""
	}
	for _, m := range h {
		if m.v2 != v2 || !v2 && !hasWord(m.options, c.v1Name()) {
			continue
		}
		if rest, ok := below(group, m.root); ok {
			return filepath.Join(m.point, rest)
		}
	}
	return ""
}

// below returns the part of path below root, which may be all of it.
func below(path, root string) (string, bool) {
	root = strings.TrimRight(root, "/")
	rest, ok := strings.CutPrefix(path, root)
	return rest, ok && (rest == "" || rest[0] == '/')
}

func hasWord(list, word string) bool {
	for w := range strings.SplitSeq(list, ",") {
		if w == word {
			return true
		}
	}
	return false
}
