package container

import (
	"maps"
	"slices"
	"strings"
)

func (b *Bounds) workspace(c checker, w *Workspace) {
	if !b.Privileged {
		b.privileges(c, w)
	}
	b.namespaces(c, w)
	b.attachments(c, w)
	b.hardware(c, w)
	b.workspaceMounts(c, w)
	b.secrets(c, w)
	b.ports(c, w)
	b.limits(c.in("limits"), w)
}

func (b *Bounds) privileges(c checker, w *Workspace) {
	s := c.in("security")
	if w.Security.Privileged {
		s.in("privileged").addf("a privileged container is not allowed here: expected none")
	}
	for _, name := range w.Security.CapAdd {
		if !slices.Contains(SafeCapabilities, capability(name)) {
			s.in("capAdd").addf("capability %q is not allowed here: expected one of those that every container has", name)
		}
	}
	for _, option := range w.Security.Options {
		if !slices.Contains([]string{"no-new-privileges", "no-new-privileges:true", "no-new-privileges=true"}, option) {
			s.in("options").addf("security option %q is not allowed here: expected no-new-privileges or none", option)
		}
	}
	if w.Security.Credential != "" {
		s.in("credentialSpec").addf("credentials of the host are not allowed here: expected none")
	}
	for _, k := range slices.Sorted(maps.Keys(w.Sysctls)) {
		c.in("sysctls", k).addf("sysctl %q is not allowed here: expected none", k)
	}
	for _, k := range slices.Sorted(maps.Keys(w.Annotation)) {
		c.in("annotations", k).addf("annotation %q may steer the runtime: expected none", k)
	}
	if w.Runtime != "" && w.Runtime != "runc" && !(w.Runtime == "nvidia" && b.Devices) {
		c.in("runtime").addf("runtime %q is not allowed here: expected the engine's own", w.Runtime)
	}
	if l := w.Limits; l.OOMScoreAdj < 0 || l.OOMKillDisable != nil && *l.OOMKillDisable || l.CPURTRuntime != 0 || l.CPURTPeriod != 0 {
		c.in("limits").addf("standing before the host's own processes is not allowed here: expected no negative oomScoreAdj, no oomKillDisable and no real time")
	}
}

func (b *Bounds) namespaces(c checker, w *Workspace) {
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
			c.in("namespaces", v.key).addf("%s mode %q is not allowed here: expected the container's own", v.key, v.mode)
		}
	}
	if n.CgroupParent != "" && !b.HostNamespaces {
		c.in("namespaces", "cgroupParent").addf("cgroup parent %q leaves the engine's bounds: expected none", n.CgroupParent)
	}
	if w.Logging != nil {
		if !slices.Contains([]string{"", "json-file", "local", "none", "journald"}, w.Logging.Driver) {
			c.in("logging", "driver").addf("log driver %q sends logs from the host: expected json-file, local, journald or none", w.Logging.Driver)
		}
	}
}

func (b *Bounds) attachments(c checker, w *Workspace) {
	for i, a := range w.Networks {
		if len(a.DriverOpts) > 0 && !b.Privileged {
			c.item("networks", i).addf("options of the network driver are not allowed here, sysctls are among them: expected none")
		}
	}
}

func (b *Bounds) hardware(c checker, w *Workspace) {
	if b.Devices {
		return
	}
	for i, d := range w.Devices {
		c.item("devices", i).addf("device %q is not allowed here: expected none", d.Host)
	}
	for i, r := range w.DeviceRules {
		c.item("deviceRules", i).addf("device rule %q is not allowed here: expected none", r)
	}
	for i := range w.GPUs {
		c.item("gpus", i).addf("GPUs are not allowed here: expected none")
	}
	for i, l := range w.Limits.BlkioDevices {
		c.in("limits").item("blkioDevices", i).addf("a limit of device %q is not allowed here: expected none", l.Path)
	}
}

func (b *Bounds) workspaceMounts(c checker, w *Workspace) {
	for i, m := range w.Mounts {
		cm := c.item("mounts", i)
		switch m.Type {
		case MountVolume, MountAnonymous, MountTmpfs:
		case MountBind:
			if !b.mounts(m.Source) {
				cm.addf("path %q of the host is not allowed here: expected one below %q, clean, and no engine's socket", m.Source, b.HostMounts)
			}
			if !slices.Contains([]string{"", "private", "rprivate", "slave", "rslave"}, m.Propagation) {
				cm.addf("propagation %q would mount on the host: expected private or slave", m.Propagation)
			}
			if m.SELinux != "" && !b.Privileged {
				cm.addf("selinux %q would label the host's files anew: expected none", m.SELinux)
			}
		default:
			cm.addf("mount type %q is not allowed here: expected volume, tmpfs or bind", m.Type)
		}
	}
}

func (b *Bounds) secrets(c checker, w *Workspace) {
	for i, e := range w.Env {
		if e.Secret != "" && !slices.Contains(b.Secrets, e.Secret) {
			c.item("env", i).addf("secret %q of the host is not allowed here: expected one of %q", e.Secret, b.Secrets)
		}
	}
	for i, f := range w.Contents {
		if f.Secret != "" && !slices.Contains(b.Secrets, f.Secret) {
			c.item("contents", i).addf("secret %q of the host is not allowed here: expected one of %q", f.Secret, b.Secrets)
		}
	}
}

func (b *Bounds) ports(c checker, w *Workspace) {
	for i, p := range w.Ports {
		switch {
		case b.Ports == nil:
			c.item("ports", i).addf("port %d of the host is not allowed here: expected none; a route leads to a workspace without one", p.HostPort)
		case p.HostPort == 0:
			c.item("ports", i).addf("a port that the engine chooses may be any: expected one of %d to %d", b.Ports.From, b.Ports.To)
		case p.HostPort < b.Ports.From || p.HostPort > b.Ports.To:
			c.item("ports", i).addf("port %d of the host is not allowed here: expected %d to %d", p.HostPort, b.Ports.From, b.Ports.To)
		}
	}
}

func (b *Bounds) limits(c checker, w *Workspace) {
	l := &w.Limits
	if most := b.MaxMemory; most > 0 {
		if l.Memory <= 0 || l.Memory > most {
			c.in("memory").addf("memory of %d bytes: expected a limit of at most %d", l.Memory, most)
		}
		if l.MemorySwap < 0 || l.MemorySwap/2 > most || l.MemoryReservation > most {
			c.in("memorySwap").addf("memory and swap of %d bytes: expected at most twice %d", l.MemorySwap, most)
		}
	}
	if most := b.MaxNanoCPUs; most > 0 && (l.NanoCPUs <= 0 || l.NanoCPUs > most || l.CPUQuota != 0 || l.CPUPeriod != 0) {
		c.in("nanoCPUs").addf("%d billionths of a processor: expected a limit of at most %d, and no quota", l.NanoCPUs, most)
	}
}
