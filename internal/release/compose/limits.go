package compose

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/compose-spec/compose-go/v2/types"
	"github.com/steadyfleet/steady/internal/core/spec"
)

func (l *load) isolation(w *spec.Workspace, s *types.ServiceConfig) {
	w.Security = spec.Security{
		Privileged: s.Privileged, CapAdd: slices.Clone(s.CapAdd), CapDrop: slices.Clone(s.CapDrop), ReadOnly: s.ReadOnly,
	}
	for i, option := range s.SecurityOpt {
		w.Security.Options = append(w.Security.Options, l.securityOption(s, i, option))
	}
	w.Namespaces = spec.Namespaces{
		IPC: l.shared(s, "ipc", s.Ipc), PID: l.shared(s, "pid", s.Pid), UTS: s.Uts, User: s.UserNSMode,
		Cgroup: s.Cgroup, CgroupParent: s.CgroupParent, Isolation: s.Isolation,
	}
	w.Sysctls, w.StorageOpt = plainMap(s.Sysctls), plainMap(s.StorageOpt)
	for _, name := range slices.Sorted(maps.Keys(s.Ulimits)) {
		if u := s.Ulimits[name]; u != nil {
			one := spec.Ulimit{Name: name, Soft: int64(u.Soft), Hard: int64(u.Hard)}
			if u.Single != 0 {
				one.Soft, one.Hard = int64(u.Single), int64(u.Single)
			}
			w.Ulimits = append(w.Ulimits, one)
		}
	}
}

// securityOption puts a seccomp profile of the bundle folder in the place of its
// path, as the engine wants it.
func (l *load) securityOption(s *types.ServiceConfig, i int, option string) string {
	at := []string{"services", s.Name, "security_opt", strconv.Itoa(i)}
	value, ok := strings.CutPrefix(option, "seccomp=")
	if !ok {
		value, ok = strings.CutPrefix(option, "seccomp:")
	}
	if !ok || value == "unconfined" || value == "builtin" {
		return strings.Replace(option, "seccomp:", "seccomp=", 1)
	}
	name, err := inside(l.dir, value)
	if err != nil {
		l.addf(at, "%v: expected a seccomp profile of the bundle folder", err)
		return option
	}
	data, err := l.root.ReadFile(name, MaxFileBytes)
	if err != nil {
		l.addf(at, "%v: expected a seccomp profile of the bundle folder", err)
		return option
	}
	var profile any
	if err := json.Unmarshal(data, &profile); err != nil {
		l.addf(at, "%q is not JSON: %v: expected a seccomp profile", name, err)
		return option
	}
	compact, err := json.Marshal(profile)
	if err != nil {
		l.addf(at, "%q does not encode: %v", name, err)
	}
	return "seccomp=" + string(compact)
}

func (l *load) limits(w *spec.Workspace, s *types.ServiceConfig) {
	at := func(keys ...string) []string { return append([]string{"services", s.Name}, keys...) }
	m := &w.Limits
	*m = spec.Limits{
		NanoCPUs: nanoCPUs(s.CPUS), CPUShares: s.CPUShares, CPUPeriod: s.CPUPeriod, CPUQuota: s.CPUQuota,
		CPURTPeriod: s.CPURTPeriod, CPURTRuntime: s.CPURTRuntime, CPUSet: s.CPUSet, CPUCount: s.CPUCount,
		CPUPerMille: nanoCPUs(s.CPUPercent) / 1e8, Memory: int64(s.MemLimit), MemoryReservation: int64(s.MemReservation),
		MemorySwap: int64(s.MemSwapLimit), OOMScoreAdj: int(s.OomScoreAdj),
	}
	w.ShmSize = int64(s.ShmSize)
	if l.has(s, "mem_swappiness") {
		n := int64(s.MemSwappiness)
		m.Swappiness = &n
	}
	if l.has(s, "oom_kill_disable") {
		m.OOMKillDisable = &s.OomKillDisable
	}
	if s.PidsLimit != 0 {
		m.PIDs = &s.PidsLimit
	}
	if d := s.Deploy; d != nil {
		if r := d.Resources.Limits; r != nil {
			if r.NanoCPUs != 0 {
				m.NanoCPUs = nanoCPUs(r.NanoCPUs.Value())
			}
			if r.MemoryBytes != 0 {
				m.Memory = int64(r.MemoryBytes)
			}
			if r.Pids != 0 {
				m.PIDs = &r.Pids
			}
		}
		if r := d.Resources.Reservations; r != nil {
			if r.MemoryBytes != 0 {
				m.MemoryReservation = int64(r.MemoryBytes)
			}
			for i, g := range r.Devices {
				w.GPUs = append(w.GPUs, l.gpu(at("deploy", "resources", "reservations", "devices", strconv.Itoa(i)), g, false))
			}
		}
	}
	for i, g := range s.Gpus {
		w.GPUs = append(w.GPUs, l.gpu(at("gpus", strconv.Itoa(i)), g, true))
	}
	l.blkio(m, s)
}

