package drift

import (
	"maps"
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
)

// Next decides what is due by time, and folds that: pushes that are tried again, ghosts, what
// was in the bin for as long as it is kept there, and rules that have ended.
func (s *State) Next(now clock.Instant) []event.OfNodes {
	var out []event.OfNodes
	for _, id := range slices.Sorted(maps.Keys(s.Rules)) {
		if s.Rules[id].Until.Reached(now) {
			ev := event.DriftUnignored{Rule: id}
			s.fold(now, ev)
			out = append(out, ev)
		}
	}
	for name, at := range s.wake { // order-free: it fills a set
		if at.Reached(now) {
			s.moved[name] = true
		}
	}
	return append(out, s.flush(now)...)
}

// flush decides what follows on the nodes that something changed for, and folds that.
func (s *State) flush(now clock.Instant) (out []event.OfNodes) {
	for len(s.moved) > 0 {
		names := slices.Sorted(maps.Keys(s.moved))
		clear(s.moved)
		for _, name := range names {
			for _, r := range s.legsOf(name) {
				if ev := s.ends(r, now); ev != nil {
					s.fold(now, ev)
					out = append(out, ev)
				}
			}
			if ev := s.advance(name, now); ev != nil {
				s.fold(now, ev)
				out = append(out, ev)
			}
			s.schedule(name, now)
		}
	}
	return out
}

// ends decides whether a leg becomes a ghost, or leaves the bin for good.
func (s *State) ends(r legRef, now clock.Instant) event.OfNodes {
	o, d, l := s.leg(r)
	if o == nil {
		return nil
	}
	if l.BinnedUntil.Reached(now) {
		for _, other := range o.Legs { // order-free: all of them count
			if !other.BinnedUntil.Reached(now) {
				return nil
			}
		}
		return event.ConfigPurged{Object: event.Object{Kind: o.Kind, Name: o.Name}}
	}
	if at := s.ghostAt(o, d, l); at.Reached(now) {
		return event.GhostCleanup{SyncOf: o.sync(d), Error: l.Error, FailedSince: l.FailedSince, RestoreUntil: now.Add(BinFor)}
	}
	return nil
}

// ghostAt is when a leg becomes a ghost unless something changes; zero is never: it was
// acknowledged once, its node has such an object, or is not online.
func (s *State) ghostAt(o *Object, d *nodeconfig.Leg, l *Leg) clock.Instant {
	n := s.Nodes[d.Node]
	if o.Removed || l.BinnedUntil != 0 || l.Status != Failed || l.Acked != nil || !l.Absent || n == nil || !n.Online || n.Compare || n.Paused != nil || n.Episodes[Key(o.Kind, d.ID)] != nil {
		return 0
	}
	return max(l.FailedSince, n.Since).Add(GhostAfter)
}

// schedule works out when something is due on a node by time alone, after an instant.
func (s *State) schedule(name string, now clock.Instant) {
	var at clock.Instant
	for _, r := range s.legs[name] { // order-free: the earliest of all
		o, d, l := s.leg(r)
		for _, t := range []clock.Instant{l.BinnedUntil, s.ghostAt(o, d, l), l.RetryAt} {
			if t > now {
				at = clock.Earliest(at, t)
			}
		}
	}
	if at == 0 {
		delete(s.wake, name)
	} else {
		s.wake[name] = at
	}
}

// Due is when Next has to be called although nothing was folded; zero is never.
func (s *State) Due() clock.Instant {
	if len(s.moved) > 0 {
		return 1
	}
	var at clock.Instant
	for _, w := range s.wake { // order-free: the earliest of all
		at = clock.Earliest(at, w)
	}
	for _, r := range s.Rules { // order-free: the earliest of all
		at = clock.Earliest(at, r.Until)
	}
	return at
}
