package event

import (
	"fmt"
	"strings"

	"github.com/steadyfleet/steady/reconcile/engine"
)

// HostDegraded says that a host which is past its rollout does not run what it
// should: a resource failed or takes too long, or an enforce probe fails. It comes
// again when that becomes of other resources or probes.
type HostDegraded struct {
	Resources []DegradedResource `json:"resources,omitempty"` // by name, at most MaxDegraded
	More      int                `json:"more,omitempty"`
	Probes    []DegradedProbe    `json:"probes,omitempty"`
	// Bundle says that some of it is of the host's bundle, and not all of its
	// managed layer: then the host is no evidence for a wave.
	Bundle bool `json:"bundle"`
}

// Summary says in a sentence what does not run, and why.
func (e HostDegraded) Summary() string {
	var parts []string
	because := func(what, why string) {
		if why != "" {
			what += " (" + why + ")"
		}
		parts = append(parts, what)
	}
	for _, r := range e.Resources {
		because(r.Resource+" is "+r.State, r.Message)
	}
	if e.More > 0 {
		because(fmt.Sprintf("%d more resources", e.More), "")
	}
	for _, p := range e.Probes {
		because("probe "+p.Probe+" fails", p.Message)
	}
	return strings.Join(parts, "; ")
}

// DegradedResource is a resource as its host last reported it.
type DegradedResource struct {
	Resource string      `json:"resource"` // kind/name
	State    string      `json:"state"`
	Reason   engine.Code `json:"reason,omitempty"`
	Message  string      `json:"message,omitempty"`
}

// DegradedProbe is an enforce probe that fails, and why.
type DegradedProbe struct {
	Probe   string `json:"probe"`
	Message string `json:"message,omitempty"`
}

// MaxDegraded bounds what HostDegraded names.
const MaxDegraded = 16

// HostRecovered says that a host is degraded no more.
type HostRecovered struct{}

// HostRetried says that an operator had a host begin anew with what it gave up:
// with one resource, or with all where none is named.
type HostRetried struct {
	Resource string `json:"resource,omitempty"` // kind/name
	Nonce    string `json:"nonce"`
	Actor    string `json:"actor"`
	Reason   string `json:"reason"`
}

// EventType names of the health of hosts.
func (HostDegraded) EventType() string  { return "host.degraded" }
func (HostRecovered) EventType() string { return "host.recovered" }
func (HostRetried) EventType() string   { return "host.retried" }

func init() { register(HostDegraded{}, HostRecovered{}, HostRetried{}) }
