package place

import (
	"cmp"
	"slices"
	"strings"
)

// Calendar is hosts with what is reserved on them, made ready for many requests, which may come at once. It does not change.
type Calendar struct {
	hosts []hostBook // by name
}

// book reads a calendar, with room for one host at a time.
type book struct {
	*Calendar
	over  []*Reservation
	ends  []*Reservation
	busy  []bool
	gpus  []int
	seen  candidate
	brief bool // reasons are codes without messages
}

func (c *Calendar) read() *book { return &book{Calendar: c} }

// own is a book that may reserve.
func (c *Calendar) own() *book { return &book{Calendar: &Calendar{slices.Clone(c.hosts)}} }

// Place chooses the host of a pod.
func (c *Calendar) Place(req Request) Decision { return c.read().place(&req) }

// Choose is Place with the codes of the reasons alone: their messages take most of the time.
func (c *Calendar) Choose(req Request) Decision {
	b := c.read()
	b.brief = true
	return b.place(&req)
}

// Without is the calendar without what an owner reserved.
func (c *Calendar) Without(owner string) *Calendar {
	out := &Calendar{slices.Clone(c.hosts)}
	of := func(r *Reservation) bool { return r.Owner == owner }
	for i := range out.hosts {
		if h := &out.hosts[i]; slices.ContainsFunc(h.reserved, of) {
			h.reserved = slices.DeleteFunc(slices.Clone(h.reserved), of)
		}
	}
	return out
}

// hostBook is a host with its reservations in order of their start.
type hostBook struct {
	*Host
	reserved []*Reservation
}

// NewCalendar leaves out reservations of hosts that are not there. It keeps both slices, which are not to be changed any more.
func NewCalendar(hosts []Host, reservations []Reservation) *Calendar {
	b := &Calendar{hosts: make([]hostBook, len(hosts))}
	for i := range hosts {
		b.hosts[i].Host = &hosts[i]
	}
	byName := func(a, b hostBook) int { return strings.Compare(a.Name, b.Name) }
	if !slices.IsSortedFunc(b.hosts, byName) {
		slices.SortFunc(b.hosts, byName)
	}
	at, counts := make([]int, len(reservations)), make([]int, len(hosts))
	index := make(map[string]int, len(hosts))
	for i := range b.hosts {
		index[b.hosts[i].Name] = i
	}
	for i := range reservations {
		h, known := index[reservations[i].Host]
		if at[i] = h; !known {
			at[i] = -1
			continue
		}
		counts[h]++
	}
	all := make([]*Reservation, len(reservations))
	for i, n := range counts {
		b.hosts[i].reserved, all = all[:0:n], all[n:]
	}
	for i, h := range at {
		if h >= 0 {
			b.hosts[h].reserved = append(b.hosts[h].reserved, &reservations[i])
		}
	}
	for i := range b.hosts {
		slices.SortFunc(b.hosts[i].reserved, order)
	}
	return b
}

// candidate is one host as it is through a slot, for one request.
type candidate struct {
	*hostBook
	req  *Request
	slot Slot
	over []*Reservation // what overlaps the slot
	peak peak
	busy []bool // the GPUs that are used or reserved at some instant of the slot
	free int    // GPUs that are measured and not busy
	gpus []int  // those that the pod gets; fewer than wanted where they do not do
}

// candidate sees what a request meets on a host. It is good until the next one.
func (b *book) candidate(h *hostBook, req *Request, slot Slot) *candidate {
	b.over = b.over[:0]
	for _, r := range h.reserved {
		if r.Slot.From >= slot.To {
			break
		}
		if r.Slot.Overlaps(slot) {
			b.over = append(b.over, r)
		}
	}
	b.ends = slices.Grow(b.ends[:0], len(b.over))
	b.seen = candidate{hostBook: h, req: req, slot: slot, over: b.over, peak: sweep(b.over, slot, b.ends)}
	b.seen.bookGPUs(b)
	return &b.seen
}

func (c *candidate) bookGPUs(b *book) {
	gpus := c.Facts.GPUs
	b.busy = slices.Grow(b.busy[:0], len(gpus))[:len(gpus)]
	clear(b.busy)
	c.busy = b.busy
	mark := func(indices []int) {
		for _, i := range indices {
			if i >= 0 && i < len(c.busy) {
				c.busy[i] = true
			}
		}
	}
	mark(c.UsedGPUs)
	for _, r := range c.over {
		mark(r.GPUs)
	}
	b.gpus = b.gpus[:0]
	for i, g := range gpus {
		if c.busy[i] || !g.measured() {
			continue
		}
		c.free++
		if c.req.GPU.flaw(g) == "" {
			b.gpus = append(b.gpus, i)
		}
	}
	if c.gpus = b.gpus; len(c.gpus) > c.req.GPU.Count {
		slices.SortStableFunc(c.gpus, func(i, j int) int { return cmp.Compare(gpus[i].Memory, gpus[j].Memory) })
		c.gpus = c.gpus[:c.req.GPU.Count]
		slices.Sort(c.gpus)
	}
}

// available is what pods may book of the host at the peak of the slot.
func (c *candidate) available() Resources { return c.Capacity().Sub(c.peak.Resources) }
