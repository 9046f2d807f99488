package plan

import (
	"cmp"
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
)

// Restore completes a state that was decoded from a snapshot.
func Restore(s *State, docs Documents) error {
	s.docs, s.dirty, s.line, s.openings = docs, map[string]bool{}, nil, map[string]clock.Instant{}
	for _, c := range s.Channels { // order-free: an empty map was left out
		if c.Quarantine == nil {
			c.Quarantine = map[digest.Digest]string{}
		}
	}
	s.index()
	for _, name := range s.HostNames() {
		h := s.Hosts[name]
		h.inFlight, h.idle = h.InFlight(), h.idles()
		s.lineUp(h)
	}
	slices.SortFunc(s.line, func(a, b waiting) int { return cmp.Compare(a.place, b.place) })
	for _, name := range s.ChannelNames() {
		for _, r := range s.live(s.Channels[name]) {
			if err := s.attach(r); err != nil {
				return err
			}
			if r.SoakedAt != 0 && r.Plan.Header.CanaryMax > 0 {
				s.wakeAt(timer{at: r.SoakedAt, channel: r.Channel})
			}
		}
	}
	s.rebudget()
	for _, name := range s.HostNames() {
		s.schedule(s.Hosts[name]) // deadlines come from the manifests
	}
	return nil
}

// schedule asks for a look at a host at every instant that it waits for.
func (s *State) schedule(h *Host) {
	if h.Grant != nil && !h.Grant.Claimed {
		s.wake(h.Grant.Expires, h.Name)
	}
	s.wake(h.NotBefore, h.Name)
	s.wake(h.frozenUntil(), h.Name)
	if h.Repair != nil {
		s.wake(h.Repair.NotBefore, h.Name)
	}
	if h.Ended != nil && !h.Ended.Freed {
		s.wake(h.Ended.SlotUntil, h.Name)
	}
	s.wakeGivenUp(h)
}
