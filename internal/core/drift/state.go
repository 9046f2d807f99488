// Package drift folds what the server keeps of nodes, which own their configuration: the
// objects that operators want on them with the push status of every leg, and episodes of
// drift. It decides what is pushed, and compares what nodes report. Nothing that a node has
// is overwritten or deleted unless the server, or an operator, has seen it like that
// (invariant S34): every operation names the ETag of what it replaces, and the node refuses
// it otherwise.
package drift

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
)

// State is the fold over the log.
type State struct {
	Nodes   map[string]*Node   `json:"nodes"`
	Objects map[string]*Object `json:"objects"` // by Key
	Rules   map[string]*Rule   `json:"rules"`
	// Tokens that were used, each with the node that used it.
	Tokens map[string]string `json:"tokens"`
	// Resolutions are the newest decisions about drift, which can be undone.
	Resolutions []Resolution `json:"resolutions"`
	Episodes    uint64       `json:"episodes"` // that were ever opened

	legs map[string]map[place]legRef // by node
	wake map[string]clock.Instant    // by node: when something is due there

	moved map[string]bool // nodes that something changed for since flush

	// clean are the objects of the newest snapshot of each node whose text is their form and has no secret, by
	// Actual.digest: they need not be read again. What is decided does not depend on it.
	clean map[string]map[digest.Digest]bool

	// Backoff is of the process and not of the log, which has the instants that come of it.
	Backoff Backoff `json:"-"`
}

// place is an object as a node knows it.
type place struct{ kind, id string }

// legRef finds a leg.
type legRef struct{ object, role string }

// Key is the place of an object in State.Objects.
func Key(kind, name string) string { return kind + "/" + name }

// Node is a node.
type Node struct {
	Name    string `json:"name"`
	Key     []byte `json:"key"`
	NextKey []byte `json:"nextKey,omitempty"`

	RegisteredAt clock.Instant `json:"registeredAt"`
	// RetiredAt is set on one that is gone for good, which ends tokens from before.
	RetiredAt clock.Instant `json:"retiredAt,omitempty"`

	Session uint64        `json:"session"`
	Online  bool          `json:"online"`
	Since   clock.Instant `json:"since,omitempty"` // it is online, or offline
	Why     string        `json:"why,omitempty"`   // it is offline
	// UnreadSince is since when its configuration is not known: it disconnected, or connected for the
	// first time, and no comparison has ended since. Zero while it is known.
	UnreadSince clock.Instant `json:"unreadSince,omitempty"`

	Instance string `json:"instance,omitempty"`
	Machine  string `json:"machine,omitempty"` // as the node claims
	Placed   string `json:"placed,omitempty"`  // as an operator knows it
	Driver   string `json:"driver,omitempty"`
	Version  string `json:"version,omitempty"`

	Collections []event.NodeCollection `json:"collections,omitempty"`

	Op     uint64  `json:"op"` // the newest operation that was decided or reported
	Flight *Flight `json:"flight,omitempty"`
	Paused *Pause  `json:"paused,omitempty"`

	// Compare says that the configuration is to be read before anything is pushed. Reread says
	// that it is to be read because something was, at ReadAt.
	Compare bool          `json:"compare,omitempty"`
	Reread  bool          `json:"reread,omitempty"`
	ReadAt  clock.Instant `json:"readAt,omitempty"`

	// ComparedAt is zero until a first comparison was made.
	ComparedAt clock.Instant `json:"comparedAt,omitempty"`
	Generation uint64        `json:"generation,omitempty"`
	Reported   int           `json:"reported"` // objects that it had then
	// Refusal is the code of why its newest snapshot was of no use, RefusedFor of why a
	// connection was refused.
	Refusal    string `json:"refusal,omitempty"`
	RefusedFor string `json:"refusedFor,omitempty"`

	Adoption *Adoption `json:"adoption,omitempty"`
	// Resumed and Dismissed say that an operator had it go on, or its adoption be dropped,
	// which the next comparison is not to ask again.
	Resumed   bool                `json:"resumed,omitempty"`
	Dismissed bool                `json:"dismissed,omitempty"`
	Episodes  map[string]*Episode `json:"episodes"` // that are open, by Key of kind and id
}

