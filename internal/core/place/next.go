package place

import (
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/prose"
)

// Next is when a request finds room, and what would make it sooner.
type Next struct {
	// Decision is for the earliest slot of the same length; it has no host where none
	// begins by the horizon.
	Decision Decision `json:"decision"`
	// FreedBy would free the slot that was asked for; nil when that is free, or when no end
	// of reservations frees it.
	FreedBy *Freed `json:"freedBy,omitempty"`
}

// Freed names the owners whose reservations of a host would have to end.
type Freed struct {
	Host   string   `json:"host"`
	Owners []string `json:"owners"`
	// Until is when the last of them ends by itself.
	Until clock.Instant `json:"until"`
}

// NextSlot finds the earliest slot, which is the one asked for or a later one that begins by
// the horizon, on the hosts that can run the pod now. A slot that has room has it as early
// as the last end of a reservation before it, so that only those ends need be tried.
//
// FreedBy is the smallest set that does, one owner if one suffices, and of equals the one
// that ends first. Where more than 20,000 sets would have to be tried it is one of
// which none can be left out.
func NextSlot(req Request, hosts []Host, reservations []Reservation, horizon clock.Instant) Next {
	c := NewCalendar(hosts, reservations)
	next := Next{Decision: c.Place(req)}
	if next.Decision.Placed() || req.Validate() != nil {
		return next
	}
	next.FreedBy = c.FreedBy(req)
	if from, found := c.Earliest(req, horizon); found {
		later := req
		later.Slot = req.Slot.at(from)
		next.Decision = c.Place(later)
	} else {
		next.Decision.Message += ", and no slot that begins by " + prose.Date(horizon) + " is free"
	}
	return next
}

// Earliest is when the first host has room by the horizon for a request that none has room for in its own slot.
func (c *Calendar) Earliest(req Request, horizon clock.Instant) (first clock.Instant, found bool) {
	b := c.read()
	for i := range b.hosts {
		h := &b.hosts[i]
		if refusing(hostFilters, &req, h.Host) != nil || !b.fits(&hostBook{Host: h.Host}, &req, req.Slot) {
			continue
		}
		starts := h.ends(req.Slot.From, horizon)
		slices.Sort(starts)
		for _, from := range starts {
			if found && from >= first {
				break
			}
			if b.fits(h, &req, req.Slot.at(from)) {
				first, found = from, true
			}
		}
	}
	return first, found
}

// ends are when reservations of the host end after an instant, up to the horizon.
func (h *hostBook) ends(after, horizon clock.Instant) (at []clock.Instant) {
	for _, r := range h.reserved {
		if r.Slot.To > after && r.Slot.To <= horizon {
			at = append(at, r.Slot.To)
		}
	}
	return at
}

// Unchanged is until when a calendar without room in a slot has none in what is left of it: until the first
// end of a reservation after its start, or the end of the slot.
func (c *Calendar) Unchanged(slot Slot) clock.Instant {
	at := slot.To
	for i := range c.hosts {
		for _, r := range c.hosts[i].reserved {
			if r.Slot.To > slot.From {
				at = min(at, r.Slot.To)
			}
		}
	}
	return at
}

// fits reports whether a host has room for a request in a slot.
func (b *book) fits(h *hostBook, req *Request, slot Slot) bool {
	return refusing(slotFilters, req, b.candidate(h, req, slot)) == nil
}
