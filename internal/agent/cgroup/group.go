package cgroup

import (
	"os"

	"github.com/steadyfleet/steady/internal/agent/procfs"
)

// Group is where the kernel counts for one container. Version 1 and version 2 may
// each hold some of the controllers; what a host does not count has no file.
type Group struct {
	cpu, io            place
	memory             string // folder
	cpuFile, pids      string
	memUsage, memLimit string
	memStat, cacheKey  string
	ioFiles            []string // the first that the kernel has
}

func groupAt(p [controllers]place) *Group {
	g := &Group{cpu: p[cpuController], io: p[ioController], memory: p[memoryController].dir}
	switch {
	case g.cpu.dir == "":
	case g.cpu.v2:
		g.cpuFile = g.cpu.dir + "/cpu.stat"
	default:
		g.cpuFile = g.cpu.dir + "/cpuacct.usage"
	}
	switch m := p[memoryController]; {
	case m.dir == "":
	case m.v2:
		g.memUsage, g.memLimit, g.memStat, g.cacheKey = m.dir+"/memory.current", m.dir+"/memory.max", m.dir+"/memory.stat", "inactive_file"
	default:
		g.memUsage, g.memLimit = m.dir+"/memory.usage_in_bytes", m.dir+"/memory.limit_in_bytes"
		g.memStat, g.cacheKey = m.dir+"/memory.stat", "total_inactive_file"
	}
	if p[pidsController].dir != "" {
		g.pids = p[pidsController].dir + "/pids.current"
	}
	switch {
	case g.io.dir == "":
	case g.io.v2:
		g.ioFiles = []string{g.io.dir + "/io.stat"}
	default:
		g.ioFiles = []string{g.io.dir + "/blkio.throttle.io_service_bytes_recursive", g.io.dir + "/blkio.throttle.io_service_bytes"}
	}
	return g
}

// CPU returns the CPU time used in microseconds.
func (g *Group) CPU(f *procfs.Files) (micros *uint64, err error) {
	if g.cpuFile == "" {
		return nil, nil
	}
	b, err := f.Content(g.cpuFile)
	if err != nil {
		return nil, err
	}
	if g.cpu.v2 {
		if n, ok := parseKeyed(b, "usage_usec"); ok {
			return &n, nil
		}
		return nil, nil
	}
	n, ok := parseNumber(b)
	if !ok {
		return nil, nil
	}
	n /= 1000 // nanoseconds
	return &n, nil
}

// Memory returns use and limit in bytes. Page cache that the kernel drops at once
// is not use, as the engine's own statistics have it. What was read before an
// error is returned with it.
func (g *Group) Memory(f *procfs.Files) (used, limit *uint64, err error) {
	if g.memUsage == "" {
		return nil, nil, nil
	}
	b, err := f.Content(g.memUsage)
	if err != nil {
		return nil, nil, err
	}
	usage, ok := parseNumber(b)
	if b, err = f.Content(g.memStat); err != nil {
		return nil, nil, err
	}
	cache, cached := parseKeyed(b, g.cacheKey)
	if ok && cached {
		used = new(usage - min(cache, usage))
	}
	if b, err = f.Content(g.memLimit); err != nil {
		return used, nil, err
	}
	if n, ok := parseLimit(b); ok {
		limit = &n
	}
	return used, limit, nil
}

// Tasks returns how many processes and threads there are.
func (g *Group) Tasks(f *procfs.Files) (*uint64, error) {
	if g.pids == "" {
		return nil, nil
	}
	b, err := f.Content(g.pids)
	if err != nil {
		return nil, err
	}
	if n, ok := parseNumber(b); ok {
		return &n, nil
	}
	return nil, nil
}

// IO returns the bytes read from block devices and written to them.
func (g *Group) IO(f *procfs.Files) (read, written *uint64, err error) {
	for _, path := range g.ioFiles {
		b, failed := f.Content(path)
		if failed != nil {
			err = failed
			continue
		}
		r, w, counted := parseBlkio(b)
		if g.io.v2 {
			r, w = parseIOStat(b)
		} else if !counted {
			return nil, nil, nil
		}
		return &r, &w, nil
	}
	return nil, nil, err
}

// Gone reports that one of the folders is not there any more.
func (g *Group) Gone() bool {
	return g.cpu.dir != "" && !isDir(g.cpu.dir) || g.memory != "" && !isDir(g.memory)
}

func isDir(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}
