package health

import (
	"cmp"
	"maps"
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
)

// Change is a host that became degraded, is so for other reasons than before, or
// has recovered.
type Change struct {
	Host  string
	Event event.Event
}

// Next decides which hosts became degraded or recovered. It looks only at hosts
// that an entry touched since it last did, and at those whose time has come. The
// caller folds the changes, of which no host has two.
func Next(s *State, facts func(host string) Facts, now clock.Instant) []Change {
	for name, at := range s.due { // order-free: it only fills a set
		if at.Reached(now) {
			s.touch(name)
		}
	}
	var changes []Change
	for _, name := range slices.Sorted(maps.Keys(s.touched)) {
		h, f := s.Hosts[name], facts(name)
		a := h.Assess(f, now)
		delete(s.due, name)
		if a.Next != 0 {
			s.due[name] = a.Next
		}
		switch was := h.degraded(); {
		case !f.Enrolled || f.Moving || f.Failed: // its last status stands
		case a.Status == Degraded:
			if ev := s.host(name).Degradation(a); was == nil || !sameCause(was, &ev) {
				changes = append(changes, Change{name, ev})
			}
		case was != nil:
			changes = append(changes, Change{name, event.HostRecovered{}})
		}
	}
	clear(s.touched)
	return changes
}

// Due is when Next must be called although nothing was folded; 0: never.
func (s *State) Due() clock.Instant {
	var at clock.Instant
	for _, due := range s.due { // order-free: the earliest
		at = clock.Earliest(at, due)
	}
	return at
}

func (s *State) touch(host string) {
	if s.touched == nil {
		s.touched, s.due = map[string]struct{}{}, map[string]clock.Instant{}
	}
	s.touched[host] = struct{}{}
}

func (h *Host) degraded() *event.HostDegraded {
	if h == nil {
		return nil
	}
	return h.Degraded
}

// sameCause reports whether two events name the same resources and probes.
func sameCause(a, b *event.HostDegraded) bool {
	return a.More == b.More && a.Bundle == b.Bundle &&
		slices.EqualFunc(a.Resources, b.Resources, func(x, y event.DegradedResource) bool { return x.Resource == y.Resource }) &&
		slices.EqualFunc(a.Probes, b.Probes, func(x, y event.DegradedProbe) bool { return x.Probe == y.Probe })
}

// Totals counts hosts by status, and resources in Error by kind.
type Totals struct {
	Hosts  map[Status]int `json:"hosts"`
	Errors map[string]int `json:"errors"`
}

// Total counts over the hosts of a list.
func Total(s *State, hosts []string, facts func(host string) Facts, now clock.Instant) Totals {
	t := Totals{Hosts: map[Status]int{}, Errors: map[string]int{}}
	for _, name := range hosts {
		h := s.Hosts[name]
		t.Hosts[h.Assess(facts(name), now).Status]++
		if h == nil {
			continue
		}
		for id, u := range h.Unready { // order-free: it only counts
			if r := h.Resources[id]; u.Failed && r.stage().Broken() {
				t.Errors[KindOf(id)]++
			}
		}
	}
	t.Errors = MostFrequent(t.Errors, MaxKinds)
	return t
}

// MaxKinds bounds the kinds of resources that are told apart: hosts say them of themselves.
const MaxKinds = 64

// Other stands for the rest of what MostFrequent counts.
const Other = "other"

// MostFrequent adds up all but the most frequent of what is counted, so that no more than most
// are left.
func MostFrequent(n map[string]int, most int) map[string]int {
	if len(n) <= most {
		return n
	}
	names := slices.SortedFunc(maps.Keys(n), func(a, b string) int { return cmp.Or(n[b]-n[a], cmp.Compare(a, b)) })
	out := map[string]int{}
	for i, name := range names {
		counted := n[name]
		if i >= most-1 {
			name = Other
		}
		out[name] += counted
	}
	return out
}