// has reports whether the model sets an attribute of the service at all.
func (l *load) has(s *types.ServiceConfig, key string) bool {
	services, _ := l.model["services"].(map[string]any)
	service, _ := services[l.names.back("services", s.Name)].(map[string]any)
	_, ok := service[key]
	return ok
}

// gpu asks for all devices when it names neither a count nor any.
func (l *load) gpu(at []string, g types.DeviceRequest, implied bool) spec.GPU {
	out := spec.GPU{Driver: g.Driver, Count: int(g.Count), IDs: slices.Clone(g.IDs), Capabilities: slices.Clone(g.Capabilities), Options: plainMap(g.Options)}
	if out.Count == 0 && len(out.IDs) == 0 {
		out.Count = -1
	}
	if implied && !slices.Contains(out.Capabilities, "gpu") {
		out.Capabilities = append(out.Capabilities, "gpu")
	}
	if len(out.Capabilities) == 0 {
		l.addf(at, "the device request has no capabilities: expected some, such as [gpu]")
	}
	return out
}

func (l *load) blkio(m *spec.Limits, s *types.ServiceConfig) {
	b := s.BlkioConfig
	if b == nil {
		return
	}
	m.BlkioWeight = int(b.Weight)
	for _, d := range b.WeightDevice {
		m.BlkioDevices = append(m.BlkioDevices, spec.BlkioLimit{What: "weight", Path: d.Path, Rate: int64(d.Weight)})
	}
	for _, v := range []struct {
		what string
		list []types.ThrottleDevice
	}{{"read_bps", b.DeviceReadBps}, {"read_iops", b.DeviceReadIOps}, {"write_bps", b.DeviceWriteBps}, {"write_iops", b.DeviceWriteIOps}} {
		for _, d := range v.list {
			m.BlkioDevices = append(m.BlkioDevices, spec.BlkioLimit{What: v.what, Path: d.Path, Rate: int64(d.Rate)})
		}
	}
}

func (l *load) hardware(w *spec.Workspace, s *types.ServiceConfig) {
	w.DeviceRules = slices.Clone(s.DeviceCgroupRules)
	for i, d := range s.Devices {
		if !strings.HasPrefix(d.Source, "/") {
			l.addf([]string{"services", s.Name, "devices", strconv.Itoa(i)}, "device %q: expected the path of a device on the host, such as /dev/ttyUSB0; names of the Container Device Interface need a newer engine than is asked for", d.Source)
			continue
		}
		w.Devices = append(w.Devices, spec.Device{Host: d.Source, Container: d.Target, Permissions: d.Permissions})
	}
}

func (l *load) ports(w *spec.Workspace, s *types.ServiceConfig) {
	for i, text := range s.Expose {
		w.Expose = append(w.Expose, l.exposed([]string{"services", s.Name, "expose", strconv.Itoa(i)}, text)...)
	}
	if s.NetworkMode == "host" && len(s.Ports) > 0 {
		l.warnf([]string{"services", s.Name, "ports"}, "ports are without effect under network_mode host: expected none, because the service listens on the host itself")
		return
	}
	for i, p := range s.Ports {
		at := []string{"services", s.Name, "ports", strconv.Itoa(i)}
		one := spec.Port{HostIP: p.HostIP, Port: int(p.Target), Protocol: p.Protocol}
		if p.Published != "" {
			from, to, ranged := strings.Cut(p.Published, "-")
			var err, err2 error
			if one.HostPort, err = strconv.Atoi(from); ranged {
				one.HostPortEnd, err2 = strconv.Atoi(to)
			}
			if err != nil || err2 != nil {
				l.addf(at, "published %q: expected one port, a range such as 8080-8089 to let the engine choose one of them, or none", p.Published)
				continue
			}
			if one.HostPortEnd == one.HostPort {
				one.HostPortEnd = 0
			}
		}
		w.Ports = append(w.Ports, one)
	}
}

// exposed lists the ports of an entry, which may be a range.
func (l *load) exposed(at []string, text string) []string {
	ports, protocol, _ := strings.Cut(text, "/")
	if protocol != "" {
		protocol = "/" + protocol
	}
	from, to, ranged := strings.Cut(ports, "-")
	if !ranged {
		return []string{text}
	}
	a, err := strconv.Atoi(from)
	b, err2 := strconv.Atoi(to)
	if err != nil || err2 != nil || b < a || b-a >= MaxPorts {
		l.addf(at, "%q: expected a port, or a range of at most %d", text, MaxPorts)
		return nil
	}
	var out []string
	for n := a; n <= b; n++ {
		out = append(out, strconv.Itoa(n)+protocol)
	}
	return out
}

