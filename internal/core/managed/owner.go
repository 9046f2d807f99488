package managed

import (
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/spec"
)

// Owned refuses that anybody but its owner changes or removes an entry of a host's layer, or
// asks something of it.
func (s *State) Owned(host, kind, name string, by spec.Owner) error {
	e, there := s.Hosts[host].entry(kind, name)
	switch {
	case !there, e.Owner == by:
		return nil
	case e.Owner == spec.Operators:
		return refuse(NotOwner, "%s of host %s belongs to operators, not to %s; choose another name, or have an operator remove it: steady remove %s %s",
			ID(kind, name), host, by, host, ID(kind, name))
	}
	return refuse(NotOwner, "%s of host %s belongs to %s, which alone changes or removes it; %s says what it is for",
		ID(kind, name), host, e.Owner, e.Owner.Show())
}

func (h *Host) entry(kind, name string) (e Entry, there bool) {
	if h != nil {
		e, there = h.Entries[ID(kind, name)]
	}
	return e, there
}

// operated counts the entries of operators.
func (h *Host) operated() int {
	n := 0
	for _, e := range h.Entries { // order-free: it only counts
		if e.Owner == spec.Operators {
			n++
		}
	}
	return n
}

// mass refuses that operators remove one entry more when that makes too many of theirs
// within AtOnce. Other owners end together with what they placed.
func (h *Host) mass(host string, now clock.Instant) error {
	count, of := 1, h.operated()
	if r := h.Removed; r.Since != 0 && !r.Since.Add(AtOnce).Reached(now) {
		count, of = r.Count+1, max(r.Of, of)
	}
	if count > 1 && count*100 > of*MassPercent {
		return refuse(MassRemoval, "%d of %d resources of the managed layer of host %s would be removed within %s: expected at most %d %% at once, or allowMassChange",
			count, of, host, AtOnce, MassPercent)
	}
	return nil
}