// Flight is the operation that a node was sent, or is about to be.
type Flight struct {
	Op      uint64          `json:"op"`
	Session uint64          `json:"session"`
	Object  string          `json:"object"`
	Role    string          `json:"role"`
	Kind    string          `json:"kind"`
	ID      string          `json:"id"`
	Delete  bool            `json:"delete,omitempty"`
	Version uint64          `json:"version"`
	IfMatch string          `json:"ifMatch,omitempty"`
	Desired json.RawMessage `json:"desired,omitempty"`
	Config  json.RawMessage `json:"config,omitempty"` // Desired with what is ignored as it is on the node
}

// Pause is why nothing is pushed to a node.
type Pause struct {
	Code   string        `json:"code"`
	Detail string        `json:"detail"`
	Since  clock.Instant `json:"since"`
}

// Codes of a Pause.
const (
	Ahead   = "ahead"
	Rebuilt = "rebuilt"
	Emptied = "emptied"
)

// Adoption is a question about objects of a node that the server does not know.
type Adoption struct {
	Objects []event.NodeObject `json:"objects"`
	Since   clock.Instant      `json:"since"`
}

// Status is how far a leg is pushed.
type Status string

// The statuses of a leg (seed 000).
const (
	Pending Status = "pending"
	Pushing Status = "pushing"
	Pushed  Status = "pushed"
	Failed  Status = "failed"
)

// Object is what an operator wants on nodes.
type Object struct {
	Kind       string                `json:"kind"`
	Name       string                `json:"name"`
	Version    uint64                `json:"version"`
	Definition nodeconfig.Definition `json:"definition"`
	Legs       map[string]*Leg       `json:"legs"` // by role
	// Removed says that it is a tombstone: it stays until every node has confirmed that it is
	// gone there.
	Removed bool `json:"removed,omitempty"`
	// Anonymous is the tombstone of what only a node knows.
	Anonymous bool          `json:"anonymous,omitempty"`
	ChangedAt clock.Instant `json:"changedAt"`
	// History has the newest definitions, this one last.
	History []Revision `json:"history,omitempty"`
}

// MaxHistory bounds Object.History.
const MaxHistory = 20

// Revision is a definition that an object had.
type Revision struct {
	Version    uint64                `json:"version"`
	Definition nodeconfig.Definition `json:"definition"`
	Origin     string                `json:"origin"`
	Actor      string                `json:"actor"`
	Reason     string                `json:"reason"`
	At         clock.Instant         `json:"at"`
}

// Leg is how far the part of one node is.
type Leg struct {
	Status Status `json:"status"`
	// Code and Error say why the newest push failed; FailedSince is when the first of a row of
	// failures was, RetryAt when the next attempt is due.
	Code        string        `json:"code,omitempty"`
	Error       string        `json:"error,omitempty"`
	Attempts    int           `json:"attempts,omitempty"`
	FailedSince clock.Instant `json:"failedSince,omitempty"`
	RetryAt     clock.Instant `json:"retryAt,omitempty"`
	// Failures counts those since the back-off began: with the connection of the node, or when
	// somebody asked for the push.
	Failures int `json:"failures,omitempty"`
	// Absent says that the node had no such object when it failed.
	Absent bool `json:"absent,omitempty"`
	// Acked is what the node acknowledged last; nil if nothing.
	Acked *Acked `json:"acked,omitempty"`
	// Unknown says that the node may have it although nothing of it is acknowledged.
	Unknown bool `json:"unknown,omitempty"`
	// Match is the ETag that an operator decided to replace.
	Match *string `json:"match,omitempty"`
	// Effect says whether it is in effect, if the node can tell.
	Effect string `json:"effect,omitempty"`
	Detail string `json:"detail,omitempty"`
	// BinnedUntil is set on a ghost: until then it can be restored.
	BinnedUntil clock.Instant `json:"binnedUntil,omitempty"`
	// Gone says that the node confirmed the deletion.
	Gone bool `json:"gone,omitempty"`
}

