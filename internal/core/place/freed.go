package place

import (
	"cmp"
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
)

// maxTrials bounds how many sets of owners FreedBy tries in search of the smallest, and maxSteps how many it
// begins to make: those that give too little back are not tried.
const (
	maxTrials = 20_000
	maxSteps  = 20 * maxTrials
)

// effort is what is left of both.
type effort struct{ trials, steps int }

func (e *effort) over() bool { return e.trials < 0 || e.steps < 0 }

// FreedBy finds the smallest set of owners without whom a host has room for a request that none has room for, or nil.
func (c *Calendar) FreedBy(req Request) (best *Freed) {
	var in []*freeing
	b, most := c.read(), 0
	for i := range b.hosts {
		h := &b.hosts[i]
		if refusing(hostFilters, &req, h.Host) != nil || !b.fits(&hostBook{Host: h.Host}, &req, req.Slot) {
			continue
		}
		f := b.freeing(&req, h)
		in, most = append(in, f), max(most, len(f.owners))
	}
	left := effort{maxTrials, maxSteps}
	for size := 1; size <= most && !left.over(); size++ {
		for _, f := range in {
			best = f.smallest(size, best, &left)
		}
		if best != nil {
			return best
		}
	}
	for _, f := range in {
		best = better(best, f.irreducible())
	}
	return best
}

// freeing tries what one host would have room for.
type freeing struct {
	*book
	req    *Request
	host   *hostBook
	owners []leaving // of what overlaps the slot, those first that end first
	over   []*Reservation
	by     []int // of each in over, the owner
	gone   []bool
	needs  []need
	kept   hostBook // room for those that are not gone
}

// leaving is an owner whose reservations may end.
type leaving struct {
	name  string
	until clock.Instant // its last one within the slot
}

// need is what a set of owners has to give back at least. What each gives is an upper bound.
type need struct {
	want  int64
	gives []int64 // by owner
	top   []int64 // the most that n of them give
	have  int64   // given by those that are gone
}

func (b *book) freeing(req *Request, h *hostBook) *freeing {
	c := b.candidate(h, req, req.Slot)
	f := &freeing{book: b, req: req, host: h, over: slices.Clone(c.over), kept: hostBook{Host: h.Host}}
	for _, r := range f.over {
		i := slices.IndexFunc(f.owners, func(o leaving) bool { return o.name == r.Owner })
		if i < 0 {
			i, f.owners = len(f.owners), append(f.owners, leaving{name: r.Owner})
		}
		f.owners[i].until = max(f.owners[i].until, r.Slot.To)
	}
	slices.SortFunc(f.owners, func(a, b leaving) int { return cmp.Or(cmp.Compare(a.until, b.until), cmp.Compare(a.name, b.name)) })
	for _, r := range f.over {
		f.by = append(f.by, slices.IndexFunc(f.owners, func(o leaving) bool { return o.name == r.Owner }))
	}
	f.gone = make([]bool, len(f.owners))
	f.measure(c)
	return f
}

// measure finds what has to be given back, and what of it each owner has.
func (f *freeing) measure(c *candidate) {
	free, want := c.available(), f.req.Resources
	at := func(r *Reservation, at clock.Instant) bool { return r.Slot.From <= at && at < r.Slot.To }
	if want.MilliCPU > 0 {
		f.need(want.MilliCPU-free.MilliCPU, func(r *Reservation) int64 {
			if at(r, c.peak.cpuAt) {
				return r.Resources.MilliCPU
			}
			return 0
		})
	}
	if want.Memory > 0 {
		f.need(want.Memory-free.Memory, func(r *Reservation) int64 {
			if at(r, c.peak.memoryAt) {
				return r.Resources.Memory
			}
			return 0
		})
	}
	f.need(int64(f.req.GPU.Count-len(c.gpus)), func(r *Reservation) int64 { return int64(len(r.GPUs)) })
	apart := make([]bool, len(f.owners))
	var n int64
	for k, r := range f.over {
		if i := f.by[k]; f.req.apart(r) && !apart[i] {
			apart[i], n = true, n+1
		}
	}
	f.needOf(n, func(i int) int64 {
		if apart[i] {
			return 1
		}
		return 0
	})
}

