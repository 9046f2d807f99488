package session

import (
	"cmp"
	"slices"

	"github.com/steadyfleet/steady/internal/core/place"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// Bookings are the reservations of all pods, by the row of each.
type Bookings map[engine.Ref]PodReport

// Note follows a row as it was written.
func (b Bookings) Note(row *engine.Row) {
	if r := Booking(row); r != nil {
		b[row.Ref] = *r
	} else {
		delete(b, row.Ref)
	}
}

// Others are the reservations beside that of one pod, in the order of their owners.
func (b Bookings) Others(ref engine.Ref) []place.Reservation {
	out := make([]place.Reservation, 0, len(b))
	for other, r := range b { // order-free: sorted below
		if other != ref {
			out = append(out, r.Reservation)
		}
	}
	slices.SortFunc(out, func(x, y place.Reservation) int { return cmp.Compare(x.Owner, y.Owner) })
	return out
}

// Fits reports whether a host of that capacity has room for what a pod books beside the others, and
// no GPU of it is another's meanwhile. What was booked before, and has not grown, fits.
func (b Bookings) Fits(ref engine.Ref, want *PodReport, capacity place.Resources) bool {
	if had, ok := b[ref]; ok && had.Host == want.Host && had.Slot == want.Slot && slices.Equal(had.GPUs, want.GPUs) {
		return true
	}
	for other, r := range b { // order-free: any
		if other == ref || r.Host != want.Host || !r.Slot.Overlaps(want.Slot) {
			continue
		}
		for _, g := range want.GPUs {
			if slices.Contains(r.GPUs, g) {
				return false
			}
		}
	}
	return want.Resources.Add(place.Peak(want.Host, b.Others(ref), want.Slot)).Fits(capacity)
}
