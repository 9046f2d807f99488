// Package managed folds what the server may hold of a host without a release: the
// managed layer and the settings. It decides what an operator may change of them,
// inside what the host's signed declaration delegates; the host checks the same
// again.
package managed

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/spec"
)

// State is the fold over the log, by host name.
type State struct {
	Hosts map[string]*Host `json:"hosts"`

	due clock.Instant // when the next resource ends, at the earliest
}

// New returns the state before the first event.
func New() *State { return &State{Hosts: map[string]*Host{}} }

// Restore completes a state that was decoded from a snapshot; nil is one from
// before there was a managed layer.
func Restore(s *State) *State {
	if s == nil || s.Hosts == nil {
		return New()
	}
	for _, h := range s.Hosts { // order-free: an empty map was left out
		h.init()
	}
	s.findDue(0)
	return s
}

// Host is what is kept of one host. Version counts changes of the layer, Tuned
// those of the settings.
type Host struct {
	Version  uint64             `json:"version"`
	Tuned    uint64             `json:"tuned"`
	Settings fleet.Settings     `json:"settings"`
	Entries  map[string]Entry   `json:"entries,omitempty"`  // by kind/name
	Requests map[string]Request `json:"requests,omitempty"` // the last of each resource
	Retries  []Retry            `json:"retries,omitempty"`
	Removed  Removed            `json:"removed"`
}

func (h *Host) init() {
	if h.Entries == nil {
		h.Entries = map[string]Entry{}
	}
	if h.Requests == nil {
		h.Requests = map[string]Request{}
	}
}

// News changes with everything that a host has to fetch.
func (h *Host) News() uint64 {
	if h == nil {
		return 0
	}
	return h.Version + h.Tuned
}

// Entry is one resource of the layer.
type Entry struct {
	Kind     string          `json:"kind"`
	Name     string          `json:"name"`
	Spec     json.RawMessage `json:"spec"`
	NotAfter clock.Instant   `json:"notAfter,omitempty"`
	StopFrom clock.Instant   `json:"stopFrom,omitempty"`
	Envelope json.RawMessage `json:"envelope,omitempty"`
	Owner    spec.Owner      `json:"owner,omitempty"`
	Actor    string          `json:"actor"`
	Reason   string          `json:"reason"`
	At       clock.Instant   `json:"at"`
	Version  uint64          `json:"version,omitempty"` // of the layer, that set it
}

// Request is something asked for once, of the layer's resource or of the bundle's.
type Request struct {
	Kind    string        `json:"kind"`
	Name    string        `json:"name"`
	Verb    string        `json:"verb"`
	Nonce   string        `json:"nonce"`
	Actor   string        `json:"actor"`
	At      clock.Instant `json:"at"`
	Version uint64        `json:"version,omitempty"` // of the layer, that asked
}

// Removed counts the operators' entries that left the layer since an instant, of so many
// of theirs.
type Removed struct {
	Since clock.Instant `json:"since,omitempty"`
	Of    int           `json:"of,omitempty"`
	Count int           `json:"count,omitempty"`
}

// Bounds of what is kept of one host.
const (
	MaxEntries  = 500
	MaxLayer    = 2 << 20 // bytes of all specs and envelopes
	MaxRequests = 500
)

// Folds reports whether an event of a type changes the state.
func Folds(eventType string) bool {
	switch eventType {
	case event.ManagedSet{}.EventType(), event.ManagedRemoved{}.EventType(), event.ManagedRequested{}.EventType(),
		event.HostTuned{}.EventType(), event.HostRetried{}.EventType():
		return true
	}
	return false
}

// Apply folds one entry of the log; what does not concern it changes nothing.
func (s *State) Apply(e event.Entry) error {
	if !Folds(e.Type) {
		return nil
	}
	ev, err := event.Decode(e)
	if err != nil {
		return err
	}
	switch ev := ev.(type) {
	case event.ManagedSet:
		s.foldSet(s.host(e.Host()), e.At, ev)
	case event.ManagedRemoved:
		foldRemoved(s.host(e.Host()), e.At, ev)
	case event.ManagedRequested:
		foldAsked(s.host(e.Host()), e.At, ev)
	case event.HostTuned:
		h := s.host(e.Host())
		h.Tuned++
		h.Settings = ev.Settings
	case event.HostRetried:
		foldRetried(s.host(e.Host()), e.At, ev)
	}
	return nil
}

