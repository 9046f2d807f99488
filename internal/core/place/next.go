package place

import (
	"cmp"
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/prose"
)

// maxTrials bounds how many sets of owners NextSlot tries in search of the smallest.
const maxTrials = 20_000

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
	b := newBook(hosts, reservations)
	next := Next{Decision: b.place(&req)}
	if next.Decision.Placed() || req.Validate() != nil {
		return next
	}
	next.FreedBy = b.freedBy(&req)
	if from, found := b.earliest(&req, horizon); found {
		later := req
		later.Slot = req.Slot.at(from)
		next.Decision = b.place(&later)
	} else {
		next.Decision.Message += ", and no slot that begins by " + prose.Date(horizon) + " is free"
	}
	return next
}

// earliest is when the first host has room that has none in the slot asked for.
func (b *book) earliest(req *Request, horizon clock.Instant) (first clock.Instant, found bool) {
	for i := range b.hosts {
		h := &b.hosts[i]
		if refusing(hostFilters, req, h.Host) != nil {
			continue
		}
		var starts []clock.Instant
		for _, r := range h.reserved {
			if r.Slot.To > req.Slot.From && r.Slot.To <= horizon {
				starts = append(starts, r.Slot.To)
			}
		}
		slices.Sort(starts)
		for _, from := range starts {
			if found && from >= first {
				break
			}
			if refusing(slotFilters, req, b.candidate(h, req, req.Slot.at(from))) == nil {
				first, found = from, true
			}
		}
	}
	return first, found
}

// freedBy finds the smallest set of owners without whom a host has room.
func (b *book) freedBy(req *Request) (best *Freed) {
	var in []freeing
	most := 0
	for i := range b.hosts {
		h := &b.hosts[i]
		if refusing(hostFilters, req, h.Host) != nil {
			continue
		}
		f := freeing{book: b, req: req, host: *h, owners: h.ownersWithin(req.Slot)}
		if f.fits(f.owners) {
			in, most = append(in, f), max(most, len(f.owners))
		}
	}
	trials := maxTrials
	for size := 1; size <= most; size++ {
		for i := range in {
			best = in[i].smallest(size, best, &trials)
		}
		if best != nil {
			return best
		}
		if trials < 0 {
			break
		}
	}
	for i := range in {
		best = better(best, in[i].irreducible())
	}
	return best
}

// freeing tries what one host would have room for.
type freeing struct {
	*book
	req    *Request
	host   hostBook
	owners []string // of what overlaps the slot, those first that end first
}

// until is when the last reservation of an owner within the slot ends.
func (h *hostBook) until(owner string, slot Slot) (at clock.Instant) {
	for _, r := range h.reserved {
		if r.Owner == owner && r.Slot.Overlaps(slot) {
			at = max(at, r.Slot.To)
		}
	}
	return at
}

func (h *hostBook) ownersWithin(slot Slot) (owners []string) {
	for _, r := range h.reserved {
		if r.Slot.Overlaps(slot) {
			owners = append(owners, r.Owner)
		}
	}
	slices.Sort(owners)
	owners = slices.Compact(owners)
	slices.SortStableFunc(owners, func(a, b string) int { return cmp.Compare(h.until(a, slot), h.until(b, slot)) })
	return owners
}

// fits reports whether the host has room without the reservations of these owners.
func (f *freeing) fits(without []string) bool {
	h := hostBook{Host: f.host.Host}
	for _, r := range f.host.reserved {
		if r.Slot.Overlaps(f.req.Slot) && !slices.Contains(without, r.Owner) {
			h.reserved = append(h.reserved, r)
		}
	}
	return refusing(slotFilters, f.req, f.candidate(&h, f.req, f.req.Slot)) == nil
}

// smallest tries every set of a size, and returns the better of the best so far and what it finds.
// Sets come in the order of their ends, so that the first that does is the best of the host.
func (f *freeing) smallest(size int, best *Freed, trials *int) *Freed {
	if size > len(f.owners) {
		return best
	}
	// The last to end is chosen first: it is what sets are compared by.
	for last := size - 1; last < len(f.owners); last++ {
		set := make([]string, 0, size)
		if found := f.extend(set, 0, last, size-1, trials); found != nil {
			return better(best, f.freed(found))
		}
	}
	return best
}

// extend adds n owners from those in [from, last), then the one at last, and returns the
// first such set that does.
func (f *freeing) extend(set []string, from, last, n int, trials *int) []string {
	if n == 0 {
		set = append(set, f.owners[last])
		if *trials--; *trials < 0 || !f.fits(set) {
			return nil
		}
		return set
	}
	for i := from; i <= last-n && *trials >= 0; i++ {
		if found := f.extend(append(set, f.owners[i]), i+1, last, n-1, trials); found != nil {
			return found
		}
	}
	return nil
}

// irreducible leaves out of all owners each that can be, those first that end last.
func (f *freeing) irreducible() *Freed {
	set := slices.Clone(f.owners)
	for _, owner := range slices.Backward(f.owners) {
		without := slices.DeleteFunc(slices.Clone(set), func(o string) bool { return o == owner })
		if f.fits(without) {
			set = without
		}
	}
	return f.freed(set)
}

func (f *freeing) freed(set []string) *Freed {
	out := &Freed{Host: f.host.Name, Owners: slices.Sorted(slices.Values(set))}
	for _, owner := range set {
		out.Until = max(out.Until, f.host.until(owner, f.req.Slot))
	}
	return out
}

// better is the smaller of two sets, then the one that ends first, then that of the first
// name; nil is no set.
func better(a, b *Freed) *Freed {
	if a == nil || cmp.Or(cmp.Compare(len(b.Owners), len(a.Owners)), cmp.Compare(b.Until, a.Until), cmp.Compare(b.Host, a.Host)) < 0 {
		return b
	}
	return a
}
