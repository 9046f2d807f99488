package spec

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
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
	Routes *RouteBounds `json:"routes,omitempty"`
	Ports  *PortRange   `json:"ports,omitempty"` // of the host; nil: none
	// Secrets are names of the host's own store that workspaces may be given.
	Secrets []string `json:"secrets,omitempty"`
	// Limits of every workspace and of each step of a build, and how many workspaces
	// there may be; 0 is no limit.
	MaxMemory     int64 `json:"maxMemory,omitempty"` // bytes
	MaxNanoCPUs   int64 `json:"maxNanoCPUs,omitempty"`
	MaxPIDs       int64 `json:"maxPIDs,omitempty"` // of a workspace
	MaxWorkspaces int   `json:"maxWorkspaces,omitempty"`
	// MaxStopGrace is how long a workspace may take to stop: its grace, and HookTime for each command before
	// its stop; 0 is no limit.
	MaxStopGrace Span `json:"maxStopGrace,omitempty"`
	// Owners are kinds of owners, of OwnerKinds, whose entries are taken beside those of
	// operators.
	Owners []string `json:"owners,omitempty"`
	// RequireSigned takes entries alone that an operator has signed.
	RequireSigned bool `json:"requireSigned,omitempty"`
}

// Span is a duration that fleet.yaml has as a text such as 10m, and signed documents and the API in milliseconds.
type Span clock.Duration

// UnmarshalJSON reads either.
func (s *Span) UnmarshalJSON(b []byte) error {
	var text string
	if json.Unmarshal(b, &text) != nil {
		return json.Unmarshal(b, (*clock.Duration)(s))
	}
	d, err := clock.ParseDuration(text)
	*s = Span(d)
	return err
}

// RouteBounds names host names and certificates of the host's store.
type RouteBounds struct {
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
func (b *Bounds) CheckSet(s *Set) []Problem {
	var out []Problem
	if s == nil {
		return out
	}
	c := Checker{out: &out}
	if b.MaxWorkspaces > 0 && len(s.Workspaces) > b.MaxWorkspaces {
		c.In("workspaces").Addf("%d workspaces: the host's declaration allows %d", len(s.Workspaces), b.MaxWorkspaces)
	}
	for id, r := range s.All() {
		b.check(c.Of(id), id.Kind, r)
	}
	crossed(c, s)
	return out
}

func (b *Bounds) check(c Checker, kind string, r Resource) {
	if !slices.Contains(b.Kinds, kind) {
		c.Addf("the host's declaration does not allow kind %q in the managed layer: expected one of %q", kind, b.Kinds)
		return
	}
	r.CheckBounds(b, c)
}

// Confine writes into a set that CheckSet takes what holds it to the bounds where
// things are made: mounts stay below the folder that allows them, networks away from
// the host's own, and builds have limits.
func (b *Bounds) Confine(s *Set) {
	for _, k := range Known.All() {
		list := k.Of(s)
		for _, r := range list {
			r.Confine(b)
		}
		k.Storage.put(s, k.Name, list)
	}
}

// outermost reports whether a path is a folder that the declaration names, and below no
// other one of it: the engine follows links when it mounts a volume, and there nobody
// looks, so nobody of the layer may be able to plant one.
func (b *Bounds) outermost(p string) bool {
	clean, named := CleanPath(p), false
	for _, allowed := range b.HostMounts {
		allowed = CleanPath(allowed)
		if clean != allowed && within(clean, allowed) {
			return false
		}
		named = named || clean == allowed
	}
	return named && b.mounts(p)
}

func (b *Bounds) mounts(p string) bool {
	if !strings.HasPrefix(p, "/") || CleanPath(p) != strings.TrimRight(p, "/") && p != "/" {
		return false
	}
	clean := CleanPath(p)
	for _, socket := range engineSockets {
		if !b.Privileged && within(socket, clean) {
			return false
		}
	}
	return slices.ContainsFunc(b.HostMounts, func(allowed string) bool {
		return strings.HasPrefix(allowed, "/") && within(clean, CleanPath(allowed))
	})
}

// within reports whether a clean path is the folder or below it.
func within(p, folder string) bool {
	return p == folder || folder == "/" || strings.HasPrefix(p, folder+"/")
}

// allowing is the outermost folder of the declaration that holds a path.
func (b *Bounds) allowing(p string) string {
	clean, out := CleanPath(p), ""
	for _, allowed := range b.HostMounts {
		if allowed = CleanPath(allowed); within(clean, allowed) && (out == "" || within(out, allowed)) {
			out = allowed
		}
	}
	return out
}

// crossed finds mounts of a folder that another mount of the layer may write above: who
// writes there can put a link in the folder's place, and engines follow links whenever
// they start a container.
func crossed(c Checker, s *Set) {
	type place struct{ path, who string }
	var writable []place
	note := func(path, who string) { writable = append(writable, place{CleanPath(path), who}) }
	for i := range s.Workspaces {
		for _, m := range s.Workspaces[i].Mounts {
			if m.Type == MountBind && !m.ReadOnly {
				note(m.Source, "workspace "+s.Workspaces[i].Name)
			}
		}
	}
	for i := range s.Volumes {
		if o := s.Volumes[i].Options; o["device"] != "" && o["type"] != "tmpfs" && !slices.Contains(strings.Split(o["o"], ","), "ro") {
			note(o["device"], "volume "+s.Volumes[i].Name)
		}
	}
	for i := range s.Workspaces {
		for k, m := range s.Workspaces[i].Mounts {
			above := slices.IndexFunc(writable, func(w place) bool {
				clean := CleanPath(m.Source)
				return clean != w.path && within(clean, w.path)
			})
			if m.Type == MountBind && above >= 0 {
				c.In("workspaces", s.Workspaces[i].Name).Item("mounts", k).Addf("path %q lies in %q, which %s may write: it could put a link in its place; mount the whole folder, or let others only read it",
					m.Source, writable[above].path, writable[above].who)
			}
		}
	}
}
