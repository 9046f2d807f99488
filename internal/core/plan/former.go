package plan

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/gate"
)

// maxFormer bounds how many names of a machine are kept.
const maxFormer = 8

// FormerName is a name under which the machine of a host was enrolled before it was renamed.
type FormerName struct {
	Name        string        `json:"name"`
	Incarnation uint64        `json:"incarnation"` // its last one
	Until       clock.Instant `json:"until"`       // when the next name enrolled
}

// FormerNames are the names before this one, the newest first. The machine proves that it is
// the same by the key that signs its events: there are none before it reported one.
func (h *Host) FormerNames() []FormerName {
	if h.Seq == 0 {
		return nil
	}
	return h.Former
}

// Gone reports whether nothing runs under a name any more: the host is decommissioned, or its machine
// enrolled again under another name.
func (s *State) Gone(name string) bool {
	h := s.Hosts[name]
	if h == nil {
		return false
	}
	if h.IdentityStatus() == gate.Decommissioned {
		return true
	}
	for _, other := range s.enrolledWith(h.EventKey) {
		o := s.Hosts[other]
		if o != h && slices.ContainsFunc(o.FormerNames(), func(f FormerName) bool { return f.Name == name && f.Incarnation == h.Incarnation }) {
			return true
		}
	}
	return false
}

// formerOf is what a host that enrols was called before: what has its key under another name,
// or what this name's earlier incarnation was.
func (s *State) formerOf(at clock.Instant, h *Host, key []byte) []FormerName {
	was := s.sameKey(h.Name, key)
	if was == nil || was.Seq == 0 {
		return h.FormerNames()
	}
	list := append([]FormerName{{was.Name, was.Incarnation, at}}, was.FormerNames()...)
	return list[:min(len(list), maxFormer)]
}

// sameKey finds the host of another name that has a key, the last one that got a certificate,
// and notes that a host of this name has it.
func (s *State) sameKey(name string, key []byte) (was *Host) {
	if len(key) == 0 {
		return nil
	}
	names := s.enrolledWith(key)
	for _, other := range names {
		h := s.Hosts[other]
		if other == name || !bytes.Equal(h.EventKey, key) { // it enrolled again since, with another
			continue
		}
		if was == nil || cmp.Or(cmp.Compare(h.IssuedAt, was.IssuedAt), cmp.Compare(h.Name, was.Name)) > 0 {
			was = h
		}
	}
	if !slices.Contains(names, name) {
		s.keys[string(key)] = append(names, name)
	}
	return was
}

// enrolledWith lists who enrolled with a key, in no order. Hosts that never enrolled have none, and nothing in common.
func (s *State) enrolledWith(key []byte) []string {
	if len(key) == 0 {
		return nil
	}
	if s.keys == nil {
		s.keys = map[string][]string{}
		for _, h := range s.Hosts { // order-free: nobody reads an order from it
			s.keys[string(h.EventKey)] = append(s.keys[string(h.EventKey)], h.Name)
		}
	}
	return s.keys[string(key)]
}

// foldFacts keeps what a host is. A machine counts under one name: the one before has no facts
// any more, unless another machine took it.
func (s *State) foldFacts(h *Host, ev event.HostFacts) {
	h.Facts = &ev
	for _, was := range h.FormerNames() {
		if old := s.Hosts[was.Name]; old != nil && old != h && old.Incarnation == was.Incarnation {
			old.Facts = nil
		}
	}
}