func (l *load) attach(w *spec.Workspace, s *types.ServiceConfig) {
	w.NetworkMode = l.shared(s, "network_mode", s.NetworkMode)
	if w.NetworkMode == "default" {
		w.NetworkMode = "bridge"
	}
	w.MAC, w.DNS, w.DNSSearch, w.DNSOptions = s.MacAddress, s.DNS, s.DNSSearch, slices.Clone(s.DNSOpts)
	w.ExtraHosts = s.ExtraHosts.AsList(":")
	for _, name := range slices.Sorted(maps.Keys(s.Networks)) {
		a := spec.Attachment{Network: name}
		if n := s.Networks[name]; n != nil {
			a.Aliases, a.IPv4, a.IPv6, a.LinkLocal = slices.Clone(n.Aliases), n.Ipv4Address, n.Ipv6Address, slices.Clone(n.LinkLocalIPs)
			a.MAC, a.DriverOpts, a.Priority = n.MacAddress, plainMap(n.DriverOpts), n.Priority
			a.GatewayPriority = n.GatewayPriority
		}
		if s.ContainerName != "" && s.ContainerName != s.Name {
			a.Aliases = append(a.Aliases, s.ContainerName)
		}
		w.Networks = append(w.Networks, a)
	}
}

// contents are the configs and secrets that are put into the container.
func (l *load) contents(w *spec.Workspace, s *types.ServiceConfig) {
	for i, c := range s.Configs {
		at := []string{"services", s.Name, "configs", strconv.Itoa(i)}
		o := l.project.Configs[c.Source]
		if o.Environment != "" && o.Content == "" {
			o.Content = l.env[o.Environment]
		}
		l.put(w, at, []string{"configs", c.Source}, types.FileReferenceConfig(c), types.FileObjectConfig(o), "/")
	}
	for i, c := range s.Secrets {
		at := []string{"services", s.Name, "secrets", strconv.Itoa(i)}
		o := l.project.Secrets[c.Source]
		if o.External {
			if f, ok := l.reference(at, types.FileReferenceConfig(c), "/run/secrets/"); ok {
				f.Secret = o.Name
				w.Contents = append(w.Contents, f)
			}
			continue
		}
		if o.Environment != "" {
			o.Content = l.env[o.Environment]
		}
		l.warnf([]string{"secrets", c.Source}, "the text of secret %q becomes part of the release, for every host with the bundle to read: expected external: true and the host's own store", c.Source)
		l.put(w, at, []string{"secrets", c.Source}, types.FileReferenceConfig(c), types.FileObjectConfig(o), "/run/secrets/")
	}
}

// reference reads where a file goes and whose it is.
func (l *load) reference(at []string, c types.FileReferenceConfig, folder string) (spec.Content, bool) {
	out := spec.Content{Target: c.Target}
	if out.Target == "" {
		out.Target = c.Source
	}
	if !strings.HasPrefix(out.Target, "/") {
		out.Target = path.Join(folder, out.Target)
	}
	for _, v := range []struct {
		key, text string
		into      *int
	}{{"uid", c.UID, &out.UID}, {"gid", c.GID, &out.GID}} {
		if v.text == "" {
			continue
		}
		n, err := strconv.Atoi(v.text)
		if err != nil || n < 0 {
			l.addf(append(at, v.key), "%s is %q: expected a number", v.key, v.text)
			return out, false
		}
		*v.into = n
	}
	if c.Mode != nil {
		if *c.Mode < 0 || *c.Mode > 0o7777 {
			l.addf(append(at, "mode"), "mode is %o: expected permission bits such as 0440", int64(*c.Mode))
			return out, false
		}
		out.Mode = uint32(*c.Mode)
	}
	return out, true
}

func (l *load) put(w *spec.Workspace, at, object []string, c types.FileReferenceConfig, o types.FileObjectConfig, folder string) {
	out, ok := l.reference(at, c, folder)
	if !ok {
		return
	}
	switch {
	case o.File != "":
		var err error
		if out.Blob, err = l.content(o.File); err != nil {
			l.addf(append(object, "file"), "%v: expected a file of the bundle folder", err)
			return
		}
		if name, _ := l.rel(o.File); c.Mode == nil {
			out.Mode = l.modeOf(name, false)
		}
	case o.Environment != "":
		if _, set := l.env[o.Environment]; !set {
			l.addf(append(object, "environment"), "variable %s is not set: expected it in .env or under composeEnv of bundle.yaml", o.Environment)
			return
		}
		out.Blob = l.blob([]byte(o.Content))
	default:
		out.Blob = l.blob([]byte(o.Content))
	}
	if o.File == "" && folder == "/" { // docker compose copies it in, and programs change it
		out.Writable = !w.Security.ReadOnly
	}
	w.Contents = append(w.Contents, out)
}

func itemAt(service, key string, i int) []string {
	return []string{"services", service, key, fmt.Sprint(i)}
}
