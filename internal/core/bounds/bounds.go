// Package bounds says what a signed declaration lets the managed layer of a host
// have, and what of a resource it does not allow.
package bounds

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/container"
	"github.com/steadyfleet/steady/internal/core/imageref"
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
	// HostMounts are paths of the host; what is below one may be mounted, if no link
	// leads there and no workspace of the layer may write to a folder on the way.
	HostMounts []string `json:"hostMounts,omitempty"`
	// Subnets are ranges that address pools of networks may be taken from.
	Subnets []string `json:"subnets,omitempty"`
	// Routes are what routes may serve; nil: nothing.
	Routes *Routes    `json:"routes,omitempty"`
	Ports  *PortRange `json:"ports,omitempty"` // of the host; nil: none
	// Secrets are names of the host's own store that workspaces may be given.
	Secrets []string `json:"secrets,omitempty"`
	// Limits of every workspace and of each step of a build, and how many workspaces
	// there may be; 0 is no limit.
	MaxMemory     int64 `json:"maxMemory,omitempty"` // bytes
	MaxNanoCPUs   int64 `json:"maxNanoCPUs,omitempty"`
	MaxPIDs       int64 `json:"maxPIDs,omitempty"` // of a workspace
	MaxWorkspaces int   `json:"maxWorkspaces,omitempty"`
	// RequireSigned takes entries alone that an operator has signed.
	RequireSigned bool `json:"requireSigned,omitempty"`
}

