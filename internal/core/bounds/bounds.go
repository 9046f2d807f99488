// Package bounds says what a signed declaration lets the managed layer of a host
// have, and what of a resource it does not allow.
package bounds

import (
	"maps"
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
		if fits = kind == container.KindRoute && v != nil; fits && v.ForwardAuth != "" {
			c.In("forwardAuth").Addf("the agent would send requests to %q from inside the host's network: expected none in the managed layer", v.ForwardAuth)
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
		c.In("options").Addf("a volume of type %q from %q with %q is a mount of the host: expected a plain volume, a tmpfs, or a folder below one of %q", v.Options["type"], v.Options["device"], v.Options["o"], b.HostMounts)
	}
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
