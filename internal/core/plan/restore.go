package plan

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"github.com/steadyfleet/steady/internal/core/digest"
)

// Restore reads a state from its JSON.
func Restore(raw []byte, docs Documents) (*State, error) {
	s := New(docs)
	if err := json.Unmarshal(raw, s); err != nil {
		return nil, err
	}
	return s, s.derive()
}

// Clone is a state as another server reads it: all that it derives is derived anew.
func Clone(s *State, docs Documents) (*State, error) {
	raw, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	return Restore(raw, docs)
}

// derive completes a state that was decoded.
func (s *State) derive() error {
	for _, c := range s.Channels { // order-free: an empty map was left out
		if c.Quarantine == nil {
			c.Quarantine = map[digest.Digest]string{}
		}
	}
	s.index()
	for _, name := range s.HostNames() {
		h := s.Hosts[name]
		h.inFlight, h.idle = h.InFlight(), h.idles()
		s.enqueueRepair(h)
	}
	slices.SortFunc(s.repairQueue, func(a, b repairRequest) int { return cmp.Compare(a.place, b.place) })
	for _, name := range s.ChannelNames() {
		for _, r := range s.live(s.Channels[name]) {
			if err := s.attach(r); err != nil {
				return err
			}
			if r.SoakedAt != 0 && r.CanaryMax() > 0 {
				s.wakeAt(r.SoakedAt, timer{channel: r.Channel})
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
	for _, id := range slices.Sorted(maps.Keys(h.Occupied)) {
		s.wake(h.Occupied[id].Until, h.Name)
	}
	if h.Repair != nil {
		s.wake(h.Repair.NotBefore, h.Name)
	}
	if h.Ended != nil && !h.Ended.Freed {
		s.wake(h.Ended.SlotUntil, h.Name)
	}
	s.wakeGivenUp(h)
}
