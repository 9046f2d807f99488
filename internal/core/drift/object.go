package drift

import (
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
)

func (s *State) foldObject(at clock.Instant, ev event.Event) {
	switch ev := ev.(type) {
	case event.ConfigSet:
		s.foldSet(at, ev)
	case event.ConfigRemoved:
		if o := s.Objects[Key(ev.Kind, ev.Name)]; o != nil {
			s.foldRemoved(at, o, ev.Keep)
		}
	case event.ConfigRestored:
		if o := s.Objects[Key(ev.Kind, ev.Name)]; o != nil {
			s.unindex(o)
			for i := range o.Definition.Legs {
				d := &o.Definition.Legs[i]
				if l := o.Legs[d.Role]; l.BinnedUntil != 0 {
					*l = Leg{Status: Pending}
					s.asks(o.Kind, d)
				}
			}
			s.index(o)
		}
	case event.ConfigPurged:
		if o := s.Objects[Key(ev.Kind, ev.Name)]; o != nil {
			s.drop(o)
		}
	}
}

// foldSet takes a definition. A leg that moved to another place leaves a tombstone where it
// was.
func (s *State) foldSet(at clock.Instant, ev event.ConfigSet) {
	key := Key(ev.Kind, ev.Name)
	old := s.Objects[key]
	o := &Object{Kind: ev.Kind, Name: ev.Name, Version: ev.Version, Definition: ev.Definition, Legs: map[string]*Leg{}, ChangedAt: at}
	if old != nil {
		s.unindex(old)
		o.History = old.History
	}
	o.History = append(slices.Clip(o.History), Revision{ev.Version, ev.Definition, ev.Origin, ev.Actor, ev.Reason, at})
	o.History = slices.Delete(o.History, 0, max(0, len(o.History)-MaxHistory))
	s.Objects[key] = o
	for i := range o.Definition.Legs {
		d := &o.Definition.Legs[i]
		o.Legs[d.Role] = o.adopt(old, d, ev.Base, at)
		if r, taken := s.legs[d.Node][place{o.Kind, d.ID}]; taken {
			s.succeed(o, d, r, ev.Base)
		}
		if n := s.Nodes[d.Node]; n != nil && ev.Base != "" {
			n.Compare = true
		}
		s.asks(ev.Kind, d)
	}
	s.index(o)
	if old != nil {
		s.buryMoved(at, old, o)
	}
}

// asks has a node be compared of which something is open about the place of a leg: what is drift is
// another question now.
func (s *State) asks(kind string, d *nodeconfig.Leg) {
	if n := s.Nodes[d.Node]; n != nil && (n.Adoption != nil || n.Episodes[Key(kind, d.ID)] != nil) {
		n.Compare = true
	}
}

// adopt is the leg of a new definition, with what is known of its node.
func (o *Object) adopt(old *Object, d *nodeconfig.Leg, base string, at clock.Instant) *Leg {
	l, was, config := &Leg{Status: Pending}, old.at(d), o.Definition.Config(d)
	if was != nil && !was.Gone && was.BinnedUntil == 0 {
		l.Acked, l.Effect, l.Detail, l.Match, l.Unknown = was.Acked, was.Effect, was.Detail, was.Match, was.Unknown
		if was.Status == Pushing {
			l.Status = Pushing
			return l
		}
	}
	switch {
	case base == "":
	case was != nil && string(old.Definition.Config(old.place(d))) == string(config): // of another node
		if was.Status == Pushed && l.Acked != nil && l.Acked.Version == old.Version {
			same := *l.Acked
			same.Version = o.Version
			l.Status, l.Acked = Pushed, &same
		}
	case base == event.BaseDefined:
		l.Status, l.Match, l.Acked = Pushed, nil, &Acked{o.Version, nodeconfig.Base{Desired: config}, "", at}
	default:
		l.Acked, l.Match, l.Unknown = nil, nil, true
	}
	return l
}

// at returns the leg that an object has at the place of another, or nil; place how it is
// defined.
func (o *Object) at(d *nodeconfig.Leg) *Leg {
	if was := o.place(d); was != nil {
		return o.Legs[was.Role]
	}
	return nil
}

func (o *Object) place(d *nodeconfig.Leg) *nodeconfig.Leg {
	if o != nil {
		for i := range o.Definition.Legs {
			if l := &o.Definition.Legs[i]; l.Node == d.Node && l.ID == d.ID {
				return l
			}
		}
	}
	return nil
}