// need adds one that the reservations of an owner give together.
func (f *freeing) need(want int64, gives func(*Reservation) int64) {
	sums := make([]int64, len(f.owners))
	for k, r := range f.over {
		sums[f.by[k]] += gives(r)
	}
	f.needOf(want, func(i int) int64 { return sums[i] })
}

func (f *freeing) needOf(want int64, gives func(owner int) int64) {
	if want <= 0 {
		return
	}
	n := need{want: want, gives: make([]int64, len(f.owners)), top: make([]int64, 1+len(f.owners))}
	for i := range n.gives {
		n.gives[i] = gives(i)
	}
	by := slices.Clone(n.gives)
	slices.SortFunc(by, func(a, b int64) int { return cmp.Compare(b, a) })
	for i, g := range by {
		n.top[i+1] = n.top[i] + g
	}
	f.needs = append(f.needs, n)
}

// could reports whether those that are gone could give enough back with n more.
func (f *freeing) could(n int) bool {
	return !slices.ContainsFunc(f.needs, func(x need) bool { return x.have+x.top[n] < x.want })
}

// leave has an owner gone, or there again.
func (f *freeing) leave(owner int, gone bool) {
	sign := int64(1)
	if f.gone[owner] = gone; !gone {
		sign = -1
	}
	for i := range f.needs {
		f.needs[i].have += sign * f.needs[i].gives[owner]
	}
}

// frees reports whether the host has room without those that are gone.
func (f *freeing) frees() bool {
	f.kept.reserved = f.kept.reserved[:0]
	for k, r := range f.over {
		if !f.gone[f.by[k]] {
			f.kept.reserved = append(f.kept.reserved, r)
		}
	}
	return f.fits(&f.kept, f.req, f.req.Slot)
}

// smallest tries every set of a size, and returns the better of the best so far and what it finds.
// Sets come in the order of their ends, so that the first that does is the best of the host.
func (f *freeing) smallest(size int, best *Freed, left *effort) *Freed {
	if size > len(f.owners) || !f.could(size) {
		return best
	}
	// The last to end is chosen first: it is what sets are compared by.
	for last := size - 1; last < len(f.owners) && !left.over(); last++ {
		f.leave(last, true)
		if f.extend(0, last, size-1, left) {
			best = better(best, f.freed())
			last = len(f.owners)
		}
		for i := range f.gone {
			if f.gone[i] {
				f.leave(i, false)
			}
		}
	}
	return best
}

// extend has n more owners of those in [from, last) gone: the first such that frees the host.
func (f *freeing) extend(from, last, n int, left *effort) bool {
	left.steps--
	if !f.could(n) {
		return false
	}
	if n == 0 {
		left.trials--
		return left.trials >= 0 && f.frees()
	}
	for i := from; i <= last-n && !left.over(); i++ {
		f.leave(i, true)
		if f.extend(i+1, last, n-1, left) {
			return true
		}
		f.leave(i, false)
	}
	return false
}

// irreducible has all owners gone but each that can stay, those first that end last.
func (f *freeing) irreducible() *Freed {
	for i := range f.gone {
		f.gone[i] = true
	}
	for i := range slices.Backward(f.gone) {
		f.gone[i] = false
		f.gone[i] = !f.frees()
	}
	return f.freed()
}

// freed is the set of those that are gone.
func (f *freeing) freed() *Freed {
	out := &Freed{Host: f.host.Name}
	for i, o := range f.owners {
		if f.gone[i] {
			out.Owners, out.Until = append(out.Owners, o.name), max(out.Until, o.until)
		}
	}
	slices.Sort(out.Owners)
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
