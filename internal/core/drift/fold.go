package drift

import (
	"cmp"
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
)

// Apply folds an entry; one that is not about nodes changes nothing.
func (s *State) Apply(e event.Entry) error {
	if !event.IsOfNodes(e.Type) {
		return nil
	}
	ev, err := event.Decode(e)
	if err != nil {
		return err
	}
	s.fold(e.At, ev)
	return nil
}

// fold applies an event at an instant of the server.
func (s *State) fold(at clock.Instant, ev event.Event) {
	switch ev := ev.(type) {
	case event.ConfigSet, event.ConfigRemoved, event.ConfigRestored, event.ConfigPurged:
		s.foldObject(at, ev)
	case event.PushStarted, event.PushSucceeded, event.PushFailed, event.PushRequested, event.EffectChanged, event.GhostCleanup:
		s.foldPush(at, ev)
	case event.DriftExtraneous, event.DriftMissing, event.DriftMismatched, event.DriftChanged, event.DriftClosed:
		s.foldDrift(at, ev)
	case event.DriftResolved:
		s.foldResolved(at, ev)
	case event.ResolutionUndone:
		for i := range s.Resolutions {
			s.Resolutions[i].Undone = s.Resolutions[i].Undone || s.Resolutions[i].Resolution == ev.Resolution
		}
	case event.DriftIgnored:
		s.Rules[ev.Rule] = &Rule{ev, at}
		s.compareAll()
	case event.DriftUnignored:
		delete(s.Rules, ev.Rule)
		s.compareAll()
	case event.OfNodes:
		s.foldNode(at, ev)
	}
	s.touch(ev)
}

// compareAll has every node compared: the rules are others.
func (s *State) compareAll() {
	for _, n := range s.Nodes { // order-free: each by itself
		n.Compare = true
	}
}

// node returns the node of an event, which a log names before anything else of it.
func (s *State) node(name string) *Node {
	n := s.Nodes[name]
	if n == nil {
		n = &Node{Name: name, Episodes: map[string]*Episode{}}
		s.Nodes[name] = n
	}
	return n
}

func (s *State) foldNode(at clock.Instant, ev event.OfNodes) {
	n := s.node(ev.On().Name)
	switch ev := ev.(type) {
	case event.NodeRegistered:
		n.Key, n.NextKey, n.RegisteredAt, n.RetiredAt = ev.Key, nil, at, 0
		s.Tokens[ev.Token] = n.Name
	case event.NodeKeyOffered:
		n.NextKey = ev.Key
	case event.NodeKeyChanged:
		n.Key, n.NextKey = n.NextKey, nil
	case event.NodeConnected:
		if !n.Online {
			n.Since = at
		}
		for _, r := range s.legs[n.Name] { // order-free: each by itself
			_, _, l := s.leg(r)
			l.again() // what is pending or failed is pushed once it was compared
			l.Effect, l.Detail = "", ""
		}
		n.UnreadSince = cmp.Or(n.UnreadSince, at)
		n.Session, n.Online, n.Why, n.Compare, n.RefusedFor = ev.Session, true, "", true, ""
		n.Instance, n.Machine, n.Driver, n.Version = ev.Instance, ev.Machine, ev.Driver, ev.Version
		if event.Plausible(n.Op, ev.Op) { // older servers logged any
			n.Op = max(n.Op, ev.Op)
		}
		if ev.Collections != nil {
			n.Collections = ev.Collections
			delete(s.clean, n.Name)
		}
	case event.NodeDisconnected:
		if ev.Session == n.Session && n.Online {
			n.Online, n.Since, n.Why, n.UnreadSince = false, at, ev.Reason, cmp.Or(n.UnreadSince, at)
			for _, r := range s.legs[n.Name] { // order-free: each by itself
				_, _, l := s.leg(r)
				l.Effect, l.Detail = "", "" // nothing new is known of it
			}
		}
	case event.NodePaused:
		n.Paused = &Pause{ev.Code, ev.Detail, at}
		if ev.Instance != "" {
			n.Instance = ev.Instance
		}
	case event.NodeResumed:
		s.foldResumed(n, ev)
	case event.NodeRetired:
		s.foldRetired(at, n, ev)
	case event.NodeRefused:
		n.RefusedFor = ev.Code
	case event.NodePlaced:
		n.Placed = ev.Machine
	case event.SyncRequested:
		n.Compare = true
	case event.SyncCompleted:
		n.Compare, n.Reread, n.ComparedAt, n.UnreadSince, n.Refusal, n.Resumed, n.Dismissed = false, false, at, 0, "", false, false
		n.Generation, n.Reported = ev.Generation, ev.Objects
	case event.SnapshotRefused:
		n.Refusal = ev.Code
	case event.AdoptionOpened:
		n.Adoption = &Adoption{slices.Clone(ev.Objects), at}
	case event.AdoptionClosed:
		n.Adoption, n.Compare, n.Dismissed = nil, true, ev.Actor != ""
	}
}

// foldResumed has a node go on. To push again what it lost is to have the server know
// nothing of it any more, as with a new one.
func (s *State) foldResumed(n *Node, ev event.NodeResumed) {
	n.Paused, n.Compare, n.Resumed = nil, true, ev.Actor != byServer
	if !ev.Push {
		return
	}
	for _, r := range s.legsOf(n.Name) {
		if o, _, l := s.leg(r); !o.Removed && l.BinnedUntil == 0 {
			l.again()
			l.Acked, l.Unknown, l.Attempts, l.FailedSince = nil, l.Unknown || l.Acked != nil, 0, 0
			l.wait()
		}
	}
}

