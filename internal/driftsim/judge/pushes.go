package judge

import (
	"cmp"

	"github.com/steadyfleet/steady/internal/core/event"
)

// placeOf is the place that an event of a push is about, with the object that has it.
func (j *Judge) placeOf(of event.SyncOf) (Place, *object) {
	kind, name := of.Object()
	if of.Local {
		p := Place{of.Node, kind, name}
		return p, nil
	}
	o := j.objects[kind+"/"+name]
	if o == nil {
		return Place{of.Node, kind, name}, nil
	}
	l := o.def.Leg(cmp.Or(of.Leg, kind))
	if l == nil {
		return Place{}, o
	}
	return o.place(l), o
}

func (j *Judge) started(ev event.PushStarted) {
	n := j.node(ev.Node)
	p, o := j.placeOf(ev.SyncOf)
	switch {
	case n.flight != nil:
		j.Violate("S47", "operation %d of %s began while %d is on its way", ev.Op, ev.Node, n.flight.op)
	case ev.Op <= n.op:
		j.Violate("S47", "operation %d of %s follows %d", ev.Op, ev.Node, n.op)
	case !n.online || ev.Session != n.session:
		j.Violate("S47", "operation %d of %s is of session %d, and it is online %v in session %d", ev.Op, ev.Node, ev.Session, n.online, n.session)
	case n.paused != "" && (n.paused == "ahead" || n.paused == "must be ahead"):
		j.Violate("S51", "operation %d is sent to %s, which is ahead of the log", ev.Op, ev.Node)
	case n.paused != "":
		j.Violate("S47", "operation %d is sent to %s, which is paused: %s", ev.Op, ev.Node, n.paused)
	case !n.compared:
		j.Violate("S47", "operation %d is sent to %s, which was not compared since it connected or went on", ev.Op, ev.Node)
	}
	n.op = max(n.op, ev.Op)
	f := flight{op: ev.Op, place: p, delete: ev.Delete, ifMatch: ev.IfMatch}
	if o != nil {
		f.object = o.kind + "/" + o.name
	}
	n.flight, n.sent[ev.Op] = &f, f
	j.matches(ev, p)
	if _, open := n.episodes[p]; open && !n.settled[p] {
		j.Violate("S44", "operation %d replaces %v, about which an operator is asked", ev.Op, p)
	}
	j.inOrder(ev, p, o)
}

// matches holds what an operation may replace against what was seen.
func (j *Judge) matches(ev event.PushStarted, p Place) {
	want := ""
	if k := j.acked[p]; k != nil {
		want = k.etag
	}
	if decided, is := j.decided[p]; ev.IfMatch != want && (!is || ev.IfMatch != decided) {
		j.Violate("S44", "operation %d on %v replaces %q; the server has seen %q, an operator %q", ev.Op, p, ev.IfMatch, want, decided)
	}
}

func (j *Judge) inOrder(ev event.PushStarted, p Place, o *object) {
	if o == nil {
		if !j.owed[p] && !j.doubt[p] || !ev.Delete {
			j.Violate("S45", "operation %d on %v is of no object", ev.Op, p)
		}
		return
	}
	if ev.Delete != o.removed || ev.Version != o.version {
		j.Violate("S45", "operation %d deletes %v and is of version %d; %s is removed %v and of version %d", ev.Op, ev.Delete, ev.Version, o.name, o.removed, o.version)
	}
	for _, role := range before(o.kind, o.at(p).Role, ev.Delete) {
		l := o.def.Leg(role)
		if l == nil {
			continue
		}
		k := j.acked[o.place(l)]
		switch {
		case ev.Delete && !o.gone[role] && !o.maybe[role]:
			j.Violate("S49", "leg %s of %s is deleted before leg %s", o.at(p).Role, o.name, role)
		case !ev.Delete && o.binned[role] == 0 && (k == nil || k.version != o.version):
			j.Violate("S49", "leg %s of %s is pushed before leg %s", o.at(p).Role, o.name, role)
		}
	}
}

func (j *Judge) succeeded(ev event.PushSucceeded) {
	n := j.node(ev.Node)
	p, o := j.placeOf(ev.SyncOf)
	if f := n.flight; f != nil && f.op == ev.Op {
		p, n.flight = f.place, nil
		o = j.owner(p)
	} else if ev.Op != 0 {
		j.Violate("S47", "operation %d of %s succeeded, and was not on its way", ev.Op, ev.Node)
	}
	delete(j.decided, p)
	delete(j.unsure, p)
	if !ev.Delete {
		k := &known{version: ev.Version, etag: ev.ETag, observed: string(ev.Observed), guessed: ev.ReadBack || len(ev.Observed) == 0}
		if o != nil && o.at(p) != nil && o.version == ev.Version {
			k.desired = string(o.def.Config(o.at(p)))
		}
		j.acked[p] = k
		return
	}
	if s := j.snapshot; s != nil && s.Node == ev.Node && s.Op < ev.Op {
		if _, there := s.Objects[p]; there {
			j.Violate("S50", "%v is said to be gone, and the node has it", p)
		}
	}
	delete(j.acked, p)
	delete(j.owed, p)
	if o == nil || !o.removed {
		return
	}
	o.gone[o.at(p).Role] = true
	if len(o.gone) == len(o.def.Legs) {
		delete(j.objects, o.kind+"/"+o.name)
	}
}

