package metrics

// set remembers which files count for a container. Version 1 and version 2 of
// control groups may each hold some of the controllers.
func (k *known) set(p [controllers]place, groups []byte) {
	k.groups = groups
	k.cpu, k.io = p[cpuController], p[ioController]
	k.cpuFile, k.memUsage, k.memLimit, k.memStat, k.cacheKey, k.pids, k.ioFiles = "", "", "", "", "", "", nil
	switch {
	case k.cpu.dir == "":
	case k.cpu.v2:
		k.cpuFile = k.cpu.dir + "/cpu.stat"
	default:
		k.cpuFile = k.cpu.dir + "/cpuacct.usage"
	}
	k.memDir = p[memoryController].dir
	switch m := p[memoryController]; {
	case m.dir == "":
	case m.v2:
		k.memUsage, k.memLimit, k.memStat, k.cacheKey = m.dir+"/memory.current", m.dir+"/memory.max", m.dir+"/memory.stat", "inactive_file"
	default:
		k.memUsage, k.memLimit = m.dir+"/memory.usage_in_bytes", m.dir+"/memory.limit_in_bytes"
		k.memStat, k.cacheKey = m.dir+"/memory.stat", "total_inactive_file"
	}
	if p[pidsController].dir != "" {
		k.pids = p[pidsController].dir + "/pids.current"
	}
	switch {
	case k.io.dir == "":
	case k.io.v2:
		k.ioFiles = []string{k.io.dir + "/io.stat"}
	default:
		k.ioFiles = []string{k.io.dir + "/blkio.throttle.io_service_bytes_recursive", k.io.dir + "/blkio.throttle.io_service_bytes"}
	}
}

// readCPU returns the CPU time used in microseconds.
func (c *Collector) readCPU(k *known) (*uint64, error) {
	if k.cpuFile == "" {
		return nil, nil
	}
	b, err := c.files.read(k.cpuFile)
	if err != nil {
		return nil, err
	}
	if k.cpu.v2 {
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

// readMemory reads use and limit. Page cache that the kernel drops at once is
// not use, as the engine's own statistics have it.
func (c *Collector) readMemory(k *known, w *Workspace) error {
	if k.memUsage == "" {
		return nil
	}
	b, err := c.files.read(k.memUsage)
	if err != nil {
		return err
	}
	usage, ok := parseNumber(b)
	if b, err = c.files.read(k.memStat); err != nil {
		return err
	}
	cache, cached := parseKeyed(b, k.cacheKey)
	if ok && cached {
		w.MemBytes = new(count(usage - min(cache, usage)))
	}
	if b, err = c.files.read(k.memLimit); err != nil {
		return err
	}
	if limit, ok := parseLimit(b); ok {
		w.MemLimitBytes = new(count(limit))
	}
	return nil
}

func (c *Collector) readPids(k *known, w *Workspace) error {
	if k.pids == "" {
		return nil
	}
	b, err := c.files.read(k.pids)
	if err != nil {
		return err
	}
	if n, ok := parseNumber(b); ok {
		w.Pids = new(count(n))
	}
	return nil
}

// readIO reads the first counter file that the kernel has.
func (c *Collector) readIO(k *known, w *Workspace) error {
	var failed error
	for _, path := range k.ioFiles {
		b, err := c.files.read(path)
		if err != nil {
			failed = err
			continue
		}
		read, written, counted := parseBlkio(b)
		if k.io.v2 {
			read, written = parseIOStat(b)
		} else if !counted {
			return nil
		}
		w.IOReadBytes, w.IOWrittenBytes = new(count(read)), new(count(written))
		return nil
	}
	return failed
}
