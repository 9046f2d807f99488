package spec

import (
	"slices"
	"strconv"
	"strings"
)

func (w *Workspace) Check(c Checker) {
	checkTitle(c.In("title"), w.Title)
	if w.Image == "" {
		c.In("image").Addf("the workspace has no image: expected the name of one")
	}
	checkOneOf(c.In("state"), w.State, "state %q: expected running, stopped or once", "", Running, Stopped, Once)
	checkOneOf(c.In("update", "order"), w.Update.Order, "order %q: expected stop-first or start-first", Auto, StopFirst, StartFirst)
	checkSize(c.In("update"), "monitor", int64(w.Update.Monitor))
	checkSize(c.In("update"), "healthWait", int64(w.Update.HealthWait))
	checkTexts(c.In("entrypoint"), w.Entrypoint)
	checkTexts(c.In("command"), w.Command)
	if w.NoCommand && len(w.Command) > 0 || w.NoEntry && len(w.Entrypoint) > 0 {
		c.Addf("a command is both set and cleared: expected one of them")
	}
	checkEnv(c, w.Env)
	checkTexts(c.In("groupAdd"), w.GroupAdd)
	checkLabels(c.In("labels"), w.Labels)
	checkMap(c.In("annotations"), w.Annotation)
	checkMap(c.In("storageOpt"), w.StorageOpt)
	checkMap(c.In("sysctls"), w.Sysctls)
	checkText(c, w.Image, w.WorkingDir, w.User, w.Hostname, w.Domainname, w.StopSignal, w.MAC, w.Runtime, w.Platform)
	if w.StopGrace != nil {
		checkSize(c, "stopGrace", int64(*w.StopGrace))
	}
	checkRestart(c.In("restart"), w.Restart)
	if w.Health != nil {
		checkHealth(c.In("health"), w.Health)
	}
	checkHooks(c.In("postStart"), w.PostStart)
	checkHooks(c.In("preStop"), w.PreStop)
	checkPorts(c, w)
	checkMounts(c, w)
	checkNetworks(c, w)
	checkDevices(c, w)
	checkLimits(c.In("limits"), &w.Limits)
	checkSecurity(c, w)
	checkSize(c, "shmSize", w.ShmSize)
	checkDepends(c, w)
}

func checkEnv(c Checker, env []Env) {
	if c.In("env").tooMany(len(env), "variables") {
		return
	}
	seen := map[string]bool{}
	for _, e := range env {
		ce := c.In("env", e.Name)
		checkText(ce, e.Name, e.Value, e.Secret)
		switch {
		case e.Name == "" || strings.Contains(e.Name, "="):
			ce.Addf("variable %q: expected a name without =", e.Name)
		case seen[e.Name]:
			ce.Addf("variable %q is set twice: expected once", e.Name)
		case e.Value != "" && e.Secret != "":
			ce.Addf("variable %q has a value and a secret: expected one of them", e.Name)
		case e.Unset && e.Value+e.Secret != "":
			ce.Addf("variable %q is removed and has a value or a secret: expected one of them", e.Name)
		}
		seen[e.Name] = true
	}
}

func checkRestart(c Checker, r Restart) {
	checkOneOf(c, r.Policy, "restart policy %q: expected no, always, unless-stopped or on-failure", "", "no", "always", "unless-stopped", "on-failure")
	checkSize(c, "max", int64(r.Max))
	if r.Max != 0 && r.Policy != "on-failure" {
		c.Addf("a number of tries under policy %q: expected it under on-failure alone", r.Policy)
	}
}

func checkHealth(c Checker, h *Health) {
	if h.Disable && (len(h.Test) > 0 || h.Interval|h.Timeout|h.StartPeriod|h.StartInterval != 0 || h.Retries != 0) {
		c.Addf("the healthcheck is off and yet declared: expected one of them")
	}
	checkTexts(c.In("test"), h.Test)
	if len(h.Test) > 0 && ((h.Test[0] != "CMD" && h.Test[0] != "CMD-SHELL") || len(h.Test) < 2) {
		c.In("test").Addf("test %q: expected CMD or CMD-SHELL and a command", h.Test)
	}
	checkSize(c, "interval", int64(h.Interval))
	checkSize(c, "timeout", int64(h.Timeout))
	checkSize(c, "startPeriod", int64(h.StartPeriod))
	checkSize(c, "startInterval", int64(h.StartInterval))
	checkSize(c, "retries", int64(h.Retries))
}

// MaxHooks bounds the commands around a start or a stop.
const MaxHooks = 32

func checkHooks(c Checker, hooks []Hook) {
	if len(hooks) > MaxHooks {
		c.Addf("%d commands: expected at most %d", len(hooks), MaxHooks)
		return
	}
	for _, h := range hooks {
		if len(h.Command) == 0 {
			c.Addf("an empty command: expected a program and its arguments")
		}
		checkTexts(c, h.Command)
		checkTexts(c, h.Env)
		checkText(c, h.User, h.WorkingDir)
	}
}

