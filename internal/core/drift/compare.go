package drift

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
)

// AtOnce is how many objects that the server does not know become an episode each; more
// become one adoption.
const AtOnce = 50

// byServer is the actor of what no operator did.
const byServer = "server"

// comparison is one comparison of what a node has with what it should have.
type comparison struct {
	s      *State
	n      *Node
	out    []event.OfNodes
	opened uint64
}

func (c *comparison) add(ev event.OfNodes) { c.out = append(c.out, ev) }

func (in Snapshot) decide(s *State, _ clock.Instant) ([]event.OfNodes, error) {
	n := s.Nodes[in.Node]
	if n == nil || !n.Online || n.Session != in.Session || n.Flight != nil && n.Flight.Session == in.Session {
		return nil, nil
	}
	on := event.OnNode{Node: n.Name}
	code, detail := in.unusable(n)
	var actual map[place]*Actual
	if code == "" {
		actual, code, detail = in.read(s, n)
	}
	if code != "" {
		if n.Refusal == code {
			return nil, nil
		}
		return []event.OfNodes{event.SnapshotRefused{OnNode: on, Code: code, Detail: clip(detail)}}, nil
	}
	c := &comparison{s: s, n: n}
	if !c.pauses(in, actual) {
		landed := c.readBack(in, actual)
		for _, r := range s.legsOf(n.Name) {
			if o, d, l := s.leg(r); r != landed && l.BinnedUntil == 0 {
				c.leg(o, d, l, actual[place{o.Kind, d.ID}])
			}
		}
		c.unknown(actual)
		c.vanished(actual)
	}
	if n.Compare || n.Reread || n.ComparedAt == 0 {
		c.add(event.SyncCompleted{OnNode: on, Session: n.Session, Generation: in.Generation, Objects: len(in.Objects), Open: c.open()})
	}
	return c.out, nil
}

// unusable says why nothing can be concluded from a snapshot.
func (in *Snapshot) unusable(n *Node) (code, detail string) {
	if !in.Complete {
		return "incomplete", cmp.Or(in.Error, "the node could not read all of its configuration")
	}
	if in.Op > n.Op || in.Generation > event.MaxCounter {
		return "malformed", fmt.Sprintf("it claims operation %d, and %d is the newest that it was sent, or generation %d: at most %d are counted", in.Op, n.Op, in.Generation, uint64(event.MaxCounter))
	}
	seen := map[place]bool{}
	for i := range in.Objects {
		x := &in.Objects[i]
		p := place{x.Kind, x.ID}
		switch {
		case x.Op > n.Op:
			return "malformed", fmt.Sprintf("the object %.40q of kind %s claims operation %d, and %d is the newest that the node was sent", x.ID, x.Kind, x.Op, n.Op)
		case !slices.ContainsFunc(n.Collections, func(c event.NodeCollection) bool { return c.Kind == x.Kind }):
			return "malformed", fmt.Sprintf("an object of kind %.40q, which is none of the node's collections", x.Kind)
		case nodeconfig.CheckID(x.ID) != nil || x.ETag == "" || len(x.ETag) > 200 || len(x.Config) > nodeconfig.MaxConfig:
			return "malformed", fmt.Sprintf("the object %.40q of kind %s has no proper name or ETag, or is larger than %d bytes", x.ID, x.Kind, nodeconfig.MaxConfig)
		case seen[p]:
			return "malformed", fmt.Sprintf("the object %.40q of kind %s stands twice", x.ID, x.Kind)
		}
		seen[p] = true
	}
	return "", ""
}

// read reads the objects of a snapshot and takes secrets out that the node left in them.
func (in *Snapshot) read(s *State, n *Node) (actual map[place]*Actual, code, detail string) {
	was, now := s.clean[n.Name], map[digest.Digest]bool{}
	actual = make(map[place]*Actual, len(in.Objects))
	for i := range in.Objects {
		x := in.Objects[i]
		as := x.digest()
		same := was[as]
		if !same {
			clean, _, err := s.RulesOf(n.Name, x.Kind, x.ID).Redact(x.Config)
			if err != nil {
				return nil, "malformed", fmt.Sprintf("the object %.40q of kind %s: %v", x.ID, x.Kind, err)
			}
			same, x.Config = bytes.Equal(clean, x.Config), clean
		}
		if same {
			now[as] = true
		}
		actual[place{x.Kind, x.ID}] = &x
	}
	s.clean[n.Name] = now
	return actual, "", ""
}