func (s *State) host(name string) *Host {
	h := s.Hosts[name]
	if h == nil {
		h = &Host{}
		h.init()
		s.Hosts[name] = h
	}
	return h
}

// ID is how a resource is named: kind/name.
func ID(kind, name string) string { return kind + "/" + name }

func (s *State) foldSet(h *Host, at clock.Instant, ev event.ManagedSet) {
	h.Version++
	s.due = clock.Earliest(s.due, ev.NotAfter)
	id := ID(ev.Kind, ev.Name)
	h.Entries[id] = Entry{Kind: ev.Kind, Name: ev.Name, Spec: ev.Spec, NotAfter: ev.NotAfter, StopFrom: ev.StopFrom, Envelope: ev.Envelope,
		Owner: ev.Owner, Actor: ev.Actor, Reason: ev.Reason, At: at, Version: h.Version}
	if v := h.Requests[id].Verb; v == spec.VerbStart || v == spec.VerbStop { // the spec says it now
		delete(h.Requests, id)
	}
}

func foldRemoved(h *Host, at clock.Instant, ev event.ManagedRemoved) {
	h.Version++
	id := ID(ev.Kind, ev.Name)
	defer func() {
		delete(h.Entries, id)
		delete(h.Requests, id)
	}()
	if ev.Expired { // somebody asked for that when it was set
		return
	}
	if h.Entries[id].Owner != spec.Operators {
		return
	}
	if r := &h.Removed; r.Since == 0 || r.Since.Add(AtOnce).Reached(at) {
		*r = Removed{Since: at, Of: h.operated()}
	}
	h.Removed.Count++
}

func foldAsked(h *Host, at clock.Instant, ev event.ManagedRequested) {
	h.Version++
	id := ID(ev.Kind, ev.Name)
	if _, again := h.Requests[id]; !again && len(h.Requests) >= MaxRequests {
		oldest := ""
		for _, k := range slices.Sorted(maps.Keys(h.Requests)) {
			if oldest == "" || h.Requests[k].At < h.Requests[oldest].At {
				oldest = k
			}
		}
		delete(h.Requests, oldest)
	}
	h.Requests[id] = Request{Kind: ev.Kind, Name: ev.Name, Verb: ev.Verb, Nonce: ev.Nonce, Actor: ev.Actor, At: at, Version: h.Version}
}

// Item is one resource of a host's layer as the host gets it.
type Item struct {
	Entry
	Verb, Nonce string
	Requested   uint64 // version of the layer that asked for Verb
}

// Changed is the version of the layer that last set a resource or asked for
// something of it; 0 if none did.
func (h *Host) Changed(kind, name string) uint64 {
	if h == nil {
		return 0
	}
	id := ID(kind, name)
	return max(h.Entries[id].Version, h.Requests[id].Version)
}

// Items lists the layer by kind and name, and what was asked of resources that
// are not in it.
func (h *Host) Items() []Item {
	if h == nil {
		return nil
	}
	items := make([]Item, 0, len(h.Entries)+len(h.Requests))
	for _, id := range slices.Sorted(maps.Keys(h.Entries)) {
		a := h.Requests[id]
		items = append(items, Item{Entry: h.Entries[id], Verb: a.Verb, Nonce: a.Nonce, Requested: a.Version})
	}
	for _, id := range slices.Sorted(maps.Keys(h.Requests)) {
		if _, in := h.Entries[id]; !in {
			a := h.Requests[id]
			items = append(items, Item{Entry: Entry{Kind: a.Kind, Name: a.Name, Actor: a.Actor, At: a.At}, Verb: a.Verb, Nonce: a.Nonce, Requested: a.Version})
		}
	}
	slices.SortFunc(items, func(a, b Item) int { return strings.Compare(ID(a.Kind, a.Name), ID(b.Kind, b.Name)) })
	return items
}

// Digests lists the digests that stand in the layers of all hosts, whatever they name.
func (s *State) Digests() []digest.Digest {
	var out []digest.Digest
	for _, h := range s.Hosts { // order-free: sorted below
		for _, e := range h.Entries { // order-free: sorted below
			out = digest.AppendIn(out, e.Spec)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
