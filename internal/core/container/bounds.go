package container

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Bounds is what a signed declaration lets the managed layer have on a host. What
// it does not name is refused.
type Bounds struct {
	Kinds []string `json:"kinds,omitempty"`
	// Images are references that may be pulled: a registry, a folder of one or an
	// image with all its tags, or one tag or digest alone. "*" is any image.
	Images []string `json:"images,omitempty"`
	// Privileged takes privileged containers, any capability, security option,
	// sysctl and annotation.
	Privileged     bool `json:"privileged,omitempty"`
	HostNamespaces bool `json:"hostNamespaces,omitempty"`
	Devices        bool `json:"devices,omitempty"` // GPUs too
	// HostMounts are paths of the host; what is below one may be mounted.
	HostMounts []string   `json:"hostMounts,omitempty"`
	Ports      *PortRange `json:"ports,omitempty"` // of the host; nil: none
	// Secrets are names of the host's own store that workspaces may be given.
	Secrets []string `json:"secrets,omitempty"`
	// Limits of every workspace, and how many there may be; 0 is no limit.
	MaxMemory     int64 `json:"maxMemory,omitempty"` // bytes
	MaxNanoCPUs   int64 `json:"maxNanoCPUs,omitempty"`
	MaxWorkspaces int   `json:"maxWorkspaces,omitempty"`
	// RequireSigned takes entries alone that an operator has signed.
	RequireSigned bool `json:"requireSigned,omitempty"`
}

// PortRange is both ends included.
type PortRange struct {
	From int `json:"from"`
	To   int `json:"to"`
}

// SafeCapabilities are those that engines give every container; adding one of
// them again grants nothing.
var SafeCapabilities = []string{
	"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "NET_RAW", "SETFCAP",
	"SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
}

// engineSockets hand the host to whoever holds them.
var engineSockets = []string{
	"/run/docker.sock", "/var/run/docker.sock", "/run/containerd/containerd.sock", "/var/run/containerd/containerd.sock",
	"/run/podman/podman.sock", "/var/run/podman/podman.sock", "/run/crio/crio.sock",
}

// CheckSet checks every resource of a managed set.
func (b *Bounds) CheckSet(s *Set) []Problem {
	var out []Problem
	if s == nil {
		return out
	}
	if b.MaxWorkspaces > 0 && len(s.Workspaces) > b.MaxWorkspaces {
		out = append(out, Problem{Path: []string{"workspaces"}, Words: fmt.Sprintf("%d workspaces: the host's declaration allows %d", len(s.Workspaces), b.MaxWorkspaces)})
	}
	add := func(kind, name string, spec any) {
		for _, p := range b.Check(kind, spec) {
			out = append(out, Problem{Path: append([]string{listOf[kind], name}, p.Path...), Words: p.Words})
		}
	}
	for i := range s.Networks {
		add(KindNetwork, s.Networks[i].Name, &s.Networks[i])
	}
	for i := range s.Volumes {
		add(KindVolume, s.Volumes[i].Name, &s.Volumes[i])
	}
	for i := range s.Images {
		add(KindImage, s.Images[i].Name, &s.Images[i])
	}
	for i := range s.Workspaces {
		add(KindWorkspace, s.Workspaces[i].Name, &s.Workspaces[i])
	}
	for i := range s.Snapshots {
		add(KindSnapshot, s.Snapshots[i].Name, &s.Snapshots[i])
	}
	for i := range s.Routes {
		add(KindRoute, s.Routes[i].Name, &s.Routes[i])
	}
	return out
}

// Check says what of a resource the declaration does not allow. The spec is a
// pointer to the kind's type and is checked by itself; Validate it as well.
func (b *Bounds) Check(kind string, spec any) []Problem {
	var out []Problem
	c := checker{out: &out}
	if !slices.Contains(b.Kinds, kind) {
		c.addf("the host's declaration does not allow kind %q in the managed layer: expected one of %q", kind, b.Kinds)
		return out
	}
	fits := false
	switch v := spec.(type) {
	case *Network:
		if fits = kind == KindNetwork && v != nil; fits {
			b.network(c, v)
		}
	case *Volume:
		if fits = kind == KindVolume && v != nil; fits {
			b.volume(c, v)
		}
	case *Image:
		if fits = kind == KindImage && v != nil; fits {
			b.image(c, v)
		}
	case *Workspace:
		if fits = kind == KindWorkspace && v != nil; fits {
			b.workspace(c, v)
		}
	case *Snapshot:
		if fits = kind == KindSnapshot && v != nil; fits && v.Ref != "" {
			c.in("ref").addf("a snapshot named %q could take the place of another image: expected no reference, so that it is named after the host", v.Ref)
		}
	case *Route:
		if fits = kind == KindRoute && v != nil; fits && v.ForwardAuth != "" {
			c.in("forwardAuth").addf("the agent would send requests to %q from inside the host's network: expected none in the managed layer", v.ForwardAuth)
		}
	}
	if !fits {
		c.addf("a %T is not of kind %q", spec, kind)
	}
	return out
}

// bridgeOptions of networks change nothing outside them.
var bridgeOptions = []string{"com.docker.network.driver.mtu", "com.docker.network.bridge.enable_icc"}