// applied reports whether the node applied the operation in flight.
func (c *comparison) applied(in Snapshot, actual map[place]*Actual) bool {
	f := c.n.Flight
	if f == nil {
		return false
	}
	x := actual[place{f.Kind, f.ID}]
	return in.Op >= f.Op || x != nil && x.Op == f.Op
}

// readBack finds out what became of an operation whose answer was lost, and returns its leg.
func (c *comparison) readBack(in Snapshot, actual map[place]*Actual) legRef {
	f := c.n.Flight
	if f == nil {
		return legRef{}
	}
	ref := legRef{f.Object, f.Role}
	o, d, l := c.s.leg(ref)
	if o == nil || l == nil {
		return legRef{}
	}
	of, x := o.sync(d), actual[place{f.Kind, f.ID}]
	done := event.PushSucceeded{SyncOf: of, Op: f.Op, Delete: f.Delete, Version: f.Version, ReadBack: true}
	switch applied := c.applied(in, actual); {
	case f.Delete && (x == nil || applied): // if something is there, somebody made it since
	case applied && x != nil && x.Op == f.Op && x.OpETag == x.ETag:
		if len(c.s.RulesOf(c.n.Name, f.Kind, o.Name).Compare(f.Config, x.Config, nil)) > 0 {
			c.add(event.PushFailed{SyncOf: of, Op: f.Op, Code: codeConnectionLost, Attempt: l.Attempts,
				Error: "the connection was lost before the node answered, and what it has is not spelt as what was asked: it is asked again"})
			return ref
		}
		done.ETag, done.Observed = x.ETag, x.Config
	case applied: // and somebody changed or deleted it since
		if x != nil {
			done.ETag, done.Observed = x.OpETag, f.Config
		}
	default:
		c.add(event.PushFailed{SyncOf: of, Op: f.Op, Code: codeConnectionLost, Error: "the connection was lost before the node answered, and it has not applied the push", Absent: x == nil, Attempt: l.Attempts})
		return legRef{}
	}
	c.add(done)
	switch {
	case !f.Delete:
		c.leg(o, d, &Leg{Status: Pushed, Acked: &Acked{Version: f.Version, Base: nodeconfig.Base{Desired: f.Desired, Observed: done.Observed}, ETag: done.ETag}}, x)
	case x != nil:
		c.drift(event.Sync(c.n.Name, f.Kind, f.ID, ""), place{f.Kind, f.ID}, Extraneous, false, x, nil)
	default:
		c.close(c.n.Episodes[Key(f.Kind, f.ID)], "it is gone from the node")
	}
	return ref
}

// pauses decides whether an operator has to be asked before anything is concluded from what
// is not there, or is asked no more.
func (c *comparison) pauses(in Snapshot, actual map[place]*Actual) bool {
	n, on := c.n, event.OnNode{Node: c.n.Name}
	expected, there := 0, 0
	var landed legRef
	if c.applied(in, actual) && !n.Flight.Delete {
		landed = legRef{n.Flight.Object, n.Flight.Role}
	}
	for _, r := range c.s.legsOf(n.Name) {
		o, d, l := c.s.leg(r)
		if e := n.Episodes[Key(o.Kind, d.ID)]; (l.Acked != nil || r == landed) && !o.Removed && (e == nil || e.Drift != Missing) {
			expected++
			if actual[place{o.Kind, d.ID}] != nil {
				there++
			}
		}
	}
	switch {
	case (n.Paused == nil || n.Paused.Code == Emptied) && in.Instance != "" && n.Instance != "" && in.Instance != n.Instance && (c.s.expects(n) > 0 || landed != legRef{}):
		c.add(n.rebuilt(in.Instance))
		return true
	case n.Paused != nil && n.Paused.Code == Emptied && there > 0:
		c.add(event.NodeResumed{OnNode: on, Actor: byServer, Reason: "the node has its objects again"})
	case n.Paused != nil:
		return true
	case len(in.Objects) == 0 && expected > 1 && !n.Resumed:
		c.add(event.NodePaused{OnNode: on, Code: Emptied, Detail: fmt.Sprintf("the node reports no object at all, and had acknowledged %d: it was set up anew, or has not read its configuration", expected)})
		return true
	}
	return false
}

