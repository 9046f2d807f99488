// Package judge holds a log of the configuration of nodes, and the devices, against what must
// always hold (S44 to S52 of docs/invariants.md). It calls no decision of the fold that it
// judges.
package judge

import (
	"encoding/json"
	"fmt"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
)

// Violation is a rule that was broken.
type Violation struct{ Invariant, Message string }

// Place is an object of a device.
type Place struct{ Node, Kind, ID string }

// Seen is a snapshot as the server is given it.
type Seen struct {
	Node     string
	Session  uint64
	Op       uint64 // the newest that the node applied in truth
	Claims   uint64 // and as it says
	Complete bool
	Instance string
	Objects  map[Place]string // ETags
	Configs  map[Place]string
}

// Said is an answer of a node as the server is given it.
type Said struct {
	Node    string
	Session uint64
	Op      uint64
	Done    bool // it acknowledges the operation
	There   bool // with an object
	Config  string
	Want    string // what was asked in its own spelling
}

// node is what the log says of one.
type node struct {
	online, compared, registered, retired bool
	session, op                           uint64
	since                                 clock.Instant
	instance                              string
	paused                                string // code
	resumed                               bool   // by an operator, and not compared since
	flight                                *flight
	episodes                              map[Place]string
	drift                                 map[Place]string // kind of each open episode
	settled                               map[Place]bool   // of those, what an operator decided about
	adoption                              map[Place]bool
	sent                                  map[uint64]flight
	has                                   map[Place]string // by the newest complete snapshot
	closed                                map[Place]string // kinds of drift that closed in this commit
}

// flight is an operation as the log has it.
type flight struct {
	op      uint64
	object  string
	place   Place
	delete  bool
	ifMatch string
	asked   string
	said    *Said // that answers it
}

// known is what the server has seen of a place.
type known struct {
	version  uint64
	etag     string
	observed string
	guessed  bool // what the device made of it
	desired  string
}

// object is what an operator wants, or wants gone.
type object struct {
	kind, name string
	version    uint64
	def        nodeconfig.Definition
	removed    bool
	gone       map[string]bool // legs, of one that is removed
	maybe      map[string]bool // legs that no node ever had: the server may forget them at once
	binned     map[string]clock.Instant
}

// Judge reads a log.
type Judge struct {
	Found []Violation

	normal  func(json.RawMessage) json.RawMessage
	now     clock.Instant
	nodes   map[string]*node
	objects map[string]*object
	acked   map[Place]*known
	decided map[Place]string // ETag that an operator decided to replace
	owed    map[Place]bool   // that are to be deleted although no object names them
	doubt   map[Place]bool   // that may be to be deleted
	unsure  map[Place]bool   // that may be there although nothing is acknowledged
	rules   map[string]event.DriftIgnored
	opened  map[string]bool // names of episodes

	snapshot *Seen
	missing  []Place // found missing since the newest snapshot
	expects  int     // objects, when it came
	resync   bool    // a comparison was concluded since
}

// New returns a judge; normal is how devices spell a config.
func New(normal func(json.RawMessage) json.RawMessage) *Judge {
	return &Judge{normal: normal, nodes: map[string]*node{}, objects: map[string]*object{}, acked: map[Place]*known{}, decided: map[Place]string{},
		owed: map[Place]bool{}, doubt: map[Place]bool{}, unsure: map[Place]bool{}, rules: map[string]event.DriftIgnored{}, opened: map[string]bool{}}
}

// Violate notes a rule that was broken.
func (j *Judge) Violate(invariant, format string, args ...any) {
	j.Found = append(j.Found, Violation{invariant, fmt.Sprintf(format, args...)})
}

func (j *Judge) node(name string) *node {
	n := j.nodes[name]
	if n == nil {
		n = &node{episodes: map[Place]string{}, drift: map[Place]string{}, settled: map[Place]bool{}, adoption: map[Place]bool{}, sent: map[uint64]flight{}, closed: map[Place]string{}}
		j.nodes[name] = n
	}
	return n
}

// Applied is called before a device does an operation that replaces what has an ETag.
func (j *Judge) Applied(name, kind, id, etag string, op uint64) {
	f, sent := j.node(name).sent[op]
	if p := (Place{name, kind, id}); !sent || f.place != p {
		j.Violate("S44", "operation %d on %v is none of the log", op, p)
	} else if f.ifMatch != etag {
		j.Violate("S44", "operation %d on %v replaces %q, the log says %q", op, p, etag, f.ifMatch)
	}
}

// Answer is called before the server is given one.
func (j *Judge) Answer(s Said) {
	if n := j.node(s.Node); n.flight != nil && n.flight.op == s.Op && n.session == s.Session {
		n.flight.said = &s
	}
}

// Snapshot is called before the server is given one.
func (j *Judge) Snapshot(s Seen) {
	j.snapshot, j.missing, j.resync, j.expects = &s, nil, false, j.expected(s.Node)
	if n := j.node(s.Node); s.Complete && n.session == s.Session && n.flight == nil {
		n.has = s.Objects
	}
}

