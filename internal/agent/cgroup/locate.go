// Package cgroup finds the control groups that count for a container, in either
// version of the kernel's interface or both, and reads what they count. A value
// that the kernel does not count, or does not show, is nil.
package cgroup

import (
	"errors"
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

// Mounts are the mounted control group Mounts, below a root of /sys.
type Mounts []mount

// ErrForeign says that a process does not belong to the container.
var ErrForeign = errors.New("the process belongs to another container, or to none")

// ParseMounts reads a /proc/PID/mountinfo; sys is where its /sys is found.
func ParseMounts(mountinfo []byte, sys string) Mounts { return under(parseMounts(mountinfo), sys) }

// Find returns the group that counts for a container, from the content of
// /proc/PID/cgroup of one of its processes, or nil if no mount shows it. The id,
// in full, keeps a process that got the same number since from being taken for
// it; without one the process's own group counts, but never the root, which is
// the whole host.
func (m Mounts) Find(content []byte, id string) (*Group, error) {
	lines := parseLines(content)
	switch {
	case id == "" || names(lines, id):
	case !hidden(lines):
		return nil, ErrForeign
	default:
		lines = slices.DeleteFunc(guess(lines, id), func(g line) bool { return !m.shows(g) })
	}
	places := m.locate(lines, id)
	if places == ([controllers]place{}) {
		return nil, nil
	}
	return groupAt(places), nil
}

// shows reports that a group has a folder.
func (m Mounts) shows(g line) bool {
	for c := range controllers {
		if dir := m.dir(c, g.controllers == "", g.path); dir != "" && isDir(dir) {
			return true
		}
	}
	return false
}

// under keeps the mounts that lie below sys, the place where /sys is found. If
// there are none, those below /sys are taken to be seen there.
func under(mounts []mount, sys string) Mounts {
	var out Mounts
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
func (m Mounts) locate(groups []line, id string) [controllers]place {
	var out [controllers]place
	for c := range controllers {
		for _, g := range groups {
			v2 := g.controllers == ""
			if !v2 && !hasWord(g.controllers, c.v1Name()) {
				continue
			}
			if dir := m.dir(c, v2, groupOf(g.path, id)); dir != "" {
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
func guess(groups []line, id string) []line {
	var out []line
	for _, g := range groups {
		out = append(out, line{g.controllers, "/docker/" + id}, line{g.controllers, "/system.slice/docker-" + id + ".scope"})
	}
	return out
}

// hidden reports that a path lies outside what the reader's own control group
// namespace shows.
func hidden(groups []line) bool {
	return slices.ContainsFunc(groups, func(g line) bool { return g.path == "/.." || strings.HasPrefix(g.path, "/../") })
}

// names reports that a group of the process belongs to the container.
func names(groups []line, id string) bool {
	return slices.ContainsFunc(groups, func(g line) bool { return groupOf(g.path, id) != "" })
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
func (m Mounts) dir(c controller, v2 bool, group string) string {
	if group == "" {
		return ""
	}
	for _, at := range m {
		if at.v2 != v2 || !v2 && !hasWord(at.options, c.v1Name()) {
			continue
		}
		if rest, ok := below(group, at.root); ok {
			return filepath.Join(at.point, rest)
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
