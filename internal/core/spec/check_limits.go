package spec

import (
	"cmp"
	"slices"
	"strings"
)

func checkDevices(c Checker, w *Workspace) {
	if len(w.Devices)+len(w.DeviceRules)+len(w.GPUs)+len(w.Ulimits) > MaxEntries {
		c.In("devices").Addf("more than %d devices and limits", MaxEntries)
		return
	}
	seen := map[string]bool{}
	for i, d := range w.Devices {
		cd := c.Item("devices", i)
		checkText(cd, d.Host, d.Container)
		if !strings.HasPrefix(d.Host, "/") || d.Container != "" && !strings.HasPrefix(d.Container, "/") {
			cd.Addf("device %q at %q: expected absolute paths", d.Host, d.Container)
		}
		if strings.Trim(d.Permissions, "rwm") != "" {
			cd.Addf("permissions %q: expected some of r, w and m", d.Permissions)
		}
		at := cmp.Or(d.Container, d.Host)
		if seen[at] {
			cd.Addf("device %q is there twice: expected once", at)
		}
		seen[at] = true
	}
	checkTexts(c.In("deviceRules"), w.DeviceRules)
	for i, g := range w.GPUs {
		cg := c.Item("gpus", i)
		checkText(cg, g.Driver)
		checkTexts(cg.In("ids"), g.IDs)
		checkTexts(cg.In("capabilities"), g.Capabilities)
		checkMap(cg.In("options"), g.Options)
		if g.Count < -1 || g.Count > 1024 || g.Count != 0 && len(g.IDs) > 0 {
			cg.Addf("count %d with %d ids: expected a count up to 1024, -1 for all, or ids", g.Count, len(g.IDs))
		}
		if len(g.Capabilities) == 0 {
			cg.Addf("a device request without capabilities: expected some, such as gpu")
		}
	}
	names := map[string]bool{}
	for _, u := range w.Ulimits {
		cu := c.In("ulimits", u.Name)
		checkText(cu, u.Name)
		if u.Name == "" || names[u.Name] {
			cu.Addf("limit %q is there twice or has no name", u.Name)
		}
		names[u.Name] = true
		if u.Soft < -1 || u.Hard < -1 || u.Hard != -1 && u.Soft > u.Hard || u.Soft == -1 && u.Hard != -1 || max(u.Soft, u.Hard) > MaxInteger {
			cu.Addf("soft %d and hard %d: expected a soft limit within the hard one, -1 for none", u.Soft, u.Hard)
		}
	}
}

// minMemory is the least that the engine takes.
const minMemory = 6 << 20

func checkLimits(c Checker, l *Limits) {
	for _, v := range []struct {
		key string
		n   int64
	}{
		{"nanoCPUs", l.NanoCPUs}, {"cpuShares", l.CPUShares}, {"cpuPeriod", l.CPUPeriod}, {"cpuQuota", max(l.CPUQuota, 0)},
		{"cpuRTPeriod", l.CPURTPeriod}, {"cpuRTRuntime", l.CPURTRuntime}, {"cpuCount", l.CPUCount}, {"cpuPerMille", l.CPUPerMille},
		{"memory", l.Memory}, {"memoryReservation", l.MemoryReservation}, {"memorySwap", max(l.MemorySwap, 0)},
	} {
		checkSize(c, v.key, v.n)
	}
	checkText(c, l.CPUSet, l.CPUMems)
	if l.NanoCPUs > 0 && (l.CPUQuota != 0 || l.CPUPeriod != 0) {
		c.In("nanoCPUs").Addf("cpus together with a CPU quota or period: expected one of them")
	}
	if l.Memory > 0 && l.Memory < minMemory {
		c.In("memory").Addf("%d bytes: expected at least %d, which is what the engine accepts", l.Memory, minMemory)
	}
	if l.MemorySwap < -1 || l.MemorySwap > 0 && (l.Memory == 0 || l.MemorySwap < l.Memory) {
		c.In("memorySwap").Addf("%d bytes of memory and swap with %d of memory: expected memory set and no more than that, or -1", l.MemorySwap, l.Memory)
	}
	if l.MemoryReservation > 0 && l.Memory > 0 && l.MemoryReservation > l.Memory {
		c.In("memoryReservation").Addf("%d bytes are above the limit of %d: expected no more than that", l.MemoryReservation, l.Memory)
	}
	if l.Swappiness != nil && (*l.Swappiness < -1 || *l.Swappiness > 100) {
		c.In("swappiness").Addf("%d: expected 0 to 100", *l.Swappiness)
	}
	if l.OOMScoreAdj < -1000 || l.OOMScoreAdj > 1000 {
		c.In("oomScoreAdj").Addf("%d: expected -1000 to 1000", l.OOMScoreAdj)
	}
	if l.PIDs != nil && (*l.PIDs < -1 || *l.PIDs > MaxInteger) {
		c.In("pids").Addf("%d: expected a count, or -1 for no limit", *l.PIDs)
	}
	if l.BlkioWeight != 0 && (l.BlkioWeight < 10 || l.BlkioWeight > 1000) {
		c.In("blkioWeight").Addf("%d: expected 10 to 1000", l.BlkioWeight)
	}
	if c.In("blkioDevices").tooMany(len(l.BlkioDevices), "limits") {
		return
	}
	for i, b := range l.BlkioDevices {
		if !slices.Contains([]string{"weight", "read_bps", "read_iops", "write_bps", "write_iops"}, b.What) || !strings.HasPrefix(b.Path, "/") || b.Rate < 0 || b.Rate > MaxInteger {
			c.Item("blkioDevices", i).Addf("%s of %q at %d: expected weight, read_bps, read_iops, write_bps or write_iops of a device's path", b.What, b.Path, b.Rate)
		}
	}
}

