package spec

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
)

// ordered sorts by key, equal keys by their encoding, so that no order of the
// input shows. The result is never nil.
func ordered[T any](list []T, key func(T) string) []T {
	if list == nil {
		return []T{}
	}
	slices.SortStableFunc(list, func(a, b T) int {
		if c := strings.Compare(key(a), key(b)); c != 0 {
			return c
		}
		return strings.Compare(encoded(a), encoded(b))
	})
	return list
}

func encoded(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(b)
}

// inOrder is ordered with nil for an empty list.
func inOrder[T any](list []T, key func(T) string) []T {
	if len(list) == 0 {
		return nil
	}
	return ordered(list, key)
}

// unique sorts a set of words and drops repeats; nil when empty.
func unique(list []string) []string {
	if len(list) == 0 {
		return nil
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func filled(list []string) []string {
	if len(list) == 0 {
		return nil
	}
	return list
}

func filledMap(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	return m
}

// Capability spells a capability in one way: NET_ADMIN.
func Capability(c string) string { return strings.TrimPrefix(strings.ToUpper(c), "CAP_") }

// portKey sorts ports as numbers.
func portKey(p Port) string {
	const digits = "00000000000000000000"
	pad := func(n int) string {
		s := encoded(n)
		return digits[:max(0, len(digits)-len(s))] + s
	}
	return pad(p.Port) + "/" + p.Protocol + "/" + pad(p.HostPort) + "/" + p.HostIP
}

// CleanPath is the shortest spelling of an absolute path.
func CleanPath(p string) string {
	var parts []string
	for part := range strings.SplitSeq(p, "/") {
		switch {
		case part == "" || part == ".":
		case part == "..":
			parts = parts[:max(0, len(parts)-1)]
		default:
			parts = append(parts, part)
		}
	}
	return "/" + strings.Join(parts, "/")
}

func (w *Workspace) Normalize() {
	if w.Title == w.Name {
		w.Title = ""
	}
	if w.State == Running {
		w.State = ""
	}
	w.Entrypoint, w.Command = filled(w.Entrypoint), filled(w.Command)
	w.Env = inOrder(w.Env, func(e Env) string { return e.Name })
	w.GroupAdd = unique(w.GroupAdd)
	w.Labels, w.Annotation = filledMap(w.Labels), filledMap(w.Annotation)
	w.StorageOpt, w.Sysctls = filledMap(w.StorageOpt), filledMap(w.Sysctls)
	if w.Restart.Policy == "no" {
		w.Restart.Policy = ""
	}
	if h := w.Health; h != nil && h.Disable {
		*h = Health{Disable: true}
	} else if h != nil {
		h.Test = filled(h.Test)
	}
	for _, hooks := range [][]Hook{w.PostStart, w.PreStop} {
		for i := range hooks {
			hooks[i].Env = unique(hooks[i].Env)
		}
	}
	w.Links = inOrder(w.Links, func(l Link) string { return l.Alias })
	w.normalizeNetworking()
	w.normalizeMounts()
	w.normalizeDevices()
	for i, c := range w.Security.CapAdd {
		w.Security.CapAdd[i] = Capability(c)
	}
	for i, c := range w.Security.CapDrop {
		w.Security.CapDrop[i] = Capability(c)
	}
	w.Security.CapAdd, w.Security.CapDrop = unique(w.Security.CapAdd), unique(w.Security.CapDrop)
	w.Security.Options = unique(w.Security.Options)
	if w.Logging != nil {
		w.Logging.Options = filledMap(w.Logging.Options)
	}
	w.Ulimits = inOrder(w.Ulimits, func(u Ulimit) string { return u.Name })
	w.DependsOn = inOrder(w.DependsOn, func(d Dependency) string { return d.Workspace })
}

func (w *Workspace) normalizeNetworking() {
	for i := range w.Ports {
		w.Ports[i].Protocol = cmp.Or(strings.ToLower(w.Ports[i].Protocol), "tcp")
	}
	w.Ports = inOrder(w.Ports, portKey)
	w.Ports = slices.Compact(w.Ports)
	for i, e := range w.Expose {
		if e = strings.ToLower(e); !strings.Contains(e, "/") {
			e += "/tcp"
		}
		w.Expose[i] = e
	}
	w.Expose = unique(w.Expose)
	for i := range w.Networks {
		a := &w.Networks[i]
		a.Aliases, a.LinkLocal, a.DriverOpts = unique(a.Aliases), unique(a.LinkLocal), filledMap(a.DriverOpts)
	}
	w.Networks = inOrder(w.Networks, func(a Attachment) string { return a.Network })
	w.DNS, w.DNSSearch = filled(w.DNS), filled(w.DNSSearch)
	w.DNSOptions, w.ExtraHosts = unique(w.DNSOptions), unique(w.ExtraHosts)
}

func (w *Workspace) normalizeMounts() {
	for i := range w.Mounts {
		m := &w.Mounts[i]
		if strings.HasPrefix(m.Target, "/") {
			m.Target = CleanPath(m.Target)
		}
		if m.Type == MountBind && strings.HasPrefix(m.Source, "/") {
			m.Source = CleanPath(m.Source)
		}
		if m.Propagation == "rprivate" {
			m.Propagation = ""
		}
	}
	w.Mounts = inOrder(w.Mounts, func(m Mount) string { return m.Target })
	for i := range w.Contents {
		c := &w.Contents[i]
		if strings.HasPrefix(c.Target, "/") {
			c.Target = CleanPath(c.Target)
		}
		if c.Mode == 0o444 && !c.Tree {
			c.Mode = 0
		}
	}
	w.Contents = inOrder(w.Contents, func(c Content) string { return c.Target })
}

func (w *Workspace) normalizeDevices() {
	for i := range w.Devices {
		d := &w.Devices[i]
		d.Container = cmp.Or(d.Container, d.Host)
		p := ""
		for _, c := range []string{"r", "w", "m"} {
			if strings.Contains(d.Permissions, c) || d.Permissions == "" {
				p += c
			}
		}
		if strings.Trim(d.Permissions, "rwm") == "" { // else it is for Validate to refuse
			d.Permissions = p
		}
	}
	w.Devices = inOrder(w.Devices, func(d Device) string { return d.Container })
	w.DeviceRules = unique(w.DeviceRules)
	for i := range w.GPUs {
		g := &w.GPUs[i]
		g.IDs, g.Capabilities, g.Options = unique(g.IDs), unique(g.Capabilities), filledMap(g.Options)
	}
	w.GPUs = inOrder(w.GPUs, func(g GPU) string { return g.Driver })
	w.Limits.BlkioDevices = inOrder(w.Limits.BlkioDevices, func(b BlkioLimit) string { return b.What + " " + b.Path })
}