// leg decides what the state of an object on a node, nil where it has none, is to a leg.
func (c *comparison) leg(o *Object, d *nodeconfig.Leg, l *Leg, x *Actual) {
	rules := c.s.RulesOf(c.n.Name, o.Kind, o.Name)
	p, of := place{o.Kind, d.ID}, o.sync(d)
	if l.Match != nil && (x == nil && *l.Match == "" || x != nil && *l.Match == x.ETag) {
		return // an operator decided about it as it is
	}
	drift := func(kind string, conflict bool, differences []diff.Difference) {
		if !conflict && c.s.ignoresWhole(c.n.Name, o.Kind, o.Name) {
			c.close(c.n.Episodes[Key(p.kind, p.id)], "it is ignored")
			return
		}
		c.drift(of, p, kind, conflict, x, differences)
	}
	as := func(delete bool) {
		ev := event.PushSucceeded{SyncOf: of, Delete: delete, Version: o.Version, Already: true}
		if x != nil {
			ev.ETag, ev.Observed = x.ETag, x.Config
		}
		c.add(ev)
		c.close(c.n.Episodes[Key(p.kind, p.id)], "the node has what was asked for")
	}
	acked := l.Acked
	var base *nodeconfig.Base // what the node acknowledged
	if acked != nil {
		base = &acked.Base
	}
	var since []diff.Difference // what the node changed of it
	if x != nil && acked != nil && !bytes.Equal(x.Config, acked.Observed) {
		since = rules.Compare(acked.Desired, x.Config, base)
	}
	changed := len(since) > 0
	switch desired := o.Definition.Config(d); {
	case o.Removed && x == nil:
		as(true)
	case o.Removed && acked != nil && !changed:
		c.close(c.n.Episodes[Key(p.kind, p.id)], "it is as the server knew it, and is deleted")
	case o.Anonymous:
		drift(Extraneous, true, nil)
	case o.Removed && acked == nil && len(rules.Compare(desired, x.Config, nil)) == 0:
		as(false)
	case o.Removed:
		if acked != nil {
			desired = acked.Desired
		}
		drift(Mismatched, true, rules.Compare(desired, x.Config, base))
	case x == nil && acked == nil:
		c.close(c.n.Episodes[Key(p.kind, p.id)], "it is gone from the node")
	case x == nil:
		drift(Missing, acked.Version != o.Version, nil)
	case acked == nil || changed && acked.Version != o.Version:
		if differences := rules.Compare(desired, x.Config, base); len(differences) > 0 {
			drift(Mismatched, true, differences)
			return
		}
		as(false)
	case changed && bytes.Equal(desired, acked.Desired):
		drift(Mismatched, false, since)
	case changed:
		drift(Mismatched, false, rules.Compare(desired, x.Config, base))
	default:
		c.close(c.n.Episodes[Key(p.kind, p.id)], "the node has it as it was pushed")
	}
}

