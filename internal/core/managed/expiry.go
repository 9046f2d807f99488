package managed

import (
	"maps"
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
)

// expiryActor is who removes what has ended.
const expiryActor = "server"

// Expired is a resource that has to leave the layer of a host, since its time is over.
type Expired struct {
	Host  string
	Event event.ManagedRemoved
}

// Due is when the next resource ends; zero is never.
func (s *State) Due() clock.Instant { return s.due }

// Next lists what has ended, in order. Hosts end it by themselves, also cut off; here
// it leaves the layer, so that nobody takes it for wanted.
func (s *State) Next(now clock.Instant) []Expired {
	if !s.due.Reached(now) {
		return nil
	}
	var out []Expired
	for _, host := range slices.Sorted(maps.Keys(s.Hosts)) {
		h := s.Hosts[host]
		for _, id := range slices.Sorted(maps.Keys(h.Entries)) {
			if e := h.Entries[id]; e.NotAfter.Reached(now) {
				out = append(out, Expired{host, event.ManagedRemoved{Kind: e.Kind, Name: e.Name, Actor: expiryActor,
					Reason: "it was to end at " + e.NotAfter.String(), Expired: true}})
			}
		}
	}
	s.findDue(now)
	return out
}

// findDue finds when the next resource ends that has not ended by now.
func (s *State) findDue(now clock.Instant) {
	s.due = 0
	for _, h := range s.Hosts { // order-free: the earliest of all
		for _, e := range h.Entries { // order-free: the earliest of all
			if e.NotAfter > now {
				s.due = clock.Earliest(s.due, e.NotAfter)
			}
		}
	}
}
