package audit

import (
	"github.com/steadyfleet/steady/internal/core/event"
)

// auditedNode is what rules about nodes ask of the events of one.
type auditedNode struct {
	Session  uint64
	Online   bool              `json:",omitempty"`
	Paused   bool              `json:",omitempty"`
	Compared bool              `json:",omitempty"` // since it connected, or was asked to be
	Op       uint64            // the newest operation
	Inflated bool              `json:",omitempty"` // it claimed an operation that nothing explains
	Flight   uint64            `json:",omitempty"` // the operation that is under way
	Episodes map[string]string `json:",omitempty"` // that are open: kind and name of the object on the node, by name
}

func (l *Log) node(name string) *auditedNode {
	n := l.nodes[name]
	if n == nil {
		n = &auditedNode{Episodes: map[string]string{}}
		l.nodes[name] = n
	}
	return n
}

// nodeEvent checks an event about a node, or about what nodes have.
func (l *Log) nodeEvent(e event.Entry, ev event.OfNodes) {
	switch ev := ev.(type) {
	case event.ConfigSet:
		l.must(ev.Actor != "", "S28", "%s %s was set by nobody", ev.Kind, ev.Name)
	case event.ConfigRemoved:
		l.must(ev.Actor != "", "S28", "%s %s was removed by nobody", ev.Kind, ev.Name)
	case event.PushRequested:
		l.must(ev.Actor != "", "S28", "a push to node %s was asked for by nobody", ev.Node)
	case event.DriftResolved:
		l.must(ev.Actor != "", "S28", "drift %s was resolved by nobody", ev.Episode)
	case event.DriftIgnored:
		l.must(ev.Actor != "" && ev.Reason != "", "S28", "drift is ignored by nobody, or without a reason")
	}
	if e.Subject.Kind == event.KindNode {
		l.nodeMoves(l.node(e.Subject.Name), e.Subject.Name, ev)
	}
}

func (l *Log) nodeMoves(n *auditedNode, name string, ev event.OfNodes) {
	switch ev := ev.(type) {
	case event.NodeConnected:
		l.must(ev.Session > n.Session, "S47", "session %d of node %s follows %d", ev.Session, name, n.Session)
		n.Session, n.Online, n.Compared = ev.Session, true, false
		if event.Plausible(n.Op, ev.Op) {
			n.Op = max(n.Op, ev.Op)
		} else { // what follows from it is its own doing; older servers believed it
			n.Inflated = true
			l.ofNode(name, "S47", "it claims to have applied operation %d, and the newest of the log is %d", ev.Op, n.Op)
		}
	case event.NodeDisconnected:
		n.Online = n.Online && ev.Session != n.Session
	case event.NodePaused:
		n.Paused = true
	case event.NodeResumed:
		n.Paused, n.Compared = false, false
	case event.NodeRetired:
		op := n.Op
		if op >= event.MaxCounter {
			op = 0 // of an older server
		}
		*n = auditedNode{Session: n.Session, Op: op, Episodes: map[string]string{}}
	case event.SyncRequested:
		n.Compared = false
	case event.SyncCompleted:
		n.Compared, n.Flight = true, 0 // of an object that was forgotten meanwhile nothing is under way
	case event.PushStarted:
		switch {
		case ev.Op > n.Op && n.Flight == 0:
		case n.Inflated:
			l.ofNode(name, "S47", "operation %d begins after %d, by a number that the node claimed", ev.Op, n.Op)
		default:
			l.addf("S47", "operation %d of node %s begins after %d, with %d under way", ev.Op, name, n.Op, n.Flight)
		}
		l.must(n.Online && n.Compared && !n.Paused && ev.Session == n.Session, "S47", "operation %d is sent to node %s, which is offline, paused, or was not compared", ev.Op, name)
		n.Op, n.Flight = max(n.Op, ev.Op), ev.Op
	case event.PushSucceeded:
		n.lands(ev.Op)
	case event.PushFailed:
		n.lands(ev.Op)
	default:
		l.nodeDrifts(n, name, ev)
	}
}

// ofNode adds what follows from a number that a node claimed: no decision of the server broke the invariant.
func (l *Log) ofNode(name, invariant, format string, a ...any) {
	l.addf(invariant, "node "+name+": "+format, a...)
	l.out[len(l.out)-1].Node = name
}

func (n *auditedNode) lands(op uint64) {
	if n.Flight == op {
		n.Flight = 0
	}
}

// nodeDrifts checks that an episode opens once and closes once.
func (l *Log) nodeDrifts(n *auditedNode, name string, ev event.OfNodes) {
	open := func(of event.SyncOf, d event.Drifted) {
		kind, _ := of.Object()
		at := kind + " " + d.ID
		for episode, other := range n.Episodes { // order-free: any of them breaks it
			l.must(other != at, "S46", "drift %s of %s of node %s opens while %s is open", d.Episode, at, name, episode)
		}
		n.Episodes[d.Episode] = at
	}
	switch ev := ev.(type) {
	case event.DriftExtraneous:
		open(ev.SyncOf, ev.Drifted)
	case event.DriftMissing:
		open(ev.SyncOf, ev.Drifted)
	case event.DriftMismatched:
		open(ev.SyncOf, ev.Drifted)
	case event.DriftChanged:
		l.must(n.Episodes[ev.Episode] != "", "S46", "drift %s of node %s changes and is not open", ev.Episode, name)
	case event.DriftClosed:
		l.must(n.Episodes[ev.Episode] != "", "S46", "drift %s of node %s closes and is not open", ev.Episode, name)
		delete(n.Episodes, ev.Episode)
	}
}