// drift opens an episode, or notes that an open one is another now.
func (c *comparison) drift(of event.SyncOf, p place, kind string, conflict bool, x *Actual, differences []diff.Difference) {
	e := c.n.Episodes[Key(p.kind, p.id)]
	d := event.Drifted{ID: p.id, Conflict: conflict}
	if x != nil {
		d.ETag, d.Actual = x.ETag, x.Config
	}
	if most := event.MaxNodeDifferences; len(differences) > most {
		d.More, differences = len(differences)-most, differences[:most]
	}
	d.Differences = differences
	if e != nil && e.Drift == kind {
		name, role := c.s.named(c.n.Name, p)
		if e.Decided || e.Name != name || e.Role != role || e.ETag != d.ETag || e.Conflict != conflict || !slices.Equal(e.Differences, differences) {
			d.Episode = e.Episode
			c.add(event.DriftChanged{SyncOf: of, Drifted: d})
		}
		return
	}
	c.close(e, "it is "+kind+" now")
	c.opened++
	d.Episode = "d" + strconv.FormatUint(c.s.Episodes+c.opened, 10)
	switch kind {
	case Extraneous:
		c.add(event.DriftExtraneous{SyncOf: of, Drifted: d})
	case Missing:
		c.add(event.DriftMissing{SyncOf: of, Drifted: d})
	default:
		c.add(event.DriftMismatched{SyncOf: of, Drifted: d})
	}
}

// close ends an episode, if there is one.
func (c *comparison) close(e *Episode, reason string) {
	if e == nil {
		return
	}
	of := event.Sync(e.Node, e.Kind, cmp.Or(e.Name, e.ID), e.Role)
	if e.Decided {
		reason = "resolved: " + reason
	}
	c.add(event.DriftClosed{SyncOf: of, Episode: e.Episode, Reason: reason})
}

// open is how many episodes are open after what was decided.
func (c *comparison) open() int {
	n := len(c.n.Episodes)
	for _, ev := range c.out {
		switch ev.(type) {
		case event.DriftExtraneous, event.DriftMissing, event.DriftMismatched:
			n++
		case event.DriftClosed:
			n--
		}
	}
	return n
}

// unknown asks about objects that the server does not know.
func (c *comparison) unknown(actual map[place]*Actual) {
	var objects []event.NodeObject
	n := c.n
	for p, x := range actual { // order-free: sorted below
		if _, ours := c.s.legs[n.Name][p]; ours || c.s.ignoresWhole(n.Name, p.kind, p.id) {
			continue
		}
		objects = append(objects, event.NodeObject{Kind: x.Kind, ID: x.ID, ETag: x.ETag, Config: x.Config})
	}
	slices.SortFunc(objects, func(a, b event.NodeObject) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID)) })
	known := func(o event.NodeObject) bool {
		e := n.Episodes[Key(o.Kind, o.ID)]
		return e != nil && e.Drift == Extraneous
	}
	each := func(o event.NodeObject) {
		c.drift(event.Sync(n.Name, o.Kind, o.ID, ""), place{o.Kind, o.ID}, Extraneous, false, actual[place{o.Kind, o.ID}], nil)
	}
	for _, o := range objects {
		if known(o) {
			each(o)
		}
	}
	objects = slices.DeleteFunc(objects, known)
	switch {
	case n.Adoption != nil && len(objects) == 0:
		c.add(event.AdoptionClosed{OnNode: event.OnNode{Node: n.Name}, Reason: "the node has none of the objects any more, or the server knows them"})
	case !n.Dismissed && (n.Adoption != nil || len(objects) > 0 && n.ComparedAt == 0 || len(objects) > AtOnce):
		for _, o := range objects {
			c.close(n.Episodes[Key(o.Kind, o.ID)], "it is asked about together with others")
		}
		if n.Adoption == nil || !slices.EqualFunc(n.Adoption.Objects, objects, func(a, b event.NodeObject) bool { return a.Kind == b.Kind && a.ID == b.ID && a.ETag == b.ETag }) {
			c.add(event.AdoptionOpened{OnNode: event.OnNode{Node: n.Name}, Objects: objects})
		}
	default:
		for _, o := range objects {
			each(o)
		}
	}
}

// vanished closes the episodes of objects that are gone and that no leg is about.
func (c *comparison) vanished(actual map[place]*Actual) {
	for _, key := range slices.Sorted(maps.Keys(c.n.Episodes)) {
		e := c.n.Episodes[key]
		p := place{e.Kind, e.ID}
		_, ours := c.s.legs[c.n.Name][p]
		switch {
		case ours:
		case actual[p] == nil:
			c.close(e, "it is gone from the node")
		case c.s.ignoresWhole(c.n.Name, p.kind, p.id):
			c.close(e, "it is ignored")
		}
	}
}
