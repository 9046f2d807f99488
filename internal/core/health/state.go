// Package health folds what hosts report of their resources, and says from it how
// well a resource, a host and a group of hosts are. Everybody who shows or counts
// health asks here.
package health

import (
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// State is the fold over the log, by host name.
type State struct {
	Hosts map[string]*Host `json:"hosts"`

	touched map[string]struct{}      // hosts to look at
	due     map[string]clock.Instant // when time alone may change one
}

// New returns the state before the first event.
func New() *State { return &State{Hosts: map[string]*Host{}} }

// Restore completes a state that was decoded from a snapshot; nil is a new one.
func Restore(s *State) *State {
	if s == nil || s.Hosts == nil {
		return New()
	}
	for name, h := range s.Hosts { // order-free: each for itself
		if h.Resources == nil {
			h.Resources = map[string]Resource{}
		}
		if h.Unready == nil {
			h.Unready = map[string]Unready{}
		}
		s.touch(name)
	}
	return s
}

// Host is what one host has reported.
type Host struct {
	Resources map[string]Resource `json:"resources,omitempty"` // by kind/name
	// Unready are those that are not as they should be.
	Unready map[string]Unready `json:"unready,omitempty"`
	// Degraded is what was decided last; nil while the host is not.
	Degraded *event.HostDegraded `json:"degraded,omitempty"`
	// Size is about how many bytes Resources are.
	Size int `json:"size,omitempty"`
	// Dropped counts reports that were not kept, or not whole, for want of room.
	Dropped int `json:"dropped,omitempty"`
}

// Resource is the status of one resource, as its host reported it.
type Resource struct {
	Phase       engine.Phase      `json:"phase,omitempty"`
	State       string            `json:"state"`
	Reason      engine.Code       `json:"reason,omitempty"`
	Message     string            `json:"message,omitempty"`
	Attempts    int               `json:"attempts,omitempty"`
	NextAttempt clock.Instant     `json:"nextAttempt,omitempty"` // on the host's clock
	Layer       string            `json:"layer"`
	Version     uint64            `json:"version,omitempty"` // see event.ResourceReported
	Before      bool              `json:"before,omitempty"`  // its BrokenBefore
	Since       clock.Instant     `json:"since"`             // of the state, on the host's clock
	Differences []diff.Difference `json:"differences,omitempty"`
}

// Bounds of what is kept of one host.
const (
	MaxResources = 2000
	MaxSize      = 1 << 20
	maxMessage   = 2 << 10
	maxValue     = 512 // bytes of a name, and of one side of a difference
)

// Folds reports whether an event of a type changes what is kept or decided.
func Folds(eventType string) bool {
	switch eventType {
	case event.ResourceReported{}.EventType(), event.HostHead{}.EventType(), event.HostEnrolled{}.EventType(),
		event.HostDegraded{}.EventType(), event.HostRecovered{}.EventType(),
		event.HostSilent{}.EventType(), event.HostReturned{}.EventType():
		return true
	}
	return false
}

// Apply folds one entry of the log; what does not concern it changes nothing.
func (s *State) Apply(e event.Entry) error {
	if !Folds(e.Type) {
		return nil
	}
	s.touch(e.Host())
	switch e.Type {
	case event.HostHead{}.EventType(): // of a batch of reports: the first instant of the server
		s.Hosts[e.Host()].received(e.At)
		return nil
	case event.HostSilent{}.EventType(), event.HostReturned{}.EventType():
		return nil
	}
	ev, err := event.Decode(e)
	if err != nil {
		return err
	}
	switch ev := ev.(type) {
	case event.ResourceReported:
		s.host(e.Host()).report(e.At, ev)
	case event.HostEnrolled: // it reports everything once more
		delete(s.Hosts, e.Host())
	case event.HostDegraded:
		s.host(e.Host()).Degraded = &ev
	case event.HostRecovered:
		s.host(e.Host()).Degraded = nil
	}
	return nil
}

func (s *State) host(name string) *Host {
	h := s.Hosts[name]
	if h == nil {
		h = &Host{Resources: map[string]Resource{}, Unready: map[string]Unready{}}
		s.Hosts[name] = h
	}
	return h
}

// received dates what the batch that ends has told of.
func (h *Host) received(at clock.Instant) {
	if h == nil {
		return
	}
	for name, u := range h.Unready { // order-free: each for itself
		if u.Since == 0 {
			u.Since = at
			h.Unready[name] = u
		}
	}
}

// KindOf is the kind of a resource named kind/name.
func KindOf(resource string) string {
	kind, _, _ := strings.Cut(resource, "/")
	return kind
}

func (h *Host) report(at clock.Instant, ev event.ResourceReported) {
	old, known := h.Resources[ev.Resource]
	h.Size -= old.size(ev.Resource)
	delete(h.Resources, ev.Resource)
	if ev.State == string(spec.Removed) {
		delete(h.Unready, ev.Resource)
		return
	}
	if len(h.Resources) >= MaxResources || len(ev.Resource) > maxValue {
		h.Dropped++
		return
	}
	r := Resource{Phase: engine.Phase(cut(string(ev.Phase), 64)), State: cut(ev.State, 64), Reason: engine.Code(cut(string(ev.Reason), 64)),
		Message: cut(ev.Message, maxMessage), Attempts: ev.Attempts, NextAttempt: ev.NextAttempt, Layer: cut(ev.Layer, 64), Version: ev.Version, Before: ev.BrokenBefore, Since: at}
	if known && old.State == r.State {
		r.Since = old.Since
	}
	for _, d := range ev.Differences[:min(len(ev.Differences), event.MaxDifferences)] {
		d.Field, d.Desired, d.Observed, d.Why = cut(d.Field, maxValue), cut(d.Desired, maxValue), cut(d.Observed, maxValue), cut(d.Why, maxValue)
		r.Differences = append(r.Differences, d)
	}
	if h.Size+r.size(ev.Resource) > MaxSize { // the status itself always has room
		h.Dropped++
		r.Message, r.Differences = "", nil
	}
	h.Size += r.size(ev.Resource)
	h.Resources[ev.Resource] = r
	if r.stage().Good() {
		delete(h.Unready, ev.Resource)
		return
	}
	u := h.Unready[ev.Resource]
	u.Failed = u.Failed || r.stage().Broken()
	h.Unready[ev.Resource] = u
}

func (r *Resource) stage() spec.Stage { return spec.Stage{Phase: r.Phase, Code: r.Reason} }

// size is about how many bytes a resource takes beyond its bounded parts.
func (r *Resource) size(name string) int {
	if r.State == "" {
		return 0
	}
	n := len(name) + len(r.Message)
	for i := range r.Differences {
		d := &r.Differences[i]
		n += len(d.Field) + len(d.Desired) + len(d.Observed) + len(d.Why)
	}
	return n
}

// cut bounds a string without splitting a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}
