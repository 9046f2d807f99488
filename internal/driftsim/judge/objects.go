package judge

import (
	"cmp"
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
)

func (o *object) place(l *nodeconfig.Leg) Place { return Place{l.Node, o.kind, l.ID} }

// at returns the leg that has a place, or nil.
func (o *object) at(p Place) *nodeconfig.Leg {
	for i := range o.def.Legs {
		if l := &o.def.Legs[i]; o.place(l) == p {
			return l
		}
	}
	return nil
}

// owner returns the object that has a leg at a place, one that is wanted first.
func (j *Judge) owner(p Place) (found *object) {
	for _, o := range j.objects { // order-free: at most one is wanted there
		if l := o.at(p); l != nil && !o.gone[l.Role] && (found == nil || found.removed) {
			found = o
		}
	}
	return found
}

// nameOf is what rules call what is at a place.
func nameOf(o *object, p Place) string {
	if o == nil {
		return p.ID
	}
	return o.name
}

// deleting reports whether a place is one that is to be deleted.
func (j *Judge) deleting(p Place) bool {
	if o := j.owner(p); o != nil {
		return o.removed
	}
	return j.owed[p]
}

func (j *Judge) set(ev event.ConfigSet) {
	key := ev.Kind + "/" + ev.Name
	old := j.objects[key]
	o := &object{kind: ev.Kind, name: ev.Name, version: ev.Version, def: ev.Definition, gone: map[string]bool{}, maybe: map[string]bool{}, binned: map[string]clock.Instant{}}
	if old != nil && !old.removed && ev.Version <= old.version {
		j.Violate("S45", "version %d of %s follows %d", ev.Version, key, old.version)
	}
	delete(j.objects, key)
	for i := range o.def.Legs {
		l := &o.def.Legs[i]
		p := o.place(l)
		if other := j.owner(p); other != nil {
			if !other.removed {
				j.Violate("S45", "%s takes %v, which %s has", key, p, other.name)
			}
			j.hand(other, p)
		}
		j.based(ev, old, o, l)
		delete(j.owed, p)
		delete(j.doubt, p)
	}
	if old != nil {
		for i := range old.def.Legs {
			l := &old.def.Legs[i]
			if p := old.place(l); o.at(p) == nil && !old.gone[l.Role] && !j.node(p.Node).retired {
				_, decided := j.decided[p]
				if f := j.node(p.Node).flight; j.acked[p] != nil || decided || j.unsure[p] || f != nil && f.place == p {
					j.owed[p] = true
				}
			}
		}
	}
	j.objects[key] = o
	for name := range j.nodes { // order-free: each by itself
		if f := j.nodes[name].flight; f != nil && o.at(f.place) != nil {
			f.object = key
		}
	}
}

// hand has a place of a tombstone be another object's, of which no version is there.
func (j *Judge) hand(tomb *object, p Place) {
	if k := j.acked[p]; k != nil {
		k.version = 0
	}
	tomb.gone[tomb.at(p).Role] = true
	if len(tomb.gone) == len(tomb.def.Legs) {
		delete(j.objects, tomb.kind+"/"+tomb.name)
	}
}

// based is what is known of a leg whose definition came with a base.
func (j *Judge) based(ev event.ConfigSet, old, o *object, l *nodeconfig.Leg) {
	p := o.place(l)
	if j.owed[p] && j.acked[p] != nil {
		j.acked[p].version = 0
	}
	if ev.Base == "" {
		return
	}
	config := string(o.def.Config(l))
	var was *nodeconfig.Leg
	_, settled := j.decided[p] // so the server has it still
	if old != nil && (settled || len(old.maybe)+len(old.gone) < len(old.def.Legs)) {
		was = old.at(p)
	}
	if f := j.node(p.Node).flight; f != nil && f.place == p && was != nil && !old.maybe[was.Role] {
		return
	}
	if was != nil && string(old.def.Config(was)) == config {
		_, decided := j.decided[p]
		if k := j.acked[p]; k != nil && k.version == old.version && !old.removed && !decided {
			k.version = o.version
		}
		return
	}
	delete(j.acked, p)
	delete(j.decided, p)
	if ev.Base == event.BaseDefined {
		j.acked[p] = &known{version: o.version, guessed: true}
	} else {
		j.unsure[p] = true
	}
}

