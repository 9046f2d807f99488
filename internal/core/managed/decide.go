package managed

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/spec"
)

// Code says why a change is refused.
type Code string

// The codes.
const (
	UnknownHost  Code = "unknown-host"
	NotDelegated Code = "not-delegated" // the host's signed declaration does not allow it
	OutOfBounds  Code = "out-of-bounds" // it allows less than this
	Invalid      Code = "invalid"
	Clash        Code = "clash" // the host's bundle declares it
	NotOwner     Code = "not-owner"
	Missing      Code = "missing"
	MassRemoval  Code = "mass-removal"
	Full         Code = "full"
	Superseded   Code = "superseded" // it is not as it was read
)

// Refusal says why nothing was decided, and what would change that.
type Refusal struct {
	Code     Code
	Message  string
	Problems spec.Problems // where in the spec, if it is the spec
}

func (r *Refusal) Error() string { return r.Message }

func refuse(code Code, format string, args ...any) error {
	r := &Refusal{Code: code, Message: fmt.Sprintf(format, args...)}
	for _, a := range args {
		if problems, ok := a.(spec.Problems); ok {
			r.Problems = problems
		}
	}
	return r
}

// Target is the host that a change is for, as the newest release declares it.
type Target struct {
	Host     string
	Declared bool
	// Delegation is what its declaration leaves to the server.
	Delegation *fleet.Delegation
	// Bundle is what its bundle declares of containers, or nil, and BundleDigest
	// names that bundle.
	Bundle       *spec.Set
	BundleDigest digest.Digest
}

// Change is who changes something, why and when. Owner is for whom; empty is the operators.
type Change struct {
	Actor, Reason string
	Owner         spec.Owner
	Now           clock.Instant
}

// Input is one resource as it is to be.
type Input struct {
	Kind, Name string
	Spec       json.RawMessage
	NotAfter   clock.Instant
	// StopFrom is from when the host may stop it, so that it is gone by NotAfter; zero leaves
	// StopLead for that.
	StopFrom clock.Instant
	Envelope json.RawMessage
	// Version is that of the entry which the change was made on, as it was read; zero is whichever there is.
	Version uint64
	// Create refuses a resource that is in the layer already.
	Create bool
}

// StopLead is how long before its end the host may begin to stop a resource, at most half of the
// time that it has.
const StopLead = 2 * clock.Minute

// stopFrom is that of the input, or what is left to the server.
func (in *Input) stopFrom(now clock.Instant) clock.Instant {
	if in.NotAfter == 0 || in.StopFrom != 0 {
		return min(in.StopFrom, in.NotAfter)
	}
	return in.NotAfter.Add(-min(StopLead, in.NotAfter.Sub(now)/2))
}

// madeOn refuses a change that was made on another entry than the present one.
func (in *Input) madeOn(host string, had Entry, there bool) error {
	switch id := ID(in.Kind, in.Name); {
	case in.Create && there:
		return refuse(Superseded, "%s is on host %s already, set by %s: change that one, or give another name", id, host, had.Actor)
	case in.Version != 0 && !there:
		return refuse(Superseded, "%s was removed from host %s after you read it: nothing was set", id, host)
	case in.Version != 0 && in.Version != had.Version:
		return refuse(Superseded, "%s on host %s was changed by %s after you read it: read it again, and make your change on that", id, host, had.Actor)
	}
	return nil
}

// verbs says which kinds take a verb.
func verbs() map[string][]string {
	out := map[string][]string{}
	for _, k := range spec.Known.All() {
		for _, v := range k.VerbNames() {
			out[v] = append(out[v], k.Name)
		}
	}
	return out
}

// Verbs lists the verbs of all kinds in order.
func Verbs() []string { return slices.Sorted(maps.Keys(verbs())) }

// Removals of more than MassPercent of a layer, and of more than one entry,
// within AtOnce need consent.
const (
	AtOnce      = 1 * clock.Minute
	MassPercent = 20
)

// Manages refuses a kind that the host does not leave to the server, and says
// what would change that.
func (t *Target) Manages(kind string) error {
	if !t.Declared {
		return refuse(UnknownHost, "host %s is not declared in the newest release", t.Host)
	}
	if spec.Known.Kind(kind) == nil {
		return refuse(Invalid, "unknown kind %q: expected one of %s", kind, strings.Join(spec.Known.Names(), ", "))
	}
	if err := t.Delegation.RequireKind(t.Host, kind); err != nil {
		return refuse(NotDelegated, "%v", err)
	}
	return nil
}