// succeed has a leg of an object take over what is known of its place from the tombstone
// that is there, which ends that.
func (s *State) succeed(o *Object, d *nodeconfig.Leg, r legRef, base string) {
	tomb, at, was := s.leg(r)
	l := o.Legs[d.Role]
	if base == "" {
		l.Match, l.Unknown = was.Match, was.Unknown
		if was.Acked != nil {
			acked := *was.Acked
			acked.Version = 0 // of another object
			l.Acked = &acked
		}
	}
	if was.Status == Pushing {
		l.Status = Pushing
	}
	s.redirect(d, o)
	s.gone(tomb, at, was)
}

// redirect has the operation in flight to the place of a leg be that of an object.
func (s *State) redirect(d *nodeconfig.Leg, o *Object) {
	if f := s.node(d.Node).Flight; f != nil && f.Kind == o.Kind && f.ID == d.ID {
		f.Object, f.Role = o.key(), d.Role
	}
}

// buryMoved leaves tombstones of the legs that old has elsewhere than o.
func (s *State) buryMoved(at clock.Instant, old, o *Object) {
	for i := range old.Definition.Legs {
		d := &old.Definition.Legs[i]
		l := old.Legs[d.Role]
		if now := o.place(d); now != nil || l.Gone {
			if now != nil {
				s.redirect(now, o)
			}
			continue
		}
		s.bury(at, o.Kind, d, l)
	}
}

// bury makes a tombstone of one leg that nothing else of the server is about.
func (s *State) bury(at clock.Instant, kind string, d *nodeconfig.Leg, l *Leg) {
	if n := s.Nodes[d.Node]; n == nil || n.RetiredAt != 0 || l.BinnedUntil != 0 || l.Acked == nil && l.Status != Pushing && l.Match == nil && !l.Unknown {
		return // it never had it, or nobody can be asked
	}
	name := "~" + d.Node + "/" + d.ID
	tomb := &Object{Kind: kind, Name: name, Definition: nodeconfig.Definition{Legs: []nodeconfig.Leg{{Role: d.Role, Node: d.Node, ID: d.ID, Config: d.Config}}},
		Legs: map[string]*Leg{d.Role: {Status: Pending, Acked: l.Acked, Match: l.Match, Unknown: l.Unknown}}, Removed: true, Anonymous: true, ChangedAt: at}
	if l.Status == Pushing {
		s.redirect(d, tomb)
		tomb.Legs[d.Role].Status = Pushing
	}
	s.Objects[tomb.key()] = tomb
	s.index(tomb)
	s.moved[d.Node] = true
}

func (s *State) foldRemoved(at clock.Instant, o *Object, keep bool) {
	if keep {
		s.drop(o)
		for i := range o.Definition.Legs {
			if n := s.Nodes[o.Definition.Legs[i].Node]; n != nil {
				n.Compare = true // it may have what nobody knows now
			}
		}
		return
	}
	o.Removed, o.ChangedAt = true, at
	for i := range o.Definition.Legs {
		d := &o.Definition.Legs[i]
		l := o.Legs[d.Role]
		n := s.Nodes[d.Node]
		if n == nil || n.RetiredAt != 0 || l.BinnedUntil != 0 || l.Acked == nil && l.Status != Pushing && l.Match == nil && !l.Unknown && (l.Absent || l.Attempts == 0) {
			s.gone(o, d, l) // the node never had it
			continue
		}
		l.again()
		l.Attempts, l.FailedSince, l.Code, l.Error = 0, 0, "", ""
		l.wait()
	}
}

// wait has a leg be pushed, after the operation that is on its way for it.
func (l *Leg) wait() {
	if l.Status != Pushing {
		l.Status = Pending
	}
}

// gone notes that a node has a leg no more; with the last one the tombstone goes.
func (s *State) gone(o *Object, d *nodeconfig.Leg, l *Leg) {
	s.unindexLeg(o, d)
	l.Gone, l.Status, l.BinnedUntil = true, Pushed, 0
	s.touchObject(o)
	for _, other := range o.Legs { // order-free: all of them count
		if !other.Gone {
			return
		}
	}
	s.drop(o)
}

func (s *State) drop(o *Object) {
	s.touchObject(o)
	s.unindex(o)
	delete(s.Objects, o.key())
	for i := range o.Definition.Legs {
		d := &o.Definition.Legs[i]
		n := s.Nodes[d.Node]
		if n == nil {
			continue
		}
		if n.Flight != nil && n.Flight.Object == o.key() {
			n.Flight, n.Compare = nil, true
		}
		if n.Episodes[Key(o.Kind, d.ID)] != nil {
			n.Compare = true
		}
	}
}