func (j *Judge) removed(ev event.ConfigRemoved) {
	key := ev.Kind + "/" + ev.Name
	o := j.objects[key]
	if o == nil {
		j.Violate("S45", "%s was removed, and is not there", key)
		return
	}
	if ev.Keep {
		j.drop(o)
		return
	}
	o.removed = true
	clear(o.binned)
	for i := range o.def.Legs {
		l := &o.def.Legs[i]
		p := o.place(l)
		_, decided := j.decided[p]
		f := j.node(p.Node).flight
		if j.acked[p] == nil && !decided && !j.unsure[p] && (f == nil || f.place != p) {
			o.maybe[l.Role] = true
		}
	}
}

// drop has the server know nothing of an object any more.
func (j *Judge) drop(o *object) {
	delete(j.objects, o.kind+"/"+o.name)
	for i := range o.def.Legs {
		p := o.place(&o.def.Legs[i])
		if n := j.node(p.Node); n.flight != nil && n.flight.place == p && n.flight.object == o.kind+"/"+o.name {
			n.flight = nil
		}
		if j.owed[p] && o.maybe[o.def.Legs[i].Role] {
			delete(j.owed, p)
			delete(j.unsure, p)
			j.doubt[p] = true
		} else if !j.owed[p] {
			delete(j.acked, p)
			delete(j.decided, p)
			delete(j.unsure, p)
		}
	}
}

func (j *Judge) purged(at clock.Instant, ev event.ConfigPurged) {
	o := j.objects[ev.Kind+"/"+ev.Name]
	if o == nil {
		j.Violate("S52", "%s %s was purged, and is not there", ev.Kind, ev.Name)
		return
	}
	for i := range o.def.Legs {
		until := o.binned[o.def.Legs[i].Role]
		if until == 0 || until > at {
			j.Violate("S52", "%s %s was purged at %s; leg %s is in the bin until %s", ev.Kind, ev.Name, at, o.def.Legs[i].Role, until)
		}
	}
	j.drop(o)
}

func (j *Judge) ghost(at clock.Instant, ev event.GhostCleanup) {
	kind, name := ev.Object()
	o := j.objects[kind+"/"+name]
	n := j.node(ev.Node)
	if o == nil || o.removed {
		j.Violate("S52", "%s %s became a ghost, and is not wanted", kind, name)
		return
	}
	role := cmp.Or(ev.Leg, kind)
	p := o.place(o.def.Leg(role))
	switch {
	case j.acked[p] != nil:
		j.Violate("S52", "%v became a ghost, and was acknowledged", p)
	case !n.online || n.paused != "" || at < n.since.Add(5*clock.Minute) || at < ev.FailedSince.Add(5*clock.Minute):
		j.Violate("S52", "%v became a ghost at %s: online %v since %s, failed since %s", p, at, n.online, n.since, ev.FailedSince)
	case n.has[p] != "":
		j.Violate("S52", "%v became a ghost, and its node has such an object", p)
	case ev.RestoreUntil != at.Add(7*clock.Day):
		j.Violate("S52", "%v can be restored until %s", p, ev.RestoreUntil)
	}
	o.binned[role] = ev.RestoreUntil
}

// before lists the roles that go before one, in creation or deletion.
func before(kind, role string, deletes bool) []string {
	roles := slices.Clone(nodeconfig.KindOf(kind).Roles)
	if deletes {
		slices.Reverse(roles)
	}
	return roles[:slices.Index(roles, role)]
}
