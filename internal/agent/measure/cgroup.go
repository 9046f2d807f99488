package measure

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"
)

// controller is a part of the kernel that counts for a control group: cgroups(7).
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
// is empty where it counts nowhere. Version 1 and version 2 may each hold some
// of the controllers.
type place struct {
	dir string
	v2  bool
}

// cgroup is where the kernel counts for one container. What a host does not
// count, or does not show, is nil.
type cgroup [controllers]place

// read returns a file of a controller's folder: that of version 2 or else that
// of version 1. Nothing without an error when the controller counts nowhere.
func (g *cgroup) read(c controller, v2, v1 string) (string, error) {
	p := g[c]
	if p.dir == "" {
		return "", nil
	}
	name := v1
	if p.v2 {
		name = v2
	}
	b, err := os.ReadFile(filepath.Join(p.dir, name))
	return strings.TrimSpace(string(b)), err
}

// cpu returns the CPU time used in microseconds.
func (g *cgroup) cpu() (*uint64, error) {
	b, err := g.read(cpuController, "cpu.stat", "cpuacct.usage")
	if g[cpuController].v2 {
		return keyed(b, "usage_usec"), err
	}
	n := number(b)
	if n != nil {
		*n /= 1000 // nanoseconds
	}
	return n, err
}

// memory returns use and limit in bytes. Page cache that the kernel drops at once
// is not use, as the engine's own statistics have it. What was read before an
// error is returned with it.
func (g *cgroup) memory() (used, limit *uint64, err error) {
	usage, err := g.read(memoryController, "memory.current", "memory.usage_in_bytes")
	if err != nil {
		return nil, nil, err
	}
	stat, err := g.read(memoryController, "memory.stat", "memory.stat")
	if err != nil {
		return nil, nil, err
	}
	key := "total_inactive_file"
	if g[memoryController].v2 {
		key = "inactive_file"
	}
	if n, cache := number(usage), keyed(stat, key); n != nil && cache != nil {
		used = new(*n - min(*cache, *n))
	}
	// No limit is "max" in version 2, and just below 2^63 in version 1.
	b, err := g.read(memoryController, "memory.max", "memory.limit_in_bytes")
	if limit = number(b); limit != nil && *limit >= 1<<62 {
		limit = nil
	}
	return used, limit, err
}

// tasks returns how many processes and threads there are.
func (g *cgroup) tasks() (*uint64, error) {
	b, err := g.read(pidsController, "pids.current", "pids.current")
	return number(b), err
}

// io returns the bytes read from block devices and written to them. Without a line
// of a device in version 1 it is nil: newer kernels count here only once a limit is
// set, and then a zero would be a lie.
func (g *cgroup) io() (read, written *uint64, err error) {
	if g[ioController].dir == "" {
		return nil, nil, nil
	}
	b, err := g.read(ioController, "io.stat", "blkio.throttle.io_service_bytes_recursive")
	if err != nil && !g[ioController].v2 {
		b, err = g.read(ioController, "", "blkio.throttle.io_service_bytes")
	}
	if err != nil {
		return nil, nil, err
	}
	counted := g[ioController].v2
	var r, w uint64
	for line := range strings.Lines(b) {
		f := strings.Fields(line)
		for _, kv := range f[min(1, len(f)):] {
			if n, ok := strings.CutPrefix(kv, "rbytes="); ok {
				r += value(n)
			} else if n, ok := strings.CutPrefix(kv, "wbytes="); ok {
				w += value(n)
			}
		}
		if g[ioController].v2 || len(f) < 3 || number(f[2]) == nil {
			continue
		}
		switch f[1] {
		case "Read":
			r, counted = r+value(f[2]), true
		case "Write":
			w, counted = w+value(f[2]), true
		}
	}
	if !counted {
		return nil, nil, nil
	}
	return &r, &w, nil
}

// gone reports that one of the folders is not there any more.
func (g *cgroup) gone() bool {
	cpu, memory := g[cpuController].dir, g[memoryController].dir
	return cpu != "" && !isDir(cpu) || memory != "" && !isDir(memory)
}

func isDir(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}

// number reads a decimal, or nil.
func number(s string) *uint64 {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return nil
	}
	return &n
}

func value(s string) uint64 {
	n, _ := strconv.ParseUint(s, 10, 64)
	return n
}