// Allows refuses what the host does not allow the server, and says what would
// change that.
func (t *Target) Allows(what string) error {
	if !t.Declared {
		return refuse(UnknownHost, "host %s is not declared in the newest release", t.Host)
	}
	if err := t.Delegation.RequireAllowance(t.Host, what); err != nil {
		return refuse(NotDelegated, "%v", err)
	}
	return nil
}

// AcceptsSessions refuses what is of sessions where the host lets none in.
func (t *Target) AcceptsSessions() error {
	if !t.Declared {
		return refuse(UnknownHost, "host %s is not declared in the newest release", t.Host)
	}
	b := spec.Bounds{}
	if t.Delegation != nil {
		b = t.Delegation.Bounds
	}
	if err := b.CheckOwner(spec.SessionOwner("any")); err != nil {
		return refuse(NotDelegated, "host %s takes no sessions: expected \"owners: [session]\" in hosts.%s.bounds of fleet.yaml, without requireSigned", t.Host, t.Host)
	}
	return nil
}

// Check reads a resource that is to be set for an owner and refuses what the host would
// refuse: it decides nothing. The spec comes back in canonical form.
func Check(t *Target, in Input, owner spec.Owner) (json.RawMessage, error) {
	if err := t.Manages(in.Kind); err != nil {
		return nil, err
	}
	if err := t.Delegation.Bounds.CheckOwner(owner); err != nil {
		return nil, t.outside(in, err)
	}
	if err := fleet.CheckName(in.Name); err != nil {
		return nil, refuse(Invalid, "%v", err)
	}
	set, value, err := spec.Known.Read(in.Kind, in.Name, in.Spec)
	if err != nil {
		return nil, refuse(Invalid, "%s: %v", ID(in.Kind, in.Name), err)
	}
	if t.Bundle.Has(spec.ID{Kind: in.Kind, Name: in.Name}) {
		return nil, refuse(Clash, "%s is declared by the bundle of host %s; choose another name, or change the bundle and release it", ID(in.Kind, in.Name), t.Host)
	}
	if problems := owner.CheckSet(set); len(problems) > 0 {
		return nil, refuse(OutOfBounds, "%s: %v", ID(in.Kind, in.Name), spec.Problems(problems))
	}
	return value, t.bounds(in, set)
}

// Set decides that a resource of the layer is as in says. Setting it again as it
// is decides nothing.
func Set(s *State, t *Target, in Input, c Change) ([]event.Event, error) {
	value, err := Check(t, in, c.Owner)
	if err == nil {
		err = s.Owned(t.Host, in.Kind, in.Name, c.Owner)
	}
	if err != nil {
		return nil, err
	}
	if in.NotAfter != 0 && in.NotAfter.Reached(c.Now) {
		return nil, refuse(Invalid, "%s: notAfter is %s, which is over", ID(in.Kind, in.Name), in.NotAfter)
	}
	h := s.Hosts[t.Host]
	old, known := h.entry(in.Kind, in.Name)
	if err := in.madeOn(t.Host, old, known); err != nil {
		return nil, err
	}
	if h != nil {
		if known && string(old.Spec) == string(value) && old.NotAfter == in.NotAfter && (in.StopFrom == 0 || old.StopFrom == in.StopFrom) && string(old.Envelope) == string(in.Envelope) {
			return nil, nil
		}
		if !known && len(h.Entries) >= MaxEntries {
			return nil, refuse(Full, "the managed layer of host %s has %d resources; remove some, or declare them in a bundle", t.Host, len(h.Entries))
		}
		if err := t.room(h, in); err != nil {
			return nil, err
		}
		size := len(value) + len(in.Envelope) - len(old.Spec) - len(old.Envelope)
		for _, e := range h.Entries { // order-free: it only sums
			size += len(e.Spec) + len(e.Envelope)
		}
		if size > MaxLayer {
			return nil, refuse(Full, "the managed layer of host %s would have %d bytes: expected at most %d", t.Host, size, MaxLayer)
		}
	}
	return []event.Event{event.ManagedSet{Kind: in.Kind, Name: in.Name, Spec: value, NotAfter: in.NotAfter, StopFrom: in.stopFrom(c.Now),
		Envelope: in.Envelope, Owner: c.Owner, Actor: c.Actor, Reason: c.Reason}}, nil
}

