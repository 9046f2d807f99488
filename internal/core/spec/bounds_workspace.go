package spec

import (
	"maps"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
)

func (w *Workspace) CheckBounds(b *Bounds, c Checker) {
	if !b.Privileged {
		b.privileges(c, w)
	}
	b.namespaces(c, w)
	b.hardware(c, w)
	b.workspaceMounts(c, w)
	b.secrets(c, w)
	b.ports(c, w)
	b.limits(c.In("limits"), w)
	b.stops(c, w)
}

func (b *Bounds) stops(c Checker, w *Workspace) {
	most := clock.Duration(b.MaxStopGrace)
	if most == 0 {
		return
	}
	if grace := w.Grace(); grace > most {
		c.In("stopGrace").Addf("a stop grace of %s is not allowed here: expected at most %s", grace, most)
	} else if n := len(w.PreStop); n > 0 && grace+clock.Duration(n)*HookTime > most {
		c.In("preStop").Addf("a stop grace of %s and %d commands before the stop, of up to %s each, are not allowed here: expected at most %s in all", grace, n, HookTime, most)
	}
}

func (b *Bounds) privileges(c Checker, w *Workspace) {
	s := c.In("security")
	if w.Security.Privileged {
		s.In("privileged").Addf("a privileged container is not allowed here: expected none")
	}
	for _, h := range slices.Concat(w.PostStart, w.PreStop) {
		if h.Privileged {
			c.In("postStart").Addf("a privileged command is not allowed here: expected none")
		}
	}
	for _, name := range w.Security.CapAdd {
		if !slices.Contains(SafeCapabilities, Capability(name)) {
			s.In("capAdd").Addf("capability %q is not allowed here: expected one of those that every container has", name)
		}
	}
	for _, option := range w.Security.Options {
		checkOneOf(s.In("options"), option, "security option %q is not allowed here: expected no-new-privileges or none",
			"no-new-privileges", "no-new-privileges:true", "no-new-privileges=true")
	}
	if w.Security.Credential != "" {
		s.In("credentialSpec").Addf("credentials of the host are not allowed here: expected none")
	}
	for _, k := range slices.Sorted(maps.Keys(w.Sysctls)) {
		c.In("sysctls", k).Addf("sysctl %q is not allowed here: expected none", k)
	}
	for _, k := range slices.Sorted(maps.Keys(w.Annotation)) {
		c.In("annotations", k).Addf("annotation %q may steer the runtime: expected none", k)
	}
	if w.Runtime != "" && w.Runtime != "runc" && !(w.Runtime == "nvidia" && b.Devices) {
		c.In("runtime").Addf("runtime %q is not allowed here: expected the engine's own", w.Runtime)
	}
	if l := w.Limits; l.OOMScoreAdj < 0 || l.OOMKillDisable != nil && *l.OOMKillDisable || l.CPURTRuntime != 0 || l.CPURTPeriod != 0 {
		c.In("limits").Addf("priority over the host's own processes is not allowed here: expected no negative oomScoreAdj, no oomKillDisable and no real time")
	}
	if l := w.Limits; l.CPUShares > ordinaryShares || l.BlkioWeight > ordinaryWeight {
		c.In("limits").Addf("%d CPU shares and an I/O weight of %d put it before others: expected at most %d and %d", l.CPUShares, l.BlkioWeight, ordinaryShares, ordinaryWeight)
	}
	for i, u := range w.Ulimits {
		if most, known := ulimits[u.Name]; !known || most > 0 && (u.Soft < 0 || u.Hard < 0 || max(u.Soft, u.Hard) > most) {
			c.Item("ulimits", i).Addf("ulimit %s of %d:%d is not allowed here: expected one of %q, nofile and nproc of at most %d", u.Name, u.Soft, u.Hard, slices.Sorted(maps.Keys(ulimits)), mostOpen)
		}
	}
}

// What containers have by default, and so may ask for.
const (
	ordinaryShares = 1024
	ordinaryWeight = 500
	mostOpen       = 1 << 20
)

// ulimits are those that limit the container alone, with the most that may be asked for;
// 0 is any. The others (rtprio, rttime, nice) put its processes before the host's own.
var ulimits = map[string]int64{"as": 0, "core": 0, "cpu": 0, "data": 0, "fsize": 0, "locks": 0, "memlock": 0, "msgqueue": 0,
	"nofile": mostOpen, "nproc": mostOpen, "rss": 0, "sigpending": 0, "stack": 0}

func (b *Bounds) namespaces(c Checker, w *Workspace) {
	n := &w.Namespaces
	for _, v := range []struct {
		key, mode string
		own       []string
	}{
		{"networkMode", w.NetworkMode, []string{"", "bridge", "none"}},
		{"ipc", n.IPC, []string{"", "private", "none", "shareable"}},
		{"pid", n.PID, []string{""}},
		{"uts", n.UTS, []string{""}},
		{"user", n.User, []string{""}},
		{"cgroup", n.Cgroup, []string{"", "private"}},
		{"isolation", n.Isolation, []string{"", "default"}},
	} {
		shared := strings.HasPrefix(v.mode, SharePrefix) && v.key != "user" && v.key != "cgroup"
		host := v.mode == "host" && b.HostNamespaces
		if !slices.Contains(v.own, v.mode) && !shared && !host {
			c.In("namespaces", v.key).Addf("%s mode %q is not allowed here: expected the container's own", v.key, v.mode)
		}
	}
	if n.CgroupParent != "" && !b.HostNamespaces {
		c.In("namespaces", "cgroupParent").Addf("cgroup parent %q leaves the engine's bounds: expected none", n.CgroupParent)
	}
	if w.Logging != nil {
		checkOneOf(c.In("logging", "driver"), w.Logging.Driver, "log driver %q sends logs from the host: expected json-file, local, journald or none",
			"", "json-file", "local", "none", "journald")
	}
	for i, a := range w.Networks {
		if len(a.DriverOpts) > 0 && !b.Privileged {
			c.Item("networks", i).Addf("options of the network driver are not allowed here, sysctls are among them: expected none")
		}
	}
}