func (j *Judge) failed(ev event.PushFailed) {
	n := j.node(ev.Node)
	if n.flight == nil || n.flight.op != ev.Op {
		j.Violate("S47", "operation %d of %s failed, and was not on its way", ev.Op, ev.Node)
		return
	}
	p := n.flight.place
	if s := j.snapshot; s != nil && s.Node == ev.Node && s.Op >= ev.Op {
		j.Violate("S45", "operation %d of %s is said to have failed, and the node applied it", ev.Op, ev.Node)
	}
	if ev.Absent {
		delete(n.has, p)
	}
	if k := j.acked[p]; k != nil && ev.Conflict && ev.ETag != "" {
		if o := j.owner(p); !k.guessed && !j.same(p, nameOf(o, p), k.observed, string(ev.Observed)) && !j.same(p, nameOf(o, p), k.desired, string(ev.Observed)) && (o == nil || !j.asObserved(p, o, o.at(p), string(ev.Observed), k.observed)) {
			j.Violate("S44", "%v has %s instead of %s, and that is said to be of no importance", p, ev.Observed, k.observed)
		}
		k.etag, k.observed = ev.ETag, string(ev.Observed)
	}
	n.flight = nil
}

func (j *Judge) open(of event.SyncOf, d event.Drifted, drift string) {
	n := j.node(of.Node)
	kind, _ := of.Object()
	p := Place{of.Node, kind, d.ID}
	if was, open := n.episodes[p]; open {
		j.Violate("S46", "episode %s of %v opens while %s is open", d.Episode, p, was)
	}
	if j.opened[d.Episode] {
		j.Violate("S46", "episode %s opens twice", d.Episode)
	}
	if n.paused != "" {
		j.Violate("S48", "episode %s of %v opens while the node is paused: %s", d.Episode, p, n.paused)
	}
	if drift == "missing" {
		j.missing = append(j.missing, p)
		if s := j.snapshot; s != nil && len(s.Objects) == 0 && j.expects > 1 && !n.resumed {
			j.Violate("S48", "%v is missing by an empty snapshot", p)
		}
		if s := j.snapshot; s != nil && s.Instance != n.instance {
			j.Violate("S48", "%v is missing on another instance", p)
		}
	}
	if n.closed[p] == drift {
		j.Violate("S46", "episode %s of %v opens as another one closes", d.Episode, p)
	}
	j.opened[d.Episode] = true
	n.episodes[p], n.drift[p] = d.Episode, drift
	delete(n.settled, p)
	delete(j.decided, p)
}

// expected counts what a node acknowledged and is not known to lack.
func (j *Judge) expected(name string) (count int) {
	for p := range j.acked { // order-free: it only counts
		if p.Node == name && !j.deleting(p) && j.node(name).drift[p] != "missing" && j.owner(p) != nil {
			count++
		}
	}
	return count
}

func (j *Judge) changed(ev event.DriftChanged) {
	kind, _ := ev.Object()
	p, n := Place{ev.Node, kind, ev.ID}, j.node(ev.Node)
	if n.episodes[p] != ev.Episode {
		j.Violate("S46", "episode %s of %v changes, %q is open", ev.Episode, p, n.episodes[p])
	}
	delete(j.decided, p)
	delete(n.settled, p)
}

func (j *Judge) closed(ev event.DriftClosed) {
	n := j.node(ev.Node)
	for p, id := range n.episodes { // order-free: names are unique
		if id == ev.Episode {
			n.closed[p] = n.drift[p]
			delete(n.episodes, p)
			delete(n.drift, p)
			delete(j.decided, p)
			return
		}
	}
	j.Violate("S46", "episode %s closes, and is not open", ev.Episode)
}

func (j *Judge) resolved(ev event.DriftResolved) {
	kind, _ := ev.Object()
	p := Place{ev.Node, kind, ev.ID}
	delete(j.node(ev.Node).adoption, p)
	j.node(ev.Node).settled[p] = true
	switch ev.Action {
	case "repush":
		j.decided[p] = ev.ETag
	case "delete-node":
		j.decided[p] = ev.ETag
		if o := j.owner(p); o == nil || o.maybe[o.at(p).Role] {
			j.owed[p] = true
		}
	case "ingest":
		delete(j.decided, p)
		if k := j.acked[p]; k != nil {
			k.etag, k.observed, k.guessed = ev.ETag, string(ev.Actual), false
		}
	}
}