func checkLinks(c Checker, w *Workspace) {
	if c.tooMany(len(w.Links), "links") {
		return
	}
	if len(w.Links) > 0 && len(w.Networks) == 0 && !w.Bridged() {
		c.Addf("links under network mode %q: expected networks, or network mode bridge", w.NetworkMode)
	}
	seen := map[string]bool{}
	for _, l := range w.Links {
		checkText(c, l.Target, l.Alias)
		if l.Target == "" || l.Alias == "" || strings.ContainsAny(l.Target+l.Alias, ":/ ") {
			c.Addf("link %q to %q: expected two names", l.Alias, l.Target)
		}
		if seen[l.Alias] {
			c.Addf("link %q leads to two workspaces: expected one", l.Alias)
		}
		seen[l.Alias] = true
	}
}

func validProtocol(p string) bool { return p == "tcp" || p == "udp" || p == "sctp" }

func checkPorts(c Checker, w *Workspace) {
	if len(w.Ports) > MaxEntries || len(w.Expose) > MaxEntries {
		c.In("ports").Addf("%d ports: expected at most %d", len(w.Ports)+len(w.Expose), MaxEntries)
		return
	}
	for i, p := range w.Ports {
		if p.Port < 1 || p.Port > 65535 || p.HostPort < 0 || p.HostPort > 65535 || (p.Protocol != "" && !validProtocol(strings.ToLower(p.Protocol))) {
			c.Item("ports", i).Addf("port %d:%d/%s: expected ports up to 65535 and tcp, udp or sctp", p.HostPort, p.Port, p.Protocol)
		}
		if p.HostPortEnd != 0 && (p.HostPort == 0 || p.HostPortEnd <= p.HostPort || p.HostPortEnd > 65535) {
			c.Item("ports", i).Addf("ports %d to %d of the host: expected a range that ends after its beginning, at most at 65535", p.HostPort, p.HostPortEnd)
		}
		checkText(c.Item("ports", i), p.HostIP)
	}
	if len(w.Ports) > 0 && (w.NetworkMode == "host" || w.NetworkMode == "none" || strings.HasPrefix(w.NetworkMode, SharePrefix)) {
		c.In("ports").Addf("ports cannot be published under network mode %q: expected no ports, or another mode", w.NetworkMode)
	}
	for i, e := range w.Expose {
		port, proto, _ := strings.Cut(strings.ToLower(e), "/")
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 || proto != "" && !validProtocol(proto) {
			c.Item("expose", i).Addf("%q: expected a port such as 80/tcp", e)
		}
	}
}

func checkTarget(c Checker, seen map[string]bool, target string) {
	clean := CleanPath(target)
	switch {
	case !strings.HasPrefix(target, "/") || clean == "/" || len(target) > 4096 || strings.ContainsRune(target, 0):
		c.Addf("target %q: expected an absolute path in the container other than /", target)
	case seen[clean]:
		c.Addf("target %q is mounted twice: expected once", target)
	}
	seen[clean] = true
}