// again ends the back-off of a leg.
func (l *Leg) again() { l.RetryAt, l.Failures = 0, 0 }

// PushStatus is Status for people: a push that failed stays failed while it is tried again.
func (l *Leg) PushStatus() Status {
	if l.Status == Pushing && l.FailedSince != 0 {
		return Failed
	}
	return l.Status
}

// Acked is what a node acknowledged.
type Acked struct {
	Version uint64 `json:"version"`
	nodeconfig.Base
	ETag string        `json:"etag,omitempty"`
	At   clock.Instant `json:"at"`
}

// Kinds of drift (seed 000).
const (
	Extraneous = "extraneous"
	Missing    = "missing"
	Mismatched = "mismatched"
)

// Episode is drift from when it was found until it is gone. Its name is Drifted.Episode, and
// Drifted.ID what the device calls the object.
type Episode struct {
	Node      string        `json:"node"`
	Kind      string        `json:"kind"`
	Name      string        `json:"name,omitempty"` // on the server; empty if it does not know it
	Role      string        `json:"role,omitempty"`
	Drift     string        `json:"drift"`
	OpenedAt  clock.Instant `json:"openedAt"`
	ChangedAt clock.Instant `json:"changedAt"`
	event.Drifted
	// Decided says that an operator decided to replace or delete what was seen.
	Decided bool `json:"decided,omitempty"`
}

// Rule has fields be no drift.
type Rule struct {
	event.DriftIgnored
	At clock.Instant `json:"at"`
}

// Resolution is a decision about an episode.
type Resolution struct {
	event.DriftResolved
	At     clock.Instant `json:"at"`
	Undone bool          `json:"undone,omitempty"`
}

// MaxResolutions bounds State.Resolutions.
const MaxResolutions = 200

// Times (seed 000 and section 5.7 of the design).
const (
	GhostAfter = 5 * clock.Minute
	BinFor     = 7 * clock.Day
)

// New returns the state before the first event.
func New() *State { return Restore(nil) }

// Restore completes a state that was decoded from a snapshot; nil is one from before there
// were nodes.
func Restore(s *State) *State {
	if s == nil {
		s = &State{}
	}
	if s.Nodes == nil {
		s.Nodes = map[string]*Node{}
	}
	if s.Objects == nil {
		s.Objects = map[string]*Object{}
	}
	if s.Rules == nil {
		s.Rules = map[string]*Rule{}
	}
	if s.Tokens == nil {
		s.Tokens = map[string]string{}
	}
	s.legs, s.wake, s.moved = map[string]map[place]legRef{}, map[string]clock.Instant{}, map[string]bool{}
	s.clean = map[string]map[digest.Digest]bool{}
	for _, n := range s.Nodes { // order-free: each by itself
		if n.Episodes == nil {
			n.Episodes = map[string]*Episode{}
		}
	}
	for _, o := range s.Objects { // order-free: each by itself
		s.index(o)
	}
	for name := range s.Nodes { // order-free: each by itself
		s.moved[name] = true
	}
	return s
}

// index enters the legs of an object.
func (s *State) index(o *Object) {
	for i := range o.Definition.Legs {
		l := &o.Definition.Legs[i]
		if o.Legs[l.Role] == nil || o.Legs[l.Role].Gone {
			continue
		}
		at := s.legs[l.Node]
		if at == nil {
			at = map[place]legRef{}
			s.legs[l.Node] = at
		}
		at[o.takes(l)] = legRef{o.key(), l.Role}
	}
}

// unindex takes the legs of an object out again.
func (s *State) unindex(o *Object) {
	for i := range o.Definition.Legs {
		s.unindexLeg(o, &o.Definition.Legs[i])
	}
}

