package event

import (
	"encoding/json"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/spec"
)

// Events of what a host's signed declaration leaves to the server. The host is
// the entry's.

// ManagedSet says that a resource of the managed layer is as Spec from now on.
type ManagedSet struct {
	Kind string          `json:"kind"`
	Name string          `json:"name"`
	Spec json.RawMessage `json:"spec"`
	// NotAfter ends it on the host, cut off or not; zero is no end.
	NotAfter clock.Instant `json:"notAfter,omitempty"`
	// StopFrom is from when the host asks what runs to stop, so that it is gone by NotAfter.
	StopFrom clock.Instant `json:"stopFrom,omitempty"`
	// Envelope is the entry as an operator signed it, if one did.
	Envelope json.RawMessage `json:"envelope,omitempty"`
	// Owner alone changes or removes it; empty is the operators.
	Owner  spec.Owner `json:"owner,omitempty"`
	Actor  string     `json:"actor"`
	Reason string     `json:"reason"`
}

// ManagedRemoved says that a resource left the managed layer.
type ManagedRemoved struct {
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	Actor  string `json:"actor"`
	Reason string `json:"reason"`
	// Expired says that its notAfter passed, which is no removal that somebody asks for
	// now.
	Expired bool `json:"expired,omitempty"`
}

// ManagedRequested asks once for something of a resource: start, stop, restart,
// redeploy, retry, build or cancel. Nonce tells one asking from the next.
type ManagedRequested struct {
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	Verb   string `json:"verb"`
	Nonce  string `json:"nonce"`
	Actor  string `json:"actor"`
	Reason string `json:"reason"`
}

// HostTuned sets all settings of a host.
type HostTuned struct {
	Settings fleet.Settings `json:"settings"`
	Actor    string         `json:"actor"`
	Reason   string         `json:"reason"`
}

// StreamOpened says that an operator was given a stream into a host. It is
// committed before the host hears of it.
type StreamOpened struct {
	Stream   string   `json:"stream"`
	Kind     string   `json:"kind"`
	Resource string   `json:"resource"`
	Argv     []string `json:"argv"`
	User     string   `json:"user,omitempty"`
	TTY      bool     `json:"tty,omitempty"`
	Actor    string   `json:"actor"`
}

// EventType names of the managed layer's events.
func (ManagedSet) EventType() string       { return "managed.set" }
func (ManagedRemoved) EventType() string   { return "managed.removed" }
func (ManagedRequested) EventType() string { return "managed.requested" }
func (HostTuned) EventType() string        { return "host.tuned" }
func (StreamOpened) EventType() string     { return "stream.opened" }

func init() {
	add(ManagedSet{}, ofHost)
	add(ManagedRemoved{}, ofHost)
	add(ManagedRequested{}, ofHost)
	add(HostTuned{}, ofHost)
	add(StreamOpened{}, ofHost)
}
