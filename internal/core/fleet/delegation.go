package fleet

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/imageref"
	"github.com/steadyfleet/steady/internal/core/spec"
)

// What a host may allow the server besides the managed layer.
const (
	AllowLogs     = "logs"     // read the logs of workspaces and the output of builds
	AllowExec     = "exec"     // run commands in workspaces
	AllowDisable  = "disable"  // stop and start the host's workspaces as a whole
	AllowPrune    = "prune"    // list and remove what carries the host's labels and nobody declares
	AllowSettings = "settings" // tune intervals, pools and metrics within fixed bounds
)

// Allowances lists them in order.
var Allowances = []string{AllowDisable, AllowExec, AllowLogs, AllowPrune, AllowSettings}

// Delegation is what a host's signed declaration lets the server do without a
// signature. A nil one is nothing.
type Delegation struct {
	Kinds []string `json:"kinds"` // of the managed layer, sorted
	Allow []string `json:"allow"` // sorted
	// Bounds is what resources of the managed layer may be; its Kinds are Kinds.
	Bounds spec.Bounds `json:"bounds"`
}

// Manages reports whether the managed layer may hold resources of a kind.
func (d *Delegation) Manages(kind string) bool { return d != nil && slices.Contains(d.Kinds, kind) }

// Allows reports whether the server may do one of Allowances.
func (d *Delegation) Allows(what string) bool { return d != nil && slices.Contains(d.Allow, what) }

// RequireKind refuses a kind that the declaration of a host does not leave to the
// server, with the line that would. An empty host is the one that says so itself.
func (d *Delegation) RequireKind(host, kind string) error {
	if d.Manages(kind) {
		return nil
	}
	return undeclared(host, "leave resources of kind "+kind+" to the server", "managed", append(slices.Clone(d.orNone().Kinds), kind))
}

// RequireAllowance refuses one of Allowances likewise.
func (d *Delegation) RequireAllowance(host, what string) error {
	if d.Allows(what) {
		return nil
	}
	return undeclared(host, "allow the server "+what, "allow", append(slices.Clone(d.orNone().Allow), what))
}

func (d *Delegation) orNone() *Delegation { return cmp.Or(d, &Delegation{}) }

func undeclared(host, what, key string, list []string) error {
	who, entry := "this host", "its entry under hosts"
	if host != "" {
		who, entry = "host "+host, "hosts."+host
	}
	return fmt.Errorf("%s does not %s; its signed declaration must allow it: add to %s in fleet.yaml \"%s: [%s]\", and roll out the release",
		who, what, entry, key, strings.Join(unique(list), ", "))
}

// delegation is what a declared host delegates, or nil.
func (h *HostDecl) delegation() *Delegation {
	if len(h.Managed) == 0 && len(h.Allow) == 0 {
		return nil
	}
	d := &Delegation{Kinds: nonNil(unique(h.Managed)), Allow: nonNil(unique(h.Allow)), Bounds: h.Bounds}
	b := &d.Bounds
	b.Kinds, b.Images, b.HostMounts, b.Secrets, b.Subnets, b.Owners = unique(h.Managed), unique(b.Images), unique(b.HostMounts), unique(b.Secrets), unique(b.Subnets), unique(b.Owners)
	if r := b.Routes; r != nil {
		b.Routes = &spec.RouteBounds{Hosts: unique(r.Hosts), Certificates: unique(r.Certificates)}
	}
	return d
}

// unique sorts a list and drops repeats; it leaves an empty one out.
func unique(v []string) []string {
	if len(v) == 0 {
		return nil
	}
	return slices.Compact(sorted(v))
}

func (c *checker) delegated(path []string, h HostDecl) {
	c.distinct(at(path, "managed"), h.Managed, "kind")
	c.distinct(at(path, "allow"), h.Allow, "allowance")
	c.bounds(at(path, "bounds"), h)
}

// distinct refuses what a list has twice.
func (c *checker) distinct(path []string, list []string, what string) {
	for i, k := range list {
		if slices.Contains(list[:i], k) {
			c.errorf(at(path, i), "%s %q is listed twice: expected each once", what, k)
		}
	}
}

// bounds checks what bounds the managed layer of a host.
func (c *checker) bounds(path []string, h HostDecl) {
	b := h.Bounds
	if len(h.Managed) == 0 && !nothing(&b) {
		c.errorf(path, "bounds of a managed layer that the host does not have: expected managed with its kinds, such as managed: [image, workspace]")
	}
	for i, s := range b.Images {
		if s == "*" {
			continue
		}
		if _, err := imageref.Parse(strings.TrimSuffix(s, "/")); err != nil && !strings.Contains(s, ".") && s != "localhost" {
			c.errorf(at(path, "images", i), "%q is no image: %v; or \"*\" for any", s, err)
		}
	}
	for i, s := range b.HostMounts {
		if clean := "/" + strings.Trim(s, "/"); !strings.HasPrefix(s, "/") || strings.Contains(s, "//") || slices.ContainsFunc(strings.Split(clean, "/"), func(p string) bool { return p == "." || p == ".." }) {
			c.errorf(at(path, "hostMounts", i), "host mount is %q: expected an absolute path without . and ..", s)
		}
	}
	for i, s := range b.Subnets {
		if p, err := netip.ParsePrefix(s); err != nil || p != p.Masked() {
			c.errorf(at(path, "subnets", i), "subnet is %q: expected a network such as 10.20.0.0/16", s)
		}
	}
	if r := b.Routes; r != nil {
		for i, s := range r.Certificates {
			c.name(at(path, "routes", "certificates", i), s)
		}
	}
	for i, s := range b.Secrets {
		c.name(at(path, "secrets", i), s)
	}
	c.owners(at(path, "owners"), &b)
	if p := b.Ports; p != nil && (p.From < 1 || p.To > 65535 || p.From > p.To) {
		c.errorf(at(path, "ports"), "ports are %d to %d: expected from and to within 1 to 65535", p.From, p.To)
	}
}

// owners checks who may set entries beside operators.
func (c *checker) owners(path []string, b *spec.Bounds) {
	c.distinct(path, b.Owners, "owner")
	for i, s := range b.Owners {
		if !slices.Contains(spec.OwnerKinds, s) {
			c.errorf(at(path, i), "owner is %q: expected one of %s; operators are always one", s, strings.Join(spec.OwnerKinds, ", "))
		}
	}
	if len(b.Owners) > 0 && b.RequireSigned {
		c.warnf(path, "only operators sign entries: with requireSigned the host refuses those of %s", strings.Join(b.Owners, ", "))
	}
}

// nothing reports whether bounds allow nothing beyond the default.
func nothing(b *spec.Bounds) bool {
	return len(b.Images)+len(b.HostMounts)+len(b.Secrets)+len(b.Subnets)+len(b.Owners) == 0 && b.Ports == nil && b.Routes == nil && !b.Privileged && !b.HostNamespaces && !b.Devices &&
		b.MaxMemory == 0 && b.MaxNanoCPUs == 0 && b.MaxPIDs == 0 && b.MaxWorkspaces == 0 && b.MaxStopGrace == 0 && !b.RequireSigned
}