func (s *State) unindexLeg(o *Object, d *nodeconfig.Leg) {
	if p := o.takes(d); s.legs[d.Node][p] == (legRef{o.key(), d.Role}) {
		delete(s.legs[d.Node], p)
	}
}

// takes is the place of a leg in the index. One in the bin takes none on its node: its place there
// is another one's to use, and no kind of a node is called like an object.
func (o *Object) takes(d *nodeconfig.Leg) place {
	if l := o.Legs[d.Role]; l != nil && l.BinnedUntil != 0 {
		return place{o.key(), d.ID}
	}
	return place{o.Kind, d.ID}
}

func (o *Object) key() string { return Key(o.Kind, o.Name) }

// sync names a leg in events.
func (o *Object) sync(l *nodeconfig.Leg) event.SyncOf {
	if o.Anonymous {
		of := event.Sync(l.Node, o.Kind, l.ID, "")
		of.Local = true
		return of
	}
	return event.Sync(l.Node, o.Kind, o.Name, l.Role)
}

// leg returns what a reference names.
func (s *State) leg(r legRef) (*Object, *nodeconfig.Leg, *Leg) {
	o := s.Objects[r.object]
	if o == nil {
		return nil, nil, nil
	}
	return o, o.Definition.Leg(r.role), o.Legs[r.role]
}

// legsOf lists the legs of a node in order.
func (s *State) legsOf(node string) []legRef {
	refs := make([]legRef, 0, len(s.legs[node]))
	for _, r := range s.legs[node] { // order-free: sorted below
		refs = append(refs, r)
	}
	slices.SortFunc(refs, func(a, b legRef) int { return slices.Compare([]string{a.object, a.role}, []string{b.object, b.role}) })
	return refs
}

// RulesOf returns the rules by which objects of a kind are compared on a node, and pushed.
func (s *State) RulesOf(node, kind, name string) *nodeconfig.Rules {
	r := &nodeconfig.Rules{}
	if n := s.Nodes[node]; n != nil {
		if i := slices.IndexFunc(n.Collections, func(c event.NodeCollection) bool { return c.Kind == kind }); i >= 0 {
			r = &n.Collections[i].Rules
		}
	}
	var ignored []string
	for _, id := range slices.Sorted(maps.Keys(s.Rules)) {
		if x := s.Rules[id]; x.Field != "" && x.covers(node, kind, name) {
			ignored = append(ignored, x.Field)
		}
	}
	return r.With(ignored)
}

func (x *Rule) covers(node, kind, name string) bool {
	return (x.Node == "" || x.Node == node) && (x.Kind == "" || x.Kind == kind) && (x.Name == "" || x.Name == name)
}

// ignoresWhole reports whether an object of a node is no drift at all.
func (s *State) ignoresWhole(node, kind, id string) bool {
	for _, x := range s.Rules { // order-free: any of them does
		if x.Field == "" && x.covers(node, kind, id) {
			return true
		}
	}
	return false
}

// Episode finds an open episode by its name, or returns nil.
func (s *State) Episode(id string) *Episode {
	for _, n := range s.Nodes { // order-free: names are unique
		for _, e := range n.Episodes { // order-free: names are unique
			if e.Episode == id {
				return e
			}
		}
	}
	return nil
}

// NamesIn lists the nodes that an entry, which was folded, may make a difference for.
func (s *State) NamesIn(e *event.Entry) (out []string) {
	for _, of := range event.About(e) {
		if of.Kind == event.KindNode {
			out = append(out, of.Name)
		} else if o := s.Objects[Key(of.Kind, of.Name)]; o != nil {
			for i := range o.Definition.Legs {
				out = append(out, o.Definition.Legs[i].Node)
			}
		}
	}
	if e.Subject == (event.Subject{}) {
		return slices.Sorted(maps.Keys(s.Nodes))
	}
	return out
}
