package session

import (
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/place"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// Bookings are the reservations of all pods, by the row of each and by host. The zero value has none.
type Bookings struct {
	all     map[engine.Ref]PodReport
	on      map[string][]place.Reservation // by owner; replaced where one changes, so that copies may be kept
	version uint64
}

// Note follows a row as it was written.
func (b *Bookings) Note(row *engine.Row) {
	r := Booking(row)
	if r == nil {
		b.Drop(row.Ref)
		return
	}
	had, booked := b.all[row.Ref]
	if b.all == nil {
		b.all, b.on = map[engine.Ref]PodReport{}, map[string][]place.Reservation{}
	}
	b.all[row.Ref] = *r
	if booked && had.Reservation.Equal(&r.Reservation) {
		return
	}
	if booked {
		b.leave(&had)
	}
	b.version++
	at, _ := b.find(r)
	b.on[r.Host] = slices.Insert(slices.Clone(b.on[r.Host]), at, r.Reservation)
}

// Drop forgets a row.
func (b *Bookings) Drop(ref engine.Ref) {
	if had, booked := b.all[ref]; booked {
		delete(b.all, ref)
		b.leave(&had)
		b.version++
	}
}

func (b *Bookings) leave(r *PodReport) {
	at, found := b.find(r)
	switch rest := b.on[r.Host]; {
	case !found:
	case len(rest) == 1:
		delete(b.on, r.Host)
	default:
		b.on[r.Host] = slices.Concat(rest[:at], rest[at+1:])
	}
}

func (b *Bookings) find(r *PodReport) (at int, found bool) {
	return slices.BinarySearchFunc(b.on[r.Host], r.Owner, func(x place.Reservation, owner string) int { return strings.Compare(x.Owner, owner) })
}

// Of is the booking of a row.
func (b *Bookings) Of(ref engine.Ref) (r PodReport, booked bool) {
	r, booked = b.all[ref]
	return r, booked
}

// All are all bookings, in no order.
func (b *Bookings) All() iter.Seq2[engine.Ref, PodReport] {
	return maps.All(b.all) // order-free: who needs one sorts
}

// Len is how many there are.
func (b *Bookings) Len() int { return len(b.all) }

// Version is another one after each change of what is reserved.
func (b *Bookings) Version() uint64 { return b.version }

// On are the reservations of each host, by owner, which may be kept: those of a host do not change any more.
func (b *Bookings) On() map[string][]place.Reservation { return maps.Clone(b.on) }

// Fits reports whether a host of that capacity has room for what a pod books beside the others, no GPU of it is
// another's meanwhile, and none of them is to share no host with it. What was booked before, and has not grown, fits.
// It takes as many steps as the host has reservations.
func (b *Bookings) Fits(ref engine.Ref, want *PodReport, capacity place.Resources) bool {
	if had, ok := b.all[ref]; ok && had.Host == want.Host && had.Slot == want.Slot && slices.Equal(had.GPUs, want.GPUs) {
		return true
	}
	others := make([]place.Reservation, 0, len(b.on[want.Host]))
	for i := range b.on[want.Host] {
		r := &b.on[want.Host][i]
		if r.Owner == ref.ID || !r.Slot.Overlaps(want.Slot) {
			continue
		}
		if want.Apart(&r.Pod) || slices.ContainsFunc(want.GPUs, func(g int) bool { return slices.Contains(r.GPUs, g) }) {
			return false
		}
		others = append(others, *r)
	}
	return want.Resources.Add(place.Peak(want.Host, others, want.Slot)).Fits(capacity)
}