// Committed is called when all that was decided together is in the log.
func (j *Judge) Committed() {
	s := j.snapshot
	j.snapshot = nil
	for _, n := range j.nodes { // order-free: each by itself
		clear(n.closed)
	}
	if s == nil {
		return
	}
	if !s.Complete && (len(j.missing) > 0 || j.resync) {
		j.Violate("S48", "an incomplete snapshot of %s was compared: missing %v", s.Node, j.missing)
	}
	for _, p := range j.missing {
		if _, there := s.Objects[p]; there {
			j.Violate("S48", "%v is in the snapshot, and said to be missing", p)
		}
	}
}

// Log is called for each event as it is committed.
func (j *Judge) Log(at clock.Instant, ev event.OfNodes) {
	j.now = at
	switch ev := ev.(type) {
	case event.ConfigSet:
		j.set(ev)
	case event.ConfigRemoved:
		j.removed(ev)
	case event.ConfigPurged:
		j.purged(at, ev)
	case event.ConfigRestored:
		if o := j.objects[ev.Kind+"/"+ev.Name]; o == nil || len(o.binned) == 0 {
			j.Violate("S52", "%s %s was restored, and is not in the bin", ev.Kind, ev.Name)
		} else {
			j.restored(o)
		}
	case event.PushStarted:
		j.started(ev)
	case event.PushSucceeded:
		j.succeeded(ev)
	case event.PushFailed:
		j.failed(ev)
	case event.GhostCleanup:
		j.ghost(at, ev)
	case event.DriftExtraneous:
		j.open(ev.SyncOf, ev.Drifted, "extraneous")
	case event.DriftMissing:
		j.open(ev.SyncOf, ev.Drifted, "missing")
	case event.DriftMismatched:
		j.open(ev.SyncOf, ev.Drifted, "mismatched")
	case event.DriftChanged:
		j.changed(ev)
	case event.DriftClosed:
		j.closed(ev)
	case event.DriftResolved:
		j.resolved(ev)
	case event.DriftIgnored:
		j.rules[ev.Rule] = ev
	case event.DriftUnignored:
		delete(j.rules, ev.Rule)
	default:
		j.ofNode(at, ev)
	}
}

func (j *Judge) ofNode(at clock.Instant, ev event.OfNodes) {
	n := j.node(ev.On().Name)
	switch ev := ev.(type) {
	case event.NodeRegistered:
		n.registered, n.retired = true, false
	case event.NodeConnected:
		if !n.online {
			n.since = at
		}
		n.online, n.compared = true, false
		if n.retired || !n.registered {
			j.Violate("S47", "node %s is connected, and is not registered", ev.Node)
		}
		if ev.Session <= n.session {
			j.Violate("S47", "session %d of %s is not above %d", ev.Session, ev.Node, n.session)
		}
		n.session = ev.Session
		if ev.Op > n.op {
			n.op = ev.Op
			n.paused = "must be ahead"
		} else if n.paused == "" && n.instance != "" && n.instance != ev.Instance && j.expected(ev.Node) > 0 {
			n.paused = "must be rebuilt"
		}
		n.instance = ev.Instance
	case event.NodeDisconnected:
		n.online = false
	case event.NodePaused:
		n.paused = ev.Code
		if ev.Instance != "" {
			n.instance = ev.Instance
		}
	case event.NodeResumed:
		if ev.Actor == "server" && n.paused != "emptied" {
			j.Violate("S51", "node %s goes on by itself after %q", ev.Node, n.paused)
		}
		n.paused, n.resumed, n.compared = "", ev.Actor != "server", false
		for p := range j.acked { // order-free: each by itself
			if ev.Push && p.Node == ev.Node && !j.deleting(p) {
				delete(j.acked, p)
				j.unsure[p] = true
			}
		}
	case event.NodeRetired:
		*n = node{registered: n.registered, retired: true, session: n.session, op: n.op, since: at, instance: n.instance,
			episodes: map[Place]string{}, drift: map[Place]string{}, settled: map[Place]bool{}, adoption: map[Place]bool{}, sent: n.sent, closed: map[Place]string{}}
		j.forget(ev.Node)
	case event.SyncCompleted:
		n.compared, n.resumed, j.resync = true, false, true
		if ev.Open != len(n.episodes) {
			j.Violate("S46", "%d episodes of %s are open, the log says %d", len(n.episodes), ev.Node, ev.Open)
		}
	case event.AdoptionOpened:
		clear(n.adoption)
		for _, x := range ev.Objects {
			n.adoption[Place{ev.Node, x.Kind, x.ID}] = true
		}
	case event.AdoptionClosed:
		clear(n.adoption)
	}
}

// forget has nothing be expected of a node any more.
func (j *Judge) forget(name string) {
	for p := range j.acked { // order-free: each by itself
		if p.Node == name {
			delete(j.acked, p)
		}
	}
	for _, m := range []map[Place]bool{j.owed, j.doubt, j.unsure} {
		for p := range m { // order-free: each by itself
			if p.Node == name {
				delete(m, p)
			}
		}
	}
	for p := range j.decided { // order-free: each by itself
		if p.Node == name {
			delete(j.decided, p)
		}
	}
	for key, o := range j.objects { // order-free: each by itself
		for i := range o.def.Legs {
			if l := &o.def.Legs[i]; l.Node == name && o.removed {
				o.gone[l.Role] = true
			}
		}
		if o.removed && len(o.gone) == len(o.def.Legs) {
			delete(j.objects, key)
		}
	}
}
