package place

import (
	"cmp"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
)

// Slot is a span of time with From in it and To not: what ends as another begins does
// not overlap it. That of a session is from provisionAt to cleanupDeadline, as its
// resources are its own for so long.
type Slot struct {
	From clock.Instant `json:"from"`
	To   clock.Instant `json:"to"`
}

// Overlaps reports whether an instant is in both; an empty or inverted slot overlaps none.
func (s Slot) Overlaps(o Slot) bool { return max(s.From, o.From) < min(s.To, o.To) }

// Length is how long the slot lasts.
func (s Slot) Length() clock.Duration { return s.To.Sub(s.From) }

// at is the slot of the same length that begins at an instant.
func (s Slot) at(from clock.Instant) Slot { return Slot{From: from, To: from.Add(s.Length())} }

// Pod is who resources are for.
type Pod struct {
	Owner string `json:"owner"`           // such as session/part/pod
	Group string `json:"group,omitempty"` // what Spread counts, and AntiAffinity may name
	// AntiAffinity names whom the pod shares no host with: owners, whole sessions or parts
	// by the path that owners begin with, and groups. It binds both sides.
	AntiAffinity []string `json:"antiAffinity,omitempty"`
}

// avoids reports whether p names o among those it shares no host with.
func (p *Pod) avoids(o *Pod) bool {
	return p.Owner != o.Owner && slices.ContainsFunc(p.AntiAffinity, func(name string) bool {
		rest, below := strings.CutPrefix(o.Owner, name)
		return name != "" && (name == o.Group || below && (rest == "" || rest[0] == '/'))
	})
}

// Reservation books resources of a host, and GPUs by their index, for a slot.
type Reservation struct {
	Pod
	Host      string    `json:"host"`
	Slot      Slot      `json:"slot"`
	Resources Resources `json:"resources"`
	GPUs      []int     `json:"gpus,omitempty"`
}

// Apart reports whether one of two names the other among those it shares no host with.
func (p *Pod) Apart(o *Pod) bool { return p.avoids(o) || o.avoids(p) }

// Equal reports whether two book the same for the same pod.
func (r *Reservation) Equal(o *Reservation) bool {
	return r.Owner == o.Owner && r.Group == o.Group && slices.Equal(r.AntiAffinity, o.AntiAffinity) && r.Host == o.Host &&
		r.Slot == o.Slot && r.Resources == o.Resources && slices.Equal(r.GPUs, o.GPUs)
}

// order is that of a host's calendar.
func order(a, b *Reservation) int {
	return cmp.Or(cmp.Compare(a.Slot.From, b.Slot.From), cmp.Compare(a.Slot.To, b.Slot.To), strings.Compare(a.Owner, b.Owner),
		slices.Compare(a.GPUs, b.GPUs))
}

// Peak is the most that the reservations of a host book of each resource at any instant
// of the slot.
func Peak(host string, reservations []Reservation, slot Slot) Resources {
	var over []*Reservation
	for i := range reservations {
		if r := &reservations[i]; r.Host == host && r.Slot.Overlaps(slot) {
			over = append(over, r)
		}
	}
	slices.SortFunc(over, order)
	p := sweep(over, slot, nil)
	return p.Resources
}

// peak is the highest use of each resource, with the first instant of it.
type peak struct {
	Resources
	cpuAt, memoryAt clock.Instant
}

// sweep finds the peak of reservations that overlap the slot, in order of their start.
// Sums only grow where a reservation starts, so that only those instants count. room
// is what it may sort in.
func sweep(over []*Reservation, slot Slot, room []*Reservation) (p peak) {
	ends := append(room[:0], over...)
	slices.SortFunc(ends, func(a, b *Reservation) int { return cmp.Compare(a.Slot.To, b.Slot.To) })
	var now Resources
	for _, r := range over {
		at := max(r.Slot.From, slot.From)
		for ends[0].Slot.To <= at {
			now, ends = now.Sub(ends[0].Resources), ends[1:]
		}
		now = now.Add(r.Resources)
		if now.MilliCPU > p.MilliCPU {
			p.MilliCPU, p.cpuAt = now.MilliCPU, at
		}
		if now.Memory > p.Memory {
			p.Memory, p.memoryAt = now.Memory, at
		}
	}
	return p
}