// foldRetired has nothing be expected of a node any more: tombstones need no confirmation.
func (s *State) foldRetired(at clock.Instant, n *Node, ev event.NodeRetired) {
	n.Online, n.Since, n.UnreadSince, n.Why, n.RetiredAt = false, at, 0, "it was retired", max(ev.NotBefore, 1)
	n.Key, n.NextKey, n.Paused, n.Adoption, n.Flight, n.Compare, n.Reread = nil, nil, nil, nil, nil, false, false
	n.ComparedAt = 0 // what it has when it comes back is a first contact
	if n.Op >= event.MaxCounter {
		n.Op = 0 // of an older server's state
	}
	clear(n.Episodes)
	for _, r := range s.legsOf(n.Name) {
		o, d, l := s.leg(r)
		if o.Removed {
			s.gone(o, d, l)
		} else if l.BinnedUntil == 0 {
			*l = Leg{Status: Pending}
		}
	}
}

func (s *State) foldDrift(at clock.Instant, ev event.Event) {
	open := func(of event.SyncOf, drift string, d event.Drifted) {
		kind, _ := of.Object()
		n := s.node(of.Node)
		e := &Episode{Node: of.Node, Kind: kind, Drift: drift, OpenedAt: at, ChangedAt: at, Drifted: d}
		e.Name, e.Role = s.named(of.Node, place{kind, d.ID})
		n.Episodes[Key(kind, d.ID)] = e
		s.undecide(of.Node, place{kind, d.ID})
		s.Episodes++
	}
	switch ev := ev.(type) {
	case event.DriftExtraneous:
		open(ev.SyncOf, Extraneous, ev.Drifted)
	case event.DriftMissing:
		open(ev.SyncOf, Missing, ev.Drifted)
		if _, _, l := s.pushedLeg(ev.SyncOf); l != nil {
			l.Effect, l.Detail = "", ""
		}
	case event.DriftMismatched:
		open(ev.SyncOf, Mismatched, ev.Drifted)
	case event.DriftChanged:
		kind, _ := ev.Object()
		if e := s.node(ev.Node).Episodes[Key(kind, ev.ID)]; e != nil {
			e.Drifted, e.ChangedAt, e.Decided = ev.Drifted, at, false
			e.Name, e.Role = s.named(ev.Node, place{kind, ev.ID})
			s.undecide(ev.Node, place{kind, ev.ID})
		}
	case event.DriftClosed:
		for key, e := range s.node(ev.Node).Episodes { // order-free: names are unique
			if e.Episode == ev.Episode {
				delete(s.Nodes[ev.Node].Episodes, key)
				s.undecide(ev.Node, place{e.Kind, e.ID})
			}
		}
	}
}

// named is what the server calls an object of a node, empty if it does not know it.
func (s *State) named(node string, p place) (name, role string) {
	r, there := s.legs[node][p]
	if o := s.Objects[r.object]; there && !o.Anonymous {
		return o.Name, r.role
	}
	return "", ""
}

// undecide forgets what an operator decided about something that is another now.
func (s *State) undecide(node string, p place) {
	if r, there := s.legs[node][p]; there {
		if _, _, l := s.leg(r); l != nil {
			l.Match = nil
		}
	}
}

// foldResolved notes a decision. What becomes of the object stands in an event of its own.
func (s *State) foldResolved(at clock.Instant, ev event.DriftResolved) {
	s.Resolutions = append(s.Resolutions, Resolution{DriftResolved: ev, At: at})
	s.Resolutions = slices.Delete(s.Resolutions, 0, max(0, len(s.Resolutions)-MaxResolutions))
	kind, _ := ev.Object()
	n, p := s.node(ev.Node), place{kind, ev.ID}
	if e := n.Episodes[Key(p.kind, p.id)]; e != nil {
		e.Decided = true
	}
	if a := n.Adoption; a != nil {
		a.Objects = slices.DeleteFunc(a.Objects, func(x event.NodeObject) bool { return x.Kind == kind && x.ID == ev.ID })
	}
	r, there := s.legs[ev.Node][p]
	if !there && ev.Action == ActionDeleteNode {
		d := nodeconfig.Leg{Role: nodeconfig.KindOf(kind).Roles[0], Node: ev.Node, ID: ev.ID, Config: ev.Actual}
		s.bury(at, kind, &d, &Leg{Status: Pending, Match: &ev.ETag})
	}
	if !there {
		return
	}
	_, _, l := s.leg(r)
	switch ev.Action {
	case ActionIngest:
		l.Match = nil
		if l.Acked != nil {
			l.Acked.Observed, l.Acked.ETag = ev.Actual, ev.ETag
		}
		n.Compare = true
	case ActionRepush, ActionDeleteNode:
		l.again()
		l.Match, l.Attempts, l.FailedSince, l.Code, l.Error = &ev.ETag, 0, 0, "", ""
		l.wait()
	}
}

// touch notes which nodes an event may have made a difference for.
func (s *State) touch(ev event.Event) {
	switch ev := ev.(type) {
	case event.DriftIgnored, event.DriftUnignored:
		for name := range s.Nodes { // order-free: it fills a set
			s.moved[name] = true
		}
	case event.OfNodes:
		if sub := ev.On(); sub.Kind == event.KindNode {
			s.moved[sub.Name] = true
		} else {
			s.touchObject(s.Objects[Key(sub.Kind, sub.Name)])
		}
	}
}

// touchObject notes the nodes of an object: its legs wait for one another.
func (s *State) touchObject(o *Object) {
	if o != nil {
		for i := range o.Definition.Legs {
			s.moved[o.Definition.Legs[i].Node] = true
		}
	}
}