// capabilities of Linux, without CAP_.
var capabilities = []string{
	"ALL", "AUDIT_CONTROL", "AUDIT_READ", "AUDIT_WRITE", "BLOCK_SUSPEND", "BPF", "CHECKPOINT_RESTORE", "CHOWN",
	"DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "IPC_LOCK", "IPC_OWNER", "KILL", "LEASE", "LINUX_IMMUTABLE",
	"MAC_ADMIN", "MAC_OVERRIDE", "MKNOD", "NET_ADMIN", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_RAW", "PERFMON",
	"SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYSLOG", "SYS_ADMIN", "SYS_BOOT", "SYS_CHROOT", "SYS_MODULE", "SYS_NICE",
	"SYS_PACCT", "SYS_PTRACE", "SYS_RAWIO", "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "WAKE_ALARM",
}

func checkSecurity(c Checker, w *Workspace) {
	s, n := &w.Security, &w.Namespaces
	for _, list := range [][]string{s.CapAdd, s.CapDrop} {
		if len(list) > MaxEntries {
			c.In("security").Addf("%d capabilities: expected at most %d", len(list), len(capabilities))
			return
		}
		for _, name := range list {
			if !slices.Contains(capabilities, Capability(name)) {
				c.In("security", "capabilities").Addf("capability %q is not known: expected one such as NET_ADMIN", name)
			}
		}
	}
	checkTexts(c.In("security", "options"), s.Options)
	checkText(c.In("namespaces"), s.Credential, n.UTS, n.User, n.CgroupParent, n.Isolation)
	for _, v := range []struct {
		key, mode string
		known     []string
	}{
		{"ipc", n.IPC, []string{"", "host", "private", "none", "shareable"}},
		{"pid", n.PID, []string{"", "host"}},
	} {
		if name, share := strings.CutPrefix(v.mode, SharePrefix); share {
			checkName(c.In("namespaces", v.key), name)
		} else if !slices.Contains(v.known, v.mode) {
			c.In("namespaces", v.key).Addf("%s mode %q: expected %sNAME or one of %q", v.key, v.mode, SharePrefix, v.known)
		}
	}
	checkOneOf(c.In("namespaces", "uts"), n.UTS, "uts mode %q: expected host", "", "host")
	checkOneOf(c.In("namespaces", "user"), n.User, "user mode %q: expected host", "", "host")
	checkOneOf(c.In("namespaces", "cgroup"), n.Cgroup, "cgroup mode %q: expected host or private", "", "host", "private")
	if w.Logging != nil {
		checkText(c.In("logging", "driver"), w.Logging.Driver)
		checkMap(c.In("logging", "options"), w.Logging.Options)
	}
}