func checkMounts(c Checker, w *Workspace) {
	if len(w.Mounts) > MaxEntries || len(w.Contents) > MaxEntries {
		c.In("mounts").Addf("%d mounts: expected at most %d", len(w.Mounts)+len(w.Contents), MaxEntries)
		return
	}
	seen := map[string]bool{}
	for i, m := range w.Mounts {
		cm := c.Item("mounts", i)
		checkTarget(cm, seen, m.Target)
		checkText(cm, m.Source)
		switch m.Type {
		case MountVolume:
			checkName(cm.In("source"), m.Source)
		case MountBind:
			if !strings.HasPrefix(m.Source, "/") {
				cm.Addf("source %q: expected an absolute path on the host", m.Source)
			}
		case MountTmpfs, MountAnonymous:
			if m.Source != "" {
				cm.Addf("a %s mount with source %q: expected none", m.Type, m.Source)
			}
		default:
			cm.Addf("mount type %q: expected volume, bind, tmpfs or anonymous", m.Type)
		}
		checkSize(cm, "size", m.Size)
		if m.Mode > 0o7777 {
			cm.Addf("mode %o: expected permission bits", m.Mode)
		}
		checkOneOf(cm, m.Propagation, "propagation %q: expected private, shared, slave or one of them with r before it",
			"", "private", "rprivate", "shared", "rshared", "slave", "rslave")
		checkOneOf(cm, m.SELinux, "selinux %q: expected z or Z", "", "z", "Z")
		for _, o := range m.Options {
			if !TmpfsOption(o) {
				cm.Addf("tmpfs option %q is not known: expected size, mode, ro, or one of %s", o, strings.Join(tmpfsOptions, " "))
			}
		}
		if m.Type != MountTmpfs && (m.Size != 0 || m.Mode != 0 || len(m.Options) > 0) || m.Type != MountBind && (m.Propagation != "" || m.SELinux != "" || m.CreateHost || m.Recursive != "" || m.File != "") {
			cm.Addf("options of another type on a %s mount", m.Type)
		}
		if m.SELinux != "" && (m.Recursive == "disabled" || m.Recursive == "writable" || m.Recursive == "readonly" || strings.Contains(m.Source+m.Target, ":")) {
			cm.Addf("selinux %s of %q: the engine labels no folder that is mounted without what is mounted below it, or that has a colon in its path: leave out selinux or recursive", m.SELinux, m.Source)
		}
	}
	for i, f := range w.Contents {
		cf := c.Item("contents", i)
		checkTarget(cf, seen, f.Target)
		checkText(cf, f.Secret)
		if (f.Blob != nil) == (f.Secret != "") {
			cf.Addf("%q: expected either content or the name of a secret", f.Target)
		}
		if f.Blob != nil {
			checkBlob(cf.In("blob"), f.Blob)
		}
		if f.Secret != "" && (f.Tree || f.Writable) {
			cf.Addf("secret %q as a folder or to be written: expected a file that is read", f.Secret)
		}
		if f.Shared != "" && f.Blob == nil || f.Below != "" && (f.Shared == "" || !f.Tree || !local(f.Below)) {
			cf.Addf("shared %q, below %q: expected files of the bundle, and a path in them", f.Shared, f.Below)
		}
		checkSize(cf, "uid", int64(f.UID))
		checkSize(cf, "gid", int64(f.GID))
		if f.Mode > 0o7777 {
			cf.Addf("mode %o: expected permission bits", f.Mode)
		}
	}
}

// local reports whether a path leads below the folder that it is relative to, and is spelled in one way.
func local(p string) bool {
	for part := range strings.SplitSeq(p, "/") {
		if part == "" || part == "." || part == ".." {
			return false
		}
	}
	return true
}

func checkNetworks(c Checker, w *Workspace) {
	checkTexts(c.In("dns"), w.DNS)
	checkTexts(c.In("dnsSearch"), w.DNSSearch)
	checkTexts(c.In("dnsOptions"), w.DNSOptions)
	checkTexts(c.In("extraHosts"), w.ExtraHosts)
	for i, h := range w.ExtraHosts {
		if name, ip, ok := strings.Cut(h, ":"); !ok || name == "" || ip == "" {
			c.Item("extraHosts", i).Addf("%q: expected name:address", h)
		}
	}
	if w.NetworkMode != "" && len(w.Networks) > 0 {
		c.In("networkMode").Addf("network mode %q together with networks: expected one of them", w.NetworkMode)
	}
	switch name, share := strings.CutPrefix(w.NetworkMode, SharePrefix); {
	case share:
		checkName(c.In("networkMode"), name)
	case !slices.Contains([]string{"", "bridge", "host", "none"}, w.NetworkMode):
		c.In("networkMode").Addf("network mode %q: expected bridge, host, none or %sNAME", w.NetworkMode, SharePrefix)
	}
	if w.MAC != "" && len(w.Networks) == 0 && !w.Bridged() {
		c.In("mac").Addf("a hardware address under network mode %q: expected networks, or network mode bridge", w.NetworkMode)
	}
	if c.In("networks").tooMany(len(w.Networks), "networks") {
		return
	}
	checkLinks(c.In("links"), w)
	seen := map[string]bool{}
	for i, a := range w.Networks {
		ca := c.Item("networks", i)
		checkName(ca.In("network"), a.Network)
		if seen[a.Network] {
			ca.Addf("network %q is joined twice: expected once", a.Network)
		}
		seen[a.Network] = true
		checkTexts(ca.In("aliases"), a.Aliases)
		checkTexts(ca.In("linkLocal"), a.LinkLocal)
		checkMap(ca.In("driverOpts"), a.DriverOpts)
		checkText(ca, a.IPv4, a.IPv6, a.MAC)
	}
}

func checkDepends(c Checker, w *Workspace) {
	if c.In("dependsOn").tooMany(len(w.DependsOn), "dependencies") {
		return
	}
	seen := map[string]bool{}
	for _, d := range w.DependsOn {
		cd := c.In("dependsOn", d.Workspace)
		switch {
		case d.Condition != Started && d.Condition != Healthy && d.Condition != Completed:
			cd.Addf("condition %q: expected started, healthy or completed", d.Condition)
		case seen[d.Workspace]:
			cd.Addf("%q is there twice: expected once", d.Workspace)
		}
		seen[d.Workspace] = true
	}
}