// keyed finds one key of a file of "key value" lines.
func keyed(b, key string) *uint64 {
	for line := range strings.Lines(b) {
		if k, v, ok := strings.Cut(line, " "); ok && k == key {
			return number(strings.TrimSpace(v))
		}
	}
	return nil
}

// cgroupMounts are the mounted hierarchies, below a root of /sys.
type cgroupMounts []*procfs.MountInfo

// errForeign says that a process does not belong to the container.
var errForeign = errors.New("the process belongs to another container, or to none")

func isV2(m *procfs.MountInfo) bool { return m.FSType == "cgroup2" }

// mountsUnder keeps the control group mounts that lie below sys, the place where /sys is
// found. If there are none, those below /sys are taken to be seen there.
func mountsUnder(all []*procfs.MountInfo, sys string) cgroupMounts {
	var below, moved cgroupMounts
	for _, m := range all {
		if !isV2(m) && m.FSType != "cgroup" {
			continue
		}
		at := *m
		at.Root, at.MountPoint = unescape(at.Root), filepath.Clean(unescape(at.MountPoint))
		if strings.HasPrefix(at.MountPoint, sys+"/") {
			below = append(below, &at)
		}
		if rest, ok := strings.CutPrefix(at.MountPoint, "/sys/"); ok {
			at.MountPoint = filepath.Join(sys, rest)
			moved = append(moved, &at)
		}
	}
	if len(below) > 0 {
		return below
	}
	return moved
}

// unescape resolves the octal escapes of mountinfo: blank, tab, newline, backslash.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// find returns the group that counts for a container, from the groups of one of
// its processes, or nil if no mount shows it. The id, in full, keeps a process that
// got the same number since from being taken for it; without one the process's
// own group counts, but never the root, which is the whole host.
func (m cgroupMounts) find(groups []procfs.Cgroup, id string) (*cgroup, error) {
	switch {
	case id == "" || names(groups, id):
	case !hidden(groups):
		return nil, errForeign
	default:
		groups = slices.DeleteFunc(guess(groups, id), func(g procfs.Cgroup) bool { return !m.shows(g) })
	}
	if g := m.locate(groups, id); g != (cgroup{}) {
		return &g, nil
	}
	return nil, nil
}

// shows reports that a group has a folder.
func (m cgroupMounts) shows(g procfs.Cgroup) bool {
	for c := range controllers {
		if dir := m.dir(c, len(g.Controllers) == 0, g.Path); dir != "" && isDir(dir) {
			return true
		}
	}
	return false
}

// locate finds where each controller counts for the process with these control
// groups. With a container id it is the container's own group even if the
// process sits in a group below it, and a controller whose group does not name
// the id is left out. Without an id the process's group counts, but never the
// root, which is the whole host.
func (m cgroupMounts) locate(groups []procfs.Cgroup, id string) (out cgroup) {
	for c := range controllers {
		for _, g := range groups {
			v2 := len(g.Controllers) == 0
			if !v2 && !slices.Contains(g.Controllers, c.v1Name()) {
				continue
			}
			if dir := m.dir(c, v2, groupOf(g.Path, id)); dir != "" {
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
func guess(groups []procfs.Cgroup, id string) []procfs.Cgroup {
	var out []procfs.Cgroup
	for _, g := range groups {
		for _, path := range []string{"/docker/" + id, "/system.slice/docker-" + id + ".scope"} {
			out = append(out, procfs.Cgroup{Controllers: g.Controllers, Path: path})
		}
	}
	return out
}

// hidden reports that a path lies outside what the reader's own control group
// namespace shows.
func hidden(groups []procfs.Cgroup) bool {
	return slices.ContainsFunc(groups, func(g procfs.Cgroup) bool { return g.Path == "/.." || strings.HasPrefix(g.Path, "/../") })
}

// names reports that a group of the process belongs to the container.
func names(groups []procfs.Cgroup, id string) bool {
	return slices.ContainsFunc(groups, func(g procfs.Cgroup) bool { return groupOf(g.Path, id) != "" })
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
func (m cgroupMounts) dir(c controller, v2 bool, group string) string {
	if group == "" {
		return ""
	}
	for _, at := range m {
		if _, counts := at.SuperOptions[c.v1Name()]; isV2(at) != v2 || !v2 && !counts {
			continue
		}
		if rest, ok := below(group, at.Root); ok {
			return filepath.Join(at.MountPoint, rest)
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
