package container

import (
	"slices"
	"strings"
)

func checkWorkspace(c checker, w *Workspace) {
	checkTitle(c.in("title"), w.Title)
	if w.Image == "" {
		c.in("image").addf("the workspace has no image: expected the name of one")
	}
	switch w.State {
	case "", Running, Stopped, Once:
	default:
		c.in("state").addf("state %q: expected running, stopped or once", w.State)
	}
	switch w.Update.Order {
	case Auto, StopFirst, StartFirst:
	default:
		c.in("update", "order").addf("order %q: expected stop-first or start-first", w.Update.Order)
	}
	checkSize(c.in("update"), "monitor", int64(w.Update.Monitor))
	checkSize(c.in("update"), "healthWait", int64(w.Update.HealthWait))
	checkTexts(c.in("entrypoint"), w.Entrypoint)
	checkTexts(c.in("command"), w.Command)
	if w.NoCommand && len(w.Command) > 0 || w.NoEntry && len(w.Entrypoint) > 0 {
		c.addf("a command is both set and cleared: expected one of them")
	}
	checkEnv(c, w.Env)
	checkTexts(c.in("groupAdd"), w.GroupAdd)
	checkLabels(c.in("labels"), w.Labels)
	checkMap(c.in("annotations"), w.Annotation)
	checkMap(c.in("storageOpt"), w.StorageOpt)
	checkMap(c.in("sysctls"), w.Sysctls)
	checkText(c, w.Image, w.WorkingDir, w.User, w.Hostname, w.Domainname, w.StopSignal, w.MAC, w.Runtime, w.Platform)
	if w.StopGrace != nil {
		checkSize(c, "stopGrace", int64(*w.StopGrace))
	}
	checkRestart(c.in("restart"), w.Restart)
	if w.Health != nil {
		checkHealth(c.in("health"), w.Health)
	}
	checkPorts(c, w)
	checkMounts(c, w)
	checkNetworks(c, w)
	checkDevices(c, w)
	checkLimits(c.in("limits"), &w.Limits)
	checkSecurity(c, w)
	checkSize(c, "shmSize", w.ShmSize)
	checkDepends(c, w)
}

func checkEnv(c checker, env []Env) {
	if len(env) > MaxEntries {
		c.in("env").addf("%d variables: expected at most %d", len(env), MaxEntries)
		return
	}
	seen := map[string]bool{}
	for _, e := range env {
		ce := c.in("env", e.Name)
		checkText(ce, e.Name, e.Value, e.Secret)
		switch {
		case e.Name == "" || strings.Contains(e.Name, "="):
			ce.addf("variable %q: expected a name without =", e.Name)
		case seen[e.Name]:
			ce.addf("variable %q is set twice: expected once", e.Name)
		case e.Value != "" && e.Secret != "":
			ce.addf("variable %q has a value and a secret: expected one of them", e.Name)
		}
		seen[e.Name] = true
	}
}

func checkRestart(c checker, r Restart) {
	switch r.Policy {
	case "", "no", "always", "unless-stopped", "on-failure":
	default:
		c.addf("restart policy %q: expected no, always, unless-stopped or on-failure", r.Policy)
	}
	checkSize(c, "max", int64(r.Max))
	if r.Max != 0 && r.Policy != "on-failure" {
		c.addf("a number of tries under policy %q: expected it under on-failure alone", r.Policy)
	}
}

func checkHealth(c checker, h *Health) {
	if h.Disable && (len(h.Test) > 0 || h.Interval|h.Timeout|h.StartPeriod|h.StartInterval != 0 || h.Retries != 0) {
		c.addf("the healthcheck is off and yet declared: expected one of them")
	}
	checkTexts(c.in("test"), h.Test)
	if len(h.Test) > 0 && ((h.Test[0] != "CMD" && h.Test[0] != "CMD-SHELL") || len(h.Test) < 2) {
		c.in("test").addf("test %q: expected CMD or CMD-SHELL and a command", h.Test)
	}
	checkSize(c, "interval", int64(h.Interval))
	checkSize(c, "timeout", int64(h.Timeout))
	checkSize(c, "startPeriod", int64(h.StartPeriod))
	checkSize(c, "startInterval", int64(h.StartInterval))
	checkSize(c, "retries", int64(h.Retries))
}

func validProtocol(p string) bool { return p == "tcp" || p == "udp" || p == "sctp" }

func checkPorts(c checker, w *Workspace) {
	if len(w.Ports) > MaxEntries || len(w.Expose) > MaxEntries {
		c.in("ports").addf("%d ports: expected at most %d", len(w.Ports)+len(w.Expose), MaxEntries)
		return
	}
	for i, p := range w.Ports {
		if p.Port < 1 || p.Port > 65535 || p.HostPort < 0 || p.HostPort > 65535 || (p.Protocol != "" && !validProtocol(strings.ToLower(p.Protocol))) {
			c.item("ports", i).addf("port %d:%d/%s: expected ports up to 65535 and tcp, udp or sctp", p.HostPort, p.Port, p.Protocol)
		}
		checkText(c.item("ports", i), p.HostIP)
	}
	if len(w.Ports) > 0 && (w.NetworkMode == "host" || w.NetworkMode == "none" || strings.HasPrefix(w.NetworkMode, SharePrefix)) {
		c.in("ports").addf("ports cannot be published under network mode %q: expected no ports, or another mode", w.NetworkMode)
	}
	for i, e := range w.Expose {
		port, proto, _ := strings.Cut(strings.ToLower(e), "/")
		from, to, ranged := strings.Cut(port, "-")
		if !number(from) || ranged && !number(to) || proto != "" && !validProtocol(proto) {
			c.item("expose", i).addf("%q: expected a port such as 80/tcp", e)
		}
	}
}