// Routes names host names and certificates of the host's store.
type Routes struct {
	// Hosts are names, "*.example" for what is below one, "*" for any and for routes
	// without a name.
	Hosts        []string `json:"hosts,omitempty"`
	Certificates []string `json:"certificates,omitempty"`
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
func (b *Bounds) CheckSet(s *container.Set) []container.Problem {
	var out []container.Problem
	if s == nil {
		return out
	}
	c := container.NewChecker(&out)
	if b.MaxWorkspaces > 0 && len(s.Workspaces) > b.MaxWorkspaces {
		c.In("workspaces").Addf("%d workspaces: the host's declaration allows %d", len(s.Workspaces), b.MaxWorkspaces)
	}
	add := func(kind, name string, spec any) { b.check(c.Of(container.ID{Kind: kind, Name: name}), kind, spec) }
	for i := range s.Networks {
		add(container.KindNetwork, s.Networks[i].Name, &s.Networks[i])
	}
	for i := range s.Volumes {
		add(container.KindVolume, s.Volumes[i].Name, &s.Volumes[i])
	}
	for i := range s.Images {
		add(container.KindImage, s.Images[i].Name, &s.Images[i])
	}
	for i := range s.Workspaces {
		add(container.KindWorkspace, s.Workspaces[i].Name, &s.Workspaces[i])
	}
	for i := range s.Snapshots {
		add(container.KindSnapshot, s.Snapshots[i].Name, &s.Snapshots[i])
	}
	for i := range s.Routes {
		add(container.KindRoute, s.Routes[i].Name, &s.Routes[i])
	}
	crossed(c, s)
	return out
}

// Check says what of a resource the declaration does not allow. The spec is a
// pointer to the kind's type and is checked by itself; Validate it as well.
func (b *Bounds) Check(kind string, spec any) []container.Problem {
	var out []container.Problem
	b.check(container.NewChecker(&out), kind, spec)
	return out
}

func (b *Bounds) check(c container.Checker, kind string, spec any) {
	if !slices.Contains(b.Kinds, kind) {
		c.Addf("the host's declaration does not allow kind %q in the managed layer: expected one of %q", kind, b.Kinds)
		return
	}
	fits := false
	switch v := spec.(type) {
	case *container.Network:
		if fits = kind == container.KindNetwork && v != nil; fits {
			b.network(c, v)
		}
	case *container.Volume:
		if fits = kind == container.KindVolume && v != nil; fits {
			b.volume(c, v)
		}
	case *container.Image:
		if fits = kind == container.KindImage && v != nil; fits {
			b.image(c, v)
		}
	case *container.Workspace:
		if fits = kind == container.KindWorkspace && v != nil; fits {
			b.workspace(c, v)
		}
	case *container.Snapshot:
		if fits = kind == container.KindSnapshot && v != nil; fits && v.Ref != "" {
			c.In("ref").Addf("a snapshot named %q could take the place of another image: expected no reference, so that it is named after the host", v.Ref)
		}
	case *container.Route:
		if fits = kind == container.KindRoute && v != nil; fits {
			b.route(c, v)
		}
	}
	if !fits {
		c.Addf("a %T is not of kind %q", spec, kind)
	}
}

// bridgeOptions of networks change nothing outside them.
var bridgeOptions = []string{"com.docker.network.driver.mtu", "com.docker.network.bridge.enable_icc"}

func (b *Bounds) network(c container.Checker, n *container.Network) {
	if n.External != "" {
		c.In("external").Addf("network %q of another owner: the managed layer has its own networks alone", n.External)
	}
	if n.Driver != "" && n.Driver != "bridge" {
		c.In("driver").Addf("driver %q reaches the host's own networks: expected bridge", n.Driver)
	}
	if n.IPAMDriver != "" && n.IPAMDriver != "default" || len(n.IPAMOpts) > 0 {
		c.In("ipamDriver").Addf("address driver %q: expected the engine's own", n.IPAMDriver)
	}
	for _, k := range slices.Sorted(maps.Keys(n.Options)) {
		if !slices.Contains(bridgeOptions, k) {
			c.In("options", k).Addf("network option %q: expected one of %q", k, bridgeOptions)
		}
	}
	for i, p := range n.Pools {
		if !b.subnet(p.Subnet) {
			c.Item("pools", i).Addf("subnet %q would be routed on the host: expected none, so that the engine chooses, or one within %q (bounds.subnets)", p.Subnet, b.Subnets)
		}
	}
}

// subnet reports whether a pool may have a subnet.
func (b *Bounds) subnet(s string) bool {
	p, err := netip.ParsePrefix(s)
	return err == nil && slices.ContainsFunc(b.Subnets, func(allowed string) bool {
		a, err := netip.ParsePrefix(allowed)
		return err == nil && a.Contains(p.Addr()) && p.Bits() >= a.Bits()
	})
}

func (b *Bounds) route(c container.Checker, r *container.Route) {
	if r.ForwardAuth != "" {
		c.In("forwardAuth").Addf("the agent would send requests to %q from inside the host's network: expected none in the managed layer", r.ForwardAuth)
	}
	var may Routes
	if b.Routes != nil {
		may = *b.Routes
	}
	if !slices.ContainsFunc(may.Hosts, func(allowed string) bool { return serves(allowed, r.Host) }) {
		c.In("host").Addf("a route for host name %q is not allowed here: expected one of %q (bounds.routes.hosts)", r.Host, may.Hosts)
	}
	if r.TLS != "" && !slices.Contains(may.Certificates, r.TLS) {
		c.In("tls").Addf("certificate %q of the host is not allowed here: expected one of %q (bounds.routes.certificates)", r.TLS, may.Certificates)
	}
}

func serves(allowed, name string) bool {
	if below, ok := strings.CutPrefix(allowed, "*."); ok {
		first, rest, found := strings.Cut(name, ".")
		return found && first != "" && strings.EqualFold(rest, below)
	}
	return allowed == "*" || name != "" && strings.EqualFold(allowed, name)
}

func (b *Bounds) volume(c container.Checker, v *container.Volume) {
	if v.External != "" {
		c.In("external").Addf("volume %q of another owner: the managed layer has its own volumes alone", v.External)
	}
	if v.Driver != "" && v.Driver != "local" {
		c.In("driver").Addf("volume driver %q: expected local", v.Driver)
	}
	if len(v.Options) == 0 {
		return
	}
	tmpfs, bind := v.Options["type"] == "tmpfs" && v.Options["device"] == "tmpfs" && memoryOptions(v.Options["o"]), false
	if o := strings.Split(v.Options["o"], ","); v.Options["type"] == "none" || v.Options["type"] == "" {
		bind = len(v.Options) <= 3 && (slices.Equal(o, []string{"bind"}) || slices.Equal(o, []string{"ro", "bind"}) || slices.Equal(o, []string{"bind", "ro"})) && b.outermost(v.Options["device"])
	}
	for _, k := range slices.Sorted(maps.Keys(v.Options)) {
		if !slices.Contains([]string{"type", "device", "o"}, k) {
			tmpfs, bind = false, false
		}
	}
	if !tmpfs && !bind {
		c.In("options").Addf("a volume of type %q from %q with %q is a mount of the host: expected a plain volume, a tmpfs, or one of the folders %q itself", v.Options["type"], v.Options["device"], v.Options["o"], b.HostMounts)
	}
}

// memoryOptions reports whether options of a tmpfs mount do no more than shape it: bind
// among them would make it one of a folder.
func memoryOptions(o string) bool {
	for word := range strings.SplitSeq(o, ",") {
		key, _, _ := strings.Cut(word, "=")
		if !slices.Contains([]string{"", "size", "nr_inodes", "mode", "uid", "gid", "ro", "rw", "nosuid", "nodev", "noexec"}, key) {
			return false
		}
	}
	return true
}

// outermost reports whether a path is a folder that the declaration names, and below no
// other one of it: the engine follows links when it mounts a volume, and there nobody
// looks, so nobody of the layer may be able to plant one.
func (b *Bounds) outermost(p string) bool {
	clean, named := container.CleanPath(p), false
	for _, allowed := range b.HostMounts {
		allowed = container.CleanPath(allowed)
		if clean != allowed && within(clean, allowed) {
			return false
		}
		named = named || clean == allowed
	}
	return named && b.mounts(p)
}

// mounts reports whether a path of the host may be mounted.
func (b *Bounds) mounts(p string) bool {
	if !strings.HasPrefix(p, "/") || container.CleanPath(p) != strings.TrimRight(p, "/") && p != "/" {
		return false
	}
	clean := container.CleanPath(p)
	for _, socket := range engineSockets {
		if !b.Privileged && within(socket, clean) {
			return false
		}
	}
	return slices.ContainsFunc(b.HostMounts, func(allowed string) bool {
		return strings.HasPrefix(allowed, "/") && within(clean, container.CleanPath(allowed))
	})
}

// within reports whether a clean path is the folder or below it.
func within(p, folder string) bool {
	return p == folder || folder == "/" || strings.HasPrefix(p, folder+"/")
}

// Allows reports whether a reference is of an image that may be pulled.
func (b *Bounds) Allows(ref string) bool {
	r, err := imageref.Parse(ref)
	return err == nil && slices.ContainsFunc(b.Images, func(allowed string) bool { return allowed == "*" || r.Within(allowed) })
}

func (b *Bounds) image(c container.Checker, i *container.Image) {
	switch {
	case i.Load != nil:
		c.In("load").Addf("an archive may name its images at will: expected it in a bundle")
	case i.Pull != nil && !b.Allows(i.Ref):
		c.In("ref").Addf("image %q is not allowed here: expected one of %q", i.Ref, b.Images)
	case i.Pull != nil && b.RequireSigned && !imageref.Pinned(i.Ref):
		c.In("ref").Addf("image %q has no digest, so a signature would not say which image it is: expected %s@sha256: and its digest", i.Ref, i.Ref)
	case i.Build != nil:
		if i.Ref != "" || len(i.Build.Tags) > 0 {
			c.In("ref").Addf("a built image named %q could take the place of another: expected no reference and no tags, so that it is named after the host", i.Ref)
		}
		if i.Build.Network == "host" && !b.HostNamespaces {
			c.In("build", "network").Addf("a build in the host's network: expected none, or another")
		}
		b.build(c.In("build"), i.Build)
	}
}
