// Package managed folds what the server may hold of a host without a release:
// the managed layer, the settings, and where the host's container resources
// stand. It decides what an operator may change of them, inside what the host's
// signed declaration delegates; the host checks the same again.
package managed

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
)

// State is the fold over the log, by host name.
type State struct {
	Hosts map[string]*Host `json:"hosts"`
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
	return s
}

// Host is what is kept of one host. Version counts changes of the layer, Tuned
// those of the settings.
type Host struct {
	Version  uint64              `json:"version"`
	Tuned    uint64              `json:"tuned"`
	Settings fleet.Settings      `json:"settings"`
	Entries  map[string]Entry    `json:"entries,omitempty"`   // by kind/name
	Asks     map[string]Ask      `json:"asks,omitempty"`      // the last of each resource
	Status   map[string]Resource `json:"resources,omitempty"` // as last reported
	// Dropped counts reports of more resources than are kept.
	Dropped int     `json:"dropped,omitempty"`
	Removed Removed `json:"removed"`
}

func (h *Host) init() {
	if h.Entries == nil {
		h.Entries = map[string]Entry{}
	}
	if h.Asks == nil {
		h.Asks = map[string]Ask{}
	}
	if h.Status == nil {
		h.Status = map[string]Resource{}
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
	Envelope json.RawMessage `json:"envelope,omitempty"`
	Actor    string          `json:"actor"`
	Reason   string          `json:"reason"`
	At       clock.Instant   `json:"at"`
	Version  uint64          `json:"version,omitempty"` // of the layer, that set it
}

// Ask is something asked for once, of the layer's resource or of the bundle's.
type Ask struct {
	Kind    string        `json:"kind"`
	Name    string        `json:"name"`
	Verb    string        `json:"verb"`
	Nonce   string        `json:"nonce"`
	Actor   string        `json:"actor"`
	At      clock.Instant `json:"at"`
	Version uint64        `json:"version,omitempty"` // of the layer, that asked
}

// Resource is where one container resource stands, as its host reported it.
type Resource struct {
	State       string            `json:"state"`
	Detail      string            `json:"detail,omitempty"`
	Layer       string            `json:"layer"`
	Generation  string            `json:"generation,omitempty"`
	Version     uint64            `json:"version,omitempty"` // see event.ResourceReported
	Since       clock.Instant     `json:"since"`             // of the state, on the host's clock
	Differences []diff.Difference `json:"differences,omitempty"`
}

// Removed counts what left the layer since an instant, of so many entries.
type Removed struct {
	Since clock.Instant `json:"since,omitempty"`
	Of    int           `json:"of,omitempty"`
	Count int           `json:"count,omitempty"`
}

// Bounds of what is kept of one host.
const (
	MaxEntries   = 500
	MaxSpec      = 64 << 10 // bytes of one
	MaxLayer     = 2 << 20  // bytes of all specs and envelopes
	MaxAsks      = 500
	MaxResources = 2000
	maxDetail    = 2 << 10
	maxValue     = 512 // bytes of one side of a difference
)

// removedTerminal is the state of a resource that is gone for good.
const removedTerminal = "Removed"

// Folds reports whether an event of a type changes the state.
func Folds(eventType string) bool {
	switch eventType {
	case event.ManagedSet{}.EventType(), event.ManagedRemoved{}.EventType(), event.ManagedAsked{}.EventType(),
		event.HostTuned{}.EventType(), event.ResourceReported{}.EventType(), event.HostEnrolled{}.EventType():
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
		s.foldSet(s.host(e.Host), e.At, ev)
	case event.ManagedRemoved:
		foldRemoved(s.host(e.Host), e.At, ev)
	case event.ManagedAsked:
		foldAsked(s.host(e.Host), e.At, ev)
	case event.HostTuned:
		h := s.host(e.Host)
		h.Tuned++
		h.Settings = ev.Settings
	case event.ResourceReported:
		foldReported(s.host(e.Host), e.At, ev)
	case event.HostEnrolled:
		if h := s.Hosts[e.Host]; h != nil { // it reports everything once more
			h.Status, h.Dropped = map[string]Resource{}, 0
		}
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
	id := ID(ev.Kind, ev.Name)
	h.Entries[id] = Entry{Kind: ev.Kind, Name: ev.Name, Spec: ev.Spec, NotAfter: ev.NotAfter, Envelope: ev.Envelope,
		Actor: ev.Actor, Reason: ev.Reason, At: at, Version: h.Version}
	if v := h.Asks[id].Verb; v == Start || v == Stop { // the spec says it now
		delete(h.Asks, id)
	}
}

func foldRemoved(h *Host, at clock.Instant, ev event.ManagedRemoved) {
	h.Version++
	if r := &h.Removed; r.Since == 0 || r.Since.Add(AtOnce).Reached(at) {
		*r = Removed{Since: at, Of: len(h.Entries)}
	}
	h.Removed.Count++
	id := ID(ev.Kind, ev.Name)
	delete(h.Entries, id)
	delete(h.Asks, id)
}

func foldAsked(h *Host, at clock.Instant, ev event.ManagedAsked) {
	h.Version++
	id := ID(ev.Kind, ev.Name)
	if _, again := h.Asks[id]; !again && len(h.Asks) >= MaxAsks {
		oldest := ""
		for _, k := range sortedKeys(h.Asks) {
			if oldest == "" || h.Asks[k].At < h.Asks[oldest].At {
				oldest = k
			}
		}
		delete(h.Asks, oldest)
	}
	h.Asks[id] = Ask{Kind: ev.Kind, Name: ev.Name, Verb: ev.Verb, Nonce: ev.Nonce, Actor: ev.Actor, At: at, Version: h.Version}
}

func foldReported(h *Host, at clock.Instant, ev event.ResourceReported) {
	if ev.State == removedTerminal {
		delete(h.Status, ev.Resource)
		return
	}
	old, known := h.Status[ev.Resource]
	if !known && len(h.Status) >= MaxResources || len(ev.Resource) > maxValue {
		h.Dropped++
		return
	}
	r := Resource{State: cut(ev.State, 64), Detail: cut(ev.Detail, maxDetail), Layer: cut(ev.Layer, 64),
		Generation: cut(ev.Generation, 128), Version: ev.Version, Since: at}
	if known && old.State == r.State {
		r.Since = old.Since
	}
	for _, d := range ev.Differences[:min(len(ev.Differences), event.MaxDifferences)] {
		d.Field, d.Desired, d.Observed, d.Why = cut(d.Field, maxValue), cut(d.Desired, maxValue), cut(d.Observed, maxValue), cut(d.Why, maxValue)
		r.Differences = append(r.Differences, d)
	}
	h.Status[ev.Resource] = r
}

// cut bounds a string without splitting a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}

// Item is one resource of a host's layer as the host gets it.
type Item struct {
	Entry
	Verb, Nonce string
	Asked       uint64 // version of the layer that asked for Verb
}

// Changed is the version of the layer that last set a resource or asked for
// something of it; 0 if none did.
func (h *Host) Changed(kind, name string) uint64 {
	if h == nil {
		return 0
	}
	id := ID(kind, name)
	return max(h.Entries[id].Version, h.Asks[id].Version)
}

// Items lists the layer by kind and name, and what was asked of resources that
// are not in it.
func (h *Host) Items() []Item {
	if h == nil {
		return nil
	}
	items := make([]Item, 0, len(h.Entries)+len(h.Asks))
	for _, id := range sortedKeys(h.Entries) {
		a := h.Asks[id]
		items = append(items, Item{Entry: h.Entries[id], Verb: a.Verb, Nonce: a.Nonce, Asked: a.Version})
	}
	for _, id := range sortedKeys(h.Asks) {
		if _, in := h.Entries[id]; !in {
			a := h.Asks[id]
			items = append(items, Item{Entry: Entry{Kind: a.Kind, Name: a.Name, Actor: a.Actor, At: a.At}, Verb: a.Verb, Nonce: a.Nonce, Asked: a.Version})
		}
	}
	slices.SortFunc(items, func(a, b Item) int { return strings.Compare(ID(a.Kind, a.Name), ID(b.Kind, b.Name)) })
	return items
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