// Remove decides that a resource leaves the layer. It needs no delegation: what
// a host no longer leaves to the server may go.
func Remove(s *State, t *Target, kind, name string, allowMass bool, c Change) ([]event.Event, error) {
	h := s.Hosts[t.Host]
	if _, there := h.entry(kind, name); !there {
		return nil, t.missing(kind, name)
	}
	if err := s.Owned(t.Host, kind, name, c.Owner); err != nil {
		return nil, err
	}
	if c.Owner == spec.Operators && !allowMass {
		if err := h.mass(t.Host, c.Now); err != nil {
			return nil, err
		}
	}
	return []event.Event{event.ManagedRemoved{Kind: kind, Name: name, Actor: c.Actor, Reason: c.Reason}}, nil
}

func (t *Target) missing(kind, name string) error {
	if t.Bundle.Has(spec.ID{Kind: kind, Name: name}) {
		return refuse(Clash, "%s of host %s is declared by its bundle, not by the managed layer; change the bundle and release it", ID(kind, name), t.Host)
	}
	return refuse(Missing, "the managed layer of host %s has no %s", t.Host, ID(kind, name))
}

// RequestVerb decides to ask once for something of a resource, of the layer or of the
// bundle, which operators alone ask. Nonce is unique. What a bundle says to run or not
// only a release changes.
func RequestVerb(s *State, t *Target, kind, name, verb, nonce string, c Change) ([]event.Event, error) {
	if err := t.Manages(kind); err != nil {
		return nil, err
	}
	kinds, known := verbs()[verb]
	if !known {
		return nil, refuse(Invalid, "unknown verb %q: expected one of %s", verb, strings.Join(slices.Sorted(maps.Keys(verbs())), ", "))
	}
	if !slices.Contains(kinds, kind) {
		return nil, refuse(Invalid, "%s is not for resources of kind %s: expected %s", verb, kind, strings.Join(kinds, " or "))
	}
	ask := event.ManagedRequested{Kind: kind, Name: name, Verb: verb, Nonce: nonce, Actor: c.Actor, Reason: c.Reason}
	e, there := s.Hosts[t.Host].entry(kind, name)
	runs := verb == spec.VerbStart || verb == spec.VerbStop
	if !there && (runs || c.Owner != spec.Operators || !t.Bundle.Has(spec.ID{Kind: kind, Name: name})) {
		return nil, t.missing(kind, name)
	}
	if err := s.Owned(t.Host, kind, name, c.Owner); err != nil {
		return nil, err
	}
	if !runs {
		return []event.Event{ask}, nil
	}
	in := Input{Kind: kind, Name: name, NotAfter: e.NotAfter, StopFrom: e.StopFrom}
	if len(e.Envelope) > 0 {
		return nil, refuse(OutOfBounds, "%s of host %s is signed; sign and set it again with state %s", ID(kind, name), t.Host, runState(verb))
	}
	set, _, err := spec.Known.Read(kind, name, e.Spec)
	if err != nil {
		return nil, refuse(Invalid, "%s of host %s: %v", ID(kind, name), t.Host, err)
	}
	set.Workspaces[0].State = runState(verb)
	if in.Spec, err = json.Marshal(&set.Workspaces[0]); err != nil {
		return nil, err
	}
	events, err := Set(s, t, in, c)
	if err != nil {
		return nil, err
	}
	return append(events, ask), nil
}

func runState(verb string) spec.RunState {
	if verb == spec.VerbStop {
		return spec.Stopped
	}
	return spec.Running
}

// Tune decides a host's settings. What enables and disables the host needs one
// allowance, the rest another.
func Tune(s *State, t *Target, to fleet.Settings, c Change) ([]event.Event, error) {
	if !t.Declared {
		return nil, refuse(UnknownHost, "host %s is not declared in the newest release", t.Host)
	}
	if err := to.Check(); err != nil {
		return nil, refuse(Invalid, "%v", err)
	}
	now := s.SettingsOf(t.Host)
	rest, disabled := now.OnlyEnabled(&to), now.Disabled() == to.Disabled()
	if rest && disabled {
		return nil, nil
	}
	if !disabled {
		if err := t.Allows(fleet.AllowDisable); err != nil {
			return nil, err
		}
	}
	if !rest {
		if err := t.Allows(fleet.AllowSettings); err != nil {
			return nil, err
		}
	}
	return []event.Event{event.HostTuned{Settings: to, Actor: c.Actor, Reason: c.Reason}}, nil
}

// SettingsOf returns the settings of a host.
func (s *State) SettingsOf(host string) fleet.Settings {
	if h := s.Hosts[host]; h != nil {
		return h.Settings
	}
	return fleet.Settings{}
}
