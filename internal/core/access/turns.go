package access

import (
	"net/netip"
	"slices"
)

// Turns has what waits, of many addresses: these take turns, and of one it is first come, first served. The zero
// value is empty.
type Turns[T comparable] struct {
	waiting map[netip.Addr][]T
	ring    []netip.Addr // that wait, in the order of their turns
}

// Add has v wait behind all else of its address.
func (t *Turns[T]) Add(from netip.Addr, v T) {
	if t.waiting == nil {
		t.waiting = map[netip.Addr][]T{}
	}
	if len(t.waiting[from]) == 0 {
		t.ring = append(t.ring, from)
	}
	t.waiting[from] = append(t.waiting[from], v)
}

// Addresses is how many of them wait, and Of how much of one.
func (t *Turns[T]) Addresses() int         { return len(t.ring) }
func (t *Turns[T]) Of(from netip.Addr) int { return len(t.waiting[from]) }

// Next takes out what is next, and reports whether there was any. What else its address has comes after one of each
// other address.
func (t *Turns[T]) Next() (v T, ok bool) {
	if len(t.ring) == 0 {
		return v, false
	}
	from := t.ring[0]
	v, t.ring = t.waiting[from][0], t.ring[1:]
	if t.waiting[from] = t.waiting[from][1:]; len(t.waiting[from]) > 0 {
		t.ring = append(t.ring, from)
	} else {
		delete(t.waiting, from)
	}
	return v, true
}

// Remove takes v out, and reports whether it waited.
func (t *Turns[T]) Remove(from netip.Addr, v T) bool {
	i := slices.Index(t.waiting[from], v)
	if i < 0 {
		return false
	}
	if t.waiting[from] = slices.Delete(t.waiting[from], i, i+1); len(t.waiting[from]) == 0 {
		delete(t.waiting, from)
		t.ring = slices.DeleteFunc(t.ring, func(a netip.Addr) bool { return a == from })
	}
	return true
}
