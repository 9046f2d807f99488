package fleet

import (
	"slices"

	"github.com/steadyfleet/steady/internal/core/container"
)

// ManagedKinds are the kinds that a host may leave to the managed layer.
var ManagedKinds = sorted(container.Kinds)

// What a host may allow the server besides the managed layer.
const (
	AllowLogs     = "logs"     // read the logs of workspaces and the output of builds
	AllowExec     = "exec"     // run commands in workspaces
	AllowDisable  = "disable"  // stop and start the host's workspaces as a whole
	AllowSettings = "settings" // tune intervals, pools and metrics within fixed bounds
)

// Allowances lists them in order.
var Allowances = []string{AllowDisable, AllowExec, AllowLogs, AllowSettings}

// Delegation is what a host's signed declaration lets the server do without a
// signature. A nil one is nothing.
type Delegation struct {
	Kinds []string `json:"kinds"` // of the managed layer, sorted
	Allow []string `json:"allow"` // sorted
}

// Manages reports whether the managed layer may hold resources of a kind.
func (d *Delegation) Manages(kind string) bool { return d != nil && slices.Contains(d.Kinds, kind) }

// Allows reports whether the server may do one of Allowances.
func (d *Delegation) Allows(what string) bool { return d != nil && slices.Contains(d.Allow, what) }

// delegation is what a declared host delegates, or nil.
func (h *HostDecl) delegation() *Delegation {
	if len(h.Managed) == 0 && len(h.Allow) == 0 {
		return nil
	}
	return &Delegation{Kinds: slices.Compact(sorted(h.Managed)), Allow: slices.Compact(sorted(h.Allow))}
}

// delegated checks what a host delegates.
func (c *checker) delegated(path []string, h HostDecl) {
	list := func(field string, have, known []string, what string) {
		for i, k := range have {
			if !slices.Contains(known, k) {
				c.errorf(at(path, field, i), "unknown %s %q: %s", what, k, oneOf(known))
			} else if slices.Contains(have[:i], k) {
				c.errorf(at(path, field, i), "%s %q is listed twice: expected each once", what, k)
			}
		}
	}
	list("managed", h.Managed, ManagedKinds, "kind")
	list("allow", h.Allow, Allowances, "allowance")
}