func (b *Bounds) hardware(c Checker, w *Workspace) {
	if b.Devices {
		return
	}
	for i, d := range w.Devices {
		c.Item("devices", i).Addf("device %q is not allowed here: expected none", d.Host)
	}
	for i, r := range w.DeviceRules {
		c.Item("deviceRules", i).Addf("device rule %q is not allowed here: expected none", r)
	}
	for i := range w.GPUs {
		c.Item("gpus", i).Addf("GPUs are not allowed here: expected none")
	}
	for i, l := range w.Limits.BlkioDevices {
		c.In("limits").Item("blkioDevices", i).Addf("a limit of device %q is not allowed here: expected none", l.Path)
	}
}

func (b *Bounds) workspaceMounts(c Checker, w *Workspace) {
	for i, m := range w.Mounts {
		cm := c.Item("mounts", i)
		switch m.Type {
		case MountVolume, MountAnonymous, MountTmpfs:
			if (slices.Contains(m.Options, "dev") || slices.Contains(m.Options, "suid")) && !b.Privileged {
				cm.Addf("a tmpfs with devices or programs that change their user is not allowed here: expected neither dev nor suid")
			}
		case MountBind:
			if !b.mounts(m.Source) {
				cm.Addf("path %q of the host is not allowed here: expected one below %q, clean, and no engine's socket", m.Source, b.HostMounts)
			}
			checkOneOf(cm, m.Propagation, "propagation %q would mount on the host: expected private or slave", "", "private", "rprivate", "slave", "rslave")
			if m.SELinux != "" && !b.Privileged {
				cm.Addf("selinux %q would label the host's files anew: expected none", m.SELinux)
			}
		default:
			cm.Addf("mount type %q is not allowed here: expected volume, tmpfs or bind", m.Type)
		}
	}
}

func (b *Bounds) secrets(c Checker, w *Workspace) {
	check := func(c Checker, name string) {
		of, session := SecretOwner(name)
		switch {
		case name == "" || slices.Contains(b.Secrets, name):
		case !session:
			c.Addf("secret %q of the host is not allowed here: expected one of %q", name, b.Secrets)
		case b.CheckOwner(of) != nil:
			c.Addf("secret %q: %v", name, b.CheckOwner(of))
		}
	}
	for i, e := range w.Env {
		check(c.Item("env", i), e.Secret)
	}
	for i, f := range w.Contents {
		check(c.Item("contents", i), f.Secret)
	}
}

func (b *Bounds) ports(c Checker, w *Workspace) {
	for i, p := range w.Ports {
		switch {
		case b.Ports == nil:
			c.Item("ports", i).Addf("port %d of the host is not allowed here: expected none; a route leads to a workspace without one", p.HostPort)
		case p.HostPort == 0:
			c.Item("ports", i).Addf("a port that the engine chooses may be any: expected one of %d to %d", b.Ports.From, b.Ports.To)
		case p.HostPort < b.Ports.From || max(p.HostPort, p.HostPortEnd) > b.Ports.To:
			c.Item("ports", i).Addf("port %d of the host is not allowed here: expected %d to %d", p.HostPort, b.Ports.From, b.Ports.To)
		}
	}
}

func (b *Bounds) limits(c Checker, w *Workspace) {
	l := &w.Limits
	if most := b.MaxMemory; most > 0 {
		if l.Memory <= 0 || l.Memory > most {
			c.In("memory").Addf("memory of %d bytes: expected a limit of at most %d", l.Memory, most)
		}
		if l.MemorySwap < 0 || l.MemorySwap/2 > most || l.MemoryReservation > most {
			c.In("memorySwap").Addf("memory and swap of %d bytes: expected at most twice %d", l.MemorySwap, most)
		}
	}
	if most := b.MaxPIDs; most > 0 && (l.PIDs == nil || *l.PIDs <= 0 || *l.PIDs > most) {
		c.In("pids").Addf("processes without a limit, or more than allowed: expected a limit of at most %d", most)
	}
	if most := b.MaxNanoCPUs; most > 0 && (l.NanoCPUs <= 0 || l.NanoCPUs > most || l.CPUQuota != 0 || l.CPUPeriod != 0) {
		c.In("nanoCPUs").Addf("%d billionths of a processor: expected a limit of at most %d, and no quota", l.NanoCPUs, most)
	}
}

// Confine keeps its mounts below the folder that allows them.
func (w *Workspace) Confine(b *Bounds) {
	w.Mounts = slices.Clone(w.Mounts)
	for i := range w.Mounts {
		if m := &w.Mounts[i]; m.Type == MountBind {
			m.Beneath = b.allowing(m.Source)
		} else {
			m.Beneath = ""
		}
	}
}
