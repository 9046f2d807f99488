package event

import (
	"fmt"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// HostDegraded says that a host which is past its rollout does not run what it
// should: a resource failed or takes too long, or an enforce probe fails. It comes
// again when that becomes of other resources or probes.
type HostDegraded struct {
	Resources []DegradedResource `json:"resources,omitempty"` // by name, at most MaxDegraded
	More      int                `json:"more,omitempty"`
	Probes    []DegradedProbe    `json:"probes,omitempty"`
	// Bundle says that some of it is the doing of the host's bundle, and not all of its
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

// Cause names the resources and probes, whatever they report.
func (e HostDegraded) Cause() string {
	var names []string
	for _, r := range e.Resources {
		names = append(names, r.Resource)
	}
	for _, p := range e.Probes {
		names = append(names, "probe "+p.Probe)
	}
	return strings.Join(names, ", ")
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

// SourceFailed says that nothing could be fetched from a place where releases are
// kept, once per cause. What arrives from there and does not verify is a
// VerifyFailed.
type SourceFailed struct {
	Source string `json:"source"`
	Cause  string `json:"cause"`
	Detail string `json:"detail"`
}

// SourceRecovered says that a trouble with a source is over. What is "fetch" or
// "verify", Since when it began.
type SourceRecovered struct {
	Source string        `json:"source"`
	What   string        `json:"what"`
	Since  clock.Instant `json:"since"`
	Reason string        `json:"reason"`
}

// EventType names of sources' events.
func (SourceFailed) EventType() string    { return "source.failed" }
func (SourceRecovered) EventType() string { return "source.recovered" }

// ExpiryWarned says that something ends soon, has ended or is nearly full: once
// when it gets that far, and once more when it gets worse. Kind and Level are those
// of package expiry, Name whose it is.
type ExpiryWarned struct {
	Kind    string        `json:"kind"`
	Name    string        `json:"name,omitempty"`
	Level   string        `json:"level"`
	Ends    clock.Instant `json:"ends,omitempty"`
	Message string        `json:"message"`
	Next    string        `json:"next"`
}

// ExpiryCleared says that it was renewed, has room again, or is gone. Since is when
// the warning began.
type ExpiryCleared struct {
	Kind   string        `json:"kind"`
	Name   string        `json:"name,omitempty"`
	Since  clock.Instant `json:"since"`
	Reason string        `json:"reason"`
}

// EventType names of warnings.
func (ExpiryWarned) EventType() string  { return "expiry.warned" }
func (ExpiryCleared) EventType() string { return "expiry.cleared" }

func init() {
	add(HostDegraded{}, ofHost, notice(warn, "a host is degraded", "resources more probes"), mark(1))
	add(HostRecovered{}, ofHost, notice(info, "a host has recovered", ""))
	add(HostRetried{}, ofHost)
	add(SourceFailed{}, about(source))
	add(SourceRecovered{}, about(source))
	add(ExpiryWarned{})
	add(ExpiryCleared{})
}