func number(s string) bool {
	return len(s) <= 5 && each(s, func(b byte) bool { return b >= '0' && b <= '9' })
}

func checkTarget(c checker, seen map[string]bool, target string) {
	clean := cleanPath(target)
	switch {
	case !strings.HasPrefix(target, "/") || clean == "/" || len(target) > 4096 || strings.ContainsRune(target, 0):
		c.addf("target %q: expected an absolute path in the container other than /", target)
	case seen[clean]:
		c.addf("target %q is mounted twice: expected once", target)
	}
	seen[clean] = true
}

func checkMounts(c checker, w *Workspace) {
	if len(w.Mounts) > MaxEntries || len(w.Contents) > MaxEntries {
		c.in("mounts").addf("%d mounts: expected at most %d", len(w.Mounts)+len(w.Contents), MaxEntries)
		return
	}
	seen := map[string]bool{}
	for i, m := range w.Mounts {
		cm := c.item("mounts", i)
		checkTarget(cm, seen, m.Target)
		checkText(cm, m.Source)
		switch m.Type {
		case MountVolume:
			checkName(cm.in("source"), m.Source)
		case MountBind:
			if !strings.HasPrefix(m.Source, "/") {
				cm.addf("source %q: expected an absolute path on the host", m.Source)
			}
		case MountTmpfs, MountAnonymous:
			if m.Source != "" {
				cm.addf("a %s mount with source %q: expected none", m.Type, m.Source)
			}
		default:
			cm.addf("mount type %q: expected volume, bind, tmpfs or anonymous", m.Type)
		}
		checkSize(cm, "size", m.Size)
		if m.Mode > 0o7777 {
			cm.addf("mode %o: expected permission bits", m.Mode)
		}
		if !slices.Contains([]string{"", "private", "rprivate", "shared", "rshared", "slave", "rslave"}, m.Propagation) {
			cm.addf("propagation %q: expected private, shared, slave or one of them with r before it", m.Propagation)
		}
		if m.SELinux != "" && m.SELinux != "z" && m.SELinux != "Z" {
			cm.addf("selinux %q: expected z or Z", m.SELinux)
		}
		if m.Type != MountTmpfs && (m.Size != 0 || m.Mode != 0) || m.Type != MountBind && (m.Propagation != "" || m.SELinux != "" || m.CreateHost || m.Recursive != "") {
			cm.addf("options of another type on a %s mount", m.Type)
		}
	}
	for i, f := range w.Contents {
		cf := c.item("contents", i)
		checkTarget(cf, seen, f.Target)
		checkText(cf, f.Secret)
		if (f.Blob != nil) == (f.Secret != "") {
			cf.addf("%q: expected either content or the name of a secret", f.Target)
		}
		if f.Blob != nil {
			checkBlob(cf.in("blob"), f.Blob)
		}
		checkSize(cf, "uid", int64(f.UID))
		checkSize(cf, "gid", int64(f.GID))
		if f.Mode > 0o7777 {
			cf.addf("mode %o: expected permission bits", f.Mode)
		}
	}
}

func checkNetworks(c checker, w *Workspace) {
	checkTexts(c.in("dns"), w.DNS)
	checkTexts(c.in("dnsSearch"), w.DNSSearch)
	checkTexts(c.in("dnsOptions"), w.DNSOptions)
	checkTexts(c.in("extraHosts"), w.ExtraHosts)
	for i, h := range w.ExtraHosts {
		if name, ip, ok := strings.Cut(h, ":"); !ok || name == "" || ip == "" {
			c.item("extraHosts", i).addf("%q: expected name:address", h)
		}
	}
	if w.NetworkMode != "" && len(w.Networks) > 0 {
		c.in("networkMode").addf("network mode %q beside networks: expected one of them", w.NetworkMode)
	}
	switch name, share := strings.CutPrefix(w.NetworkMode, SharePrefix); {
	case share:
		checkName(c.in("networkMode"), name)
	case !slices.Contains([]string{"", "bridge", "host", "none"}, w.NetworkMode):
		c.in("networkMode").addf("network mode %q: expected bridge, host, none or %sNAME", w.NetworkMode, SharePrefix)
	}
	if len(w.Networks) > MaxEntries {
		c.in("networks").addf("%d networks: expected at most %d", len(w.Networks), MaxEntries)
		return
	}
	seen := map[string]bool{}
	for i, a := range w.Networks {
		ca := c.item("networks", i)
		checkName(ca.in("network"), a.Network)
		if seen[a.Network] {
			ca.addf("network %q is joined twice: expected once", a.Network)
		}
		seen[a.Network] = true
		checkTexts(ca.in("aliases"), a.Aliases)
		checkTexts(ca.in("linkLocal"), a.LinkLocal)
		checkMap(ca.in("driverOpts"), a.DriverOpts)
		checkText(ca, a.IPv4, a.IPv6, a.MAC)
	}
}

func checkDepends(c checker, w *Workspace) {
	if len(w.DependsOn) > MaxEntries {
		c.in("dependsOn").addf("%d dependencies: expected at most %d", len(w.DependsOn), MaxEntries)
		return
	}
	seen := map[string]bool{}
	for _, d := range w.DependsOn {
		cd := c.in("dependsOn", d.Workspace)
		switch {
		case d.Condition != Started && d.Condition != Healthy && d.Condition != Completed:
			cd.addf("condition %q: expected started, healthy or completed", d.Condition)
		case seen[d.Workspace]:
			cd.addf("%q is there twice: expected once", d.Workspace)
		}
		seen[d.Workspace] = true
	}
}