func (b *Bounds) network(c checker, n *Network) {
	if n.External != "" {
		c.in("external").addf("network %q of another owner: the managed layer has its own networks alone", n.External)
	}
	if n.Driver != "" && n.Driver != "bridge" {
		c.in("driver").addf("driver %q reaches the host's own networks: expected bridge", n.Driver)
	}
	if n.IPAMDriver != "" && n.IPAMDriver != "default" || len(n.IPAMOpts) > 0 {
		c.in("ipamDriver").addf("address driver %q: expected the engine's own", n.IPAMDriver)
	}
	for _, k := range slices.Sorted(maps.Keys(n.Options)) {
		if !slices.Contains(bridgeOptions, k) {
			c.in("options", k).addf("network option %q: expected one of %q", k, bridgeOptions)
		}
	}
}

func (b *Bounds) volume(c checker, v *Volume) {
	if v.External != "" {
		c.in("external").addf("volume %q of another owner: the managed layer has its own volumes alone", v.External)
	}
	if v.Driver != "" && v.Driver != "local" {
		c.in("driver").addf("volume driver %q: expected local", v.Driver)
	}
	if len(v.Options) == 0 {
		return
	}
	tmpfs, bind := v.Options["type"] == "tmpfs" && v.Options["device"] == "tmpfs", false
	if o := strings.Split(v.Options["o"], ","); v.Options["type"] == "none" || v.Options["type"] == "" {
		bind = len(v.Options) <= 3 && (slices.Equal(o, []string{"bind"}) || slices.Equal(o, []string{"ro", "bind"}) || slices.Equal(o, []string{"bind", "ro"})) && b.mounts(v.Options["device"])
	}
	for _, k := range slices.Sorted(maps.Keys(v.Options)) {
		if !slices.Contains([]string{"type", "device", "o"}, k) {
			tmpfs, bind = false, false
		}
	}
	if !tmpfs && !bind {
		c.in("options").addf("a volume of type %q from %q with %q is a mount of the host: expected a plain volume, a tmpfs, or a folder below one of %q", v.Options["type"], v.Options["device"], v.Options["o"], b.HostMounts)
	}
}

// mounts reports whether a path of the host may be mounted.
func (b *Bounds) mounts(p string) bool {
	if !strings.HasPrefix(p, "/") || cleanPath(p) != strings.TrimRight(p, "/") && p != "/" {
		return false
	}
	clean := cleanPath(p)
	for _, socket := range engineSockets {
		if !b.Privileged && within(socket, clean) {
			return false
		}
	}
	return slices.ContainsFunc(b.HostMounts, func(allowed string) bool { return strings.HasPrefix(allowed, "/") && within(clean, cleanPath(allowed)) })
}

// within reports whether a clean path is the folder or below it.
func within(p, folder string) bool {
	return p == folder || folder == "/" || strings.HasPrefix(p, folder+"/")
}

// Allows reports whether a reference is of an image that may be pulled.
func (b *Bounds) Allows(ref string) bool {
	r, err := ParseRef(ref)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(b.Images, func(allowed string) bool { return allowed == "*" || covers(allowed, r) })
}

// covers compares in full form and at the bounds of path parts.
func covers(allowed string, r Ref) bool {
	allowed = strings.TrimSuffix(allowed, "/")
	if host, port, has := strings.Cut(allowed, ":"); !strings.Contains(allowed, "/") && (strings.Contains(host, ".") || host == "localhost") && (!has || number(port)) {
		if host == "index.docker.io" {
			allowed = defaultRegistry
		}
		return r.Domain == strings.ToLower(allowed)
	}
	a, err := ParseRef(allowed)
	if err != nil {
		// A folder may look like an image ID; with a tag it does not.
		if a, err = ParseRef(allowed + ":x"); err != nil {
			return false
		}
		a.Tag = ""
	}
	if a.Domain != r.Domain {
		return false
	}
	if a.Tag != "" || a.Digest != "" {
		return a.Path == r.Path && (a.Digest == "" || a.Digest == r.Digest) && (a.Tag == "" || a.Tag == r.Tag && (a.Digest != "" || r.Digest == ""))
	}
	if official, ok := strings.CutPrefix(a.Path, "library/"); ok && strings.HasSuffix(allowed, ".io/"+official) {
		// "nginx" is the official image, "docker.io/acme" the folder too.
		return within(r.Path, a.Path) || within(r.Path, official)
	}
	return within(r.Path, a.Path)
}

func (b *Bounds) image(c checker, i *Image) {
	switch {
	case i.Load != nil:
		c.in("load").addf("an archive may name its images at will: expected it in a bundle")
	case i.Pull != nil && !b.Allows(i.Ref):
		c.in("ref").addf("image %q is not allowed here: expected one of %q", i.Ref, b.Images)
	case i.Build != nil:
		if i.Ref != "" || len(i.Build.Tags) > 0 {
			c.in("ref").addf("a built image named %q could take the place of another: expected no reference and no tags, so that it is named after the host", i.Ref)
		}
		if i.Build.Network == "host" && !b.HostNamespaces {
			c.in("build", "network").addf("a build in the host's network: expected none, or another")
		}
		b.build(c.in("build"), i.Build)
	}
}
