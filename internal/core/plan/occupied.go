package plan

import (
	"cmp"
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/managed"
)

// Occupant is whose an entry of a managed layer is, and when it ends; zero is never.
type Occupant struct {
	Session string        `json:"session"`
	Until   clock.Instant `json:"until,omitempty"`
}

// foldOccupied follows the entries of sessions in a host's managed layer.
func (s *State) foldOccupied(name string, ev event.Event) {
	switch ev := ev.(type) {
	case event.ManagedSet:
		if session := ev.Owner.Session(); session != "" {
			s.occupy(s.host(name), managed.ID(ev.Kind, ev.Name), Occupant{Session: session, Until: ev.NotAfter})
			return
		}
		s.vacate(s.Hosts[name], managed.ID(ev.Kind, ev.Name))
	case event.ManagedRemoved:
		s.vacate(s.Hosts[name], managed.ID(ev.Kind, ev.Name))
	}
}

func (s *State) occupy(h *Host, id string, o Occupant) {
	if h.Occupied == nil {
		h.Occupied = map[string]Occupant{}
	}
	h.Occupied[id] = o
	s.wake(o.Until, h.Name)
	s.markOccupied(h)
}

func (s *State) vacate(h *Host, id string) {
	if h == nil {
		return
	}
	if _, there := h.Occupied[id]; !there {
		return
	}
	if delete(h.Occupied, id); len(h.Occupied) == 0 {
		h.Occupied = nil
	}
	s.markOccupied(h)
}

// markOccupied has planned again whom the entries of a host's layer may keep back: the host, and
// what its machine is called now.
func (s *State) markOccupied(h *Host) {
	s.repairsDirty = true
	s.markHost(h)
	for _, name := range s.enrolledWith(h.EventKey) {
		s.markHost(s.Hosts[name])
	}
}

// outstays reports whether the end of a session's entry in the host's layer has come.
func (h *Host) outstays(now clock.Instant) bool {
	for _, o := range h.Occupied { // order-free: any one will do
		if o.Until.Reached(now) {
			return true
		}
	}
	return false
}

// Occupied says which sessions keep updates, repairs and reboots from a host; nil when none does.
func Occupied(s *State, name string, now clock.Instant) *gate.Block {
	h := s.Hosts[name]
	if h == nil {
		return nil
	}
	return gate.CheckOccupied(&facts{s: s, h: h, now: now, i: -1}, true)
}

// leftAt is when time ends the last session on a host; zero where it does not, or there is none.
func (s *State) leftAt(h *Host, now clock.Instant) clock.Instant {
	if b := Occupied(s, h.Name, now); b != nil {
		return b.Earliest
	}
	return 0
}

// Sessions are those that have something on the host's machine, by name, each with the latest end
// of what it has: also what it was given under an earlier name, which runs on.
func (f *facts) Sessions() (string, []gate.Occupant, clock.Instant) {
	h, out := f.h, f.sessions[:0]
	out = h.occupants(out)
	for i := range h.Former {
		if was := &h.Former[i]; f.s.Hosts[was.Name] != nil && f.s.Hosts[was.Name].Incarnation == was.Incarnation {
			out = f.s.Hosts[was.Name].occupants(out)
		}
	}
	f.sessions = out
	if len(out) > 1 {
		slices.SortFunc(out, func(a, b gate.Occupant) int { return cmp.Compare(a.Session, b.Session) })
	}
	return h.Name, out, f.now
}

// occupants adds the sessions of a host's layer that are not there yet.
func (h *Host) occupants(out []gate.Occupant) []gate.Occupant {
	for _, o := range h.Occupied { // order-free: the latest end of each, sorted by who asked
		i := slices.IndexFunc(out, func(was gate.Occupant) bool { return was.Session == o.Session })
		switch {
		case i < 0:
			out = append(out, gate.Occupant{Session: o.Session, Until: o.Until})
		case out[i].Until != 0 && (o.Until == 0 || o.Until > out[i].Until):
			out[i].Until = o.Until
		}
	}
	return out
}
