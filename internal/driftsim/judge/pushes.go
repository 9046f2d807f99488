package judge

import (
	"cmp"
	"maps"

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
		if l := o.at(p); l != nil {
			f.asked = string(o.def.Config(l))
		}
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
	asked := ""
	if f := n.flight; f != nil && f.op == ev.Op {
		p, n.flight, asked = f.place, nil, f.asked
		o = j.owner(p)
		j.compared(f, ev, nameOf(o, p))
	} else if ev.Op == 0 && !ev.Delete && o != nil && o.at(p) != nil {
		j.taken(p, o, string(ev.Observed))
	} else if ev.Op != 0 {
		j.Violate("S47", "operation %d of %s succeeded, and was not on its way", ev.Op, ev.Node)
	}
	delete(j.decided, p)
	delete(j.unsure, p)
	if !ev.Delete {
		k := &known{version: ev.Version, etag: ev.ETag, observed: string(ev.Observed), guessed: ev.ReadBack || len(ev.Observed) == 0}
		if asked != "" {
			k.desired = asked
		} else if o != nil && o.at(p) != nil && o.version == ev.Version {
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

// compared holds an acknowledgement against what was asked: the node has just that, or what it
// calls its own spelling of it.
func (j *Judge) compared(f *flight, ev event.PushSucceeded, name string) {
	as := func(config string) bool { return j.spelt(f.place, name, config, string(ev.Observed)) }
	switch s := f.said; {
	case ev.Delete != f.delete:
		j.Violate("S45", "operation %d of %s is to delete: %v, and did: %v", ev.Op, ev.Node, f.delete, ev.Delete)
	case ev.ReadBack && (ev.Delete || len(ev.Observed) == 0 || as(f.asked)):
	case ev.ReadBack:
		j.Violate("S45", "operation %d of %s is read back as %s, and asked was %s", ev.Op, ev.Node, ev.Observed, f.asked)
	case s == nil || !s.Done || s.There == ev.Delete:
		j.Violate("S45", "operation %d of %s is acknowledged, and the node answered %+v", ev.Op, ev.Node, s)
	case ev.Delete:
	case s.Config != string(ev.Observed) || !as(f.asked) && (s.Want == "" || !as(s.Want)):
		j.Violate("S45", "operation %d of %s is acknowledged with %s, and asked was %s, which it spells %q", ev.Op, ev.Node, ev.Observed, f.asked, s.Want)
	}
}

// taken holds what is taken for pushed without a push against what is wanted: each value is that,
// or what the device made of the same wish before.
func (j *Judge) taken(p Place, o *object, observed string) {
	value := func(config string) map[string]string { return members(j.plain(p, o.name, config, false)) }
	want, now := value(string(o.def.Config(o.at(p)))), value(observed)
	was, then := map[string]string{}, map[string]string{}
	k := j.acked[p]
	if k != nil && k.observed != "" {
		was, then = value(k.desired), value(k.observed)
	}
	for _, config := range []map[string]string{want, now} {
		for f := range config { // order-free: all of them count
			if now[f] != want[f] && (k == nil || k.observed == "" || now[f] != then[f] || want[f] != was[f]) {
				j.Violate("S45", "%v counts as pushed with %s of %s, and wanted is %q", p, f, observed, want[f])
			}
		}
	}
}

// spelt reports whether two configs are the same value by value, but for what is ignored and the
// order of sets.
func (j *Judge) spelt(p Place, name, a, b string) bool {
	return maps.Equal(members(j.plain(p, name, a, false)), members(j.plain(p, name, b, false)))
}

func (j *Judge) failed(ev event.PushFailed) {
	n := j.node(ev.Node)
	if n.flight == nil || n.flight.op != ev.Op {
		j.Violate("S47", "operation %d of %s failed, and was not on its way", ev.Op, ev.Node)
		return
	}
	p := n.flight.place
	name := nameOf(j.owner(p), p)
	if s := n.flight.said; s != nil && s.Done && s.There && !n.flight.delete && j.spelt(p, name, n.flight.asked, s.Config) {
		j.Violate("S45", "operation %d of %s is said to have failed, and the node acknowledged just what was asked", ev.Op, ev.Node)
	}
	// What is spelt otherwise than it was asked needs the node's word, and is asked again.
	if s := j.snapshot; s != nil && s.Node == ev.Node && s.Op >= ev.Op && (ev.RetryAt != 0 || s.Configs[p] == "" || j.spelt(p, name, n.flight.asked, s.Configs[p])) {
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
