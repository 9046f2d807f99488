package drift

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/internal/core/prose"
)

// Codes of what a leg waits for.
const (
	WaitsRegistration = "not-registered"
	WaitsConnection   = "offline"
	WaitsDecision     = "paused"
	WaitsConflict     = "conflict"
	WaitsComparison   = "comparing"
	WaitsOrder        = "order"
	WaitsRetry        = "retry"
	WaitsTurn         = "turn"
	WaitsInBin        = "in-bin"
)

// Wait is why a leg is not pushed yet; nil when it is pushed, or is on its way.
type Wait struct {
	Code    string        `json:"code"`
	Message string        `json:"message"`
	Next    string        `json:"next,omitempty"` // what an operator can do
	Until   clock.Instant `json:"until,omitempty"`
}

// Waits says why a leg of an object is not pushed at an instant.
func (s *State) Waits(o *Object, role string, now clock.Instant) *Wait {
	d, l := o.Definition.Leg(role), o.Legs[role]
	if d == nil || l == nil || l.Gone || l.Status == Pushed || l.Status == Pushing {
		return nil
	}
	n := s.Nodes[d.Node]
	switch {
	case l.BinnedUntil != 0:
		return &Wait{Code: WaitsInBin, Message: "it is in the bin: " + l.Error, Next: fmt.Sprintf("steady %s restore %s", nodeconfig.Command(o.Kind), o.Name), Until: l.BinnedUntil}
	case n == nil || n.RegisteredAt == 0:
		return &Wait{Code: WaitsRegistration, Message: fmt.Sprintf("node %s has never registered", d.Node), Next: "steady node token " + d.Node}
	case n.RetiredAt != 0:
		return &Wait{Code: WaitsRegistration, Message: fmt.Sprintf("node %s was retired", d.Node), Next: "steady node token " + d.Node}
	case !n.Online:
		return &Wait{Code: WaitsConnection, Message: fmt.Sprintf("node %s is offline: %s", d.Node, cmp.Or(n.Why, "it has not connected"))}
	case n.Paused != nil:
		return &Wait{Code: WaitsDecision, Message: fmt.Sprintf("node %s is paused: %s", d.Node, n.Paused.Detail), Next: "steady node resume " + d.Node}
	}
	if e := n.Episodes[Key(o.Kind, d.ID)]; e != nil && !e.Decided {
		return &Wait{Code: WaitsConflict, Message: fmt.Sprintf("node %s has something else than the server knew: %s", d.Node, e.Drift), Next: "steady drift show " + e.Episode}
	}
	if before := s.behind(o, role); before != "" {
		return &Wait{Code: WaitsOrder, Message: "leg " + before + " comes first"}
	}
	switch {
	case n.Compare:
		return &Wait{Code: WaitsComparison, Message: "the configuration of node " + d.Node + " is being read"}
	case l.RetryAt > now:
		return &Wait{Code: WaitsRetry, Message: "it failed and is tried again: " + l.Error, Until: l.RetryAt}
	}
	return &Wait{Code: WaitsTurn, Message: "another push to node " + d.Node + " comes first"}
}

// behind is the role of a leg that has to be pushed before another, or "": legs are created
// in the order of their kind, and deleted in reverse.
func (s *State) behind(o *Object, role string) string {
	roles := nodeconfig.KindOf(o.Kind).Roles
	if o.Removed {
		roles = slices.Clone(roles)
		slices.Reverse(roles)
	}
	for _, r := range roles {
		if r == role {
			break
		}
		l := o.Legs[r]
		if l != nil && l.BinnedUntil == 0 && (o.Removed && !l.Gone || !o.Removed && l.Status != Pushed) {
			return r
		}
	}
	return ""
}

// advance decides which operation a node is sent next; nil is none.
func (s *State) advance(node string, now clock.Instant) event.OfNodes {
	n := s.Nodes[node]
	if n == nil || !n.Online || n.Flight != nil || n.Compare || n.Paused != nil {
		return nil
	}
	var best legRef
	var bestLeg *Leg
	deletes := false // which goes first: it frees what others may need
	for _, r := range s.legsOf(node) {
		o, _, l := s.leg(r)
		if l.Status != Pending && l.Status != Failed || l.RetryAt > now {
			continue
		}
		if w := s.Waits(o, r.role, now); w == nil || w.Code != WaitsTurn {
			continue
		}
		if bestLeg == nil || o.Removed && !deletes || o.Removed == deletes && l.RetryAt < bestLeg.RetryAt {
			best, bestLeg, deletes = r, l, o.Removed
		}
	}
	if bestLeg == nil {
		return nil
	}
	o, d, l := s.leg(best)
	ev := event.PushStarted{SyncOf: o.sync(d), Op: n.Op + 1, Session: n.Session, Delete: o.Removed, Version: o.Version}
	switch {
	case l.Match != nil:
		ev.IfMatch = *l.Match
	case l.Acked != nil:
		ev.IfMatch = l.Acked.ETag
	}
	return ev
}

// Work is what a node is asked next.
func (s *State) Work(node string) Work {
	n := s.Nodes[node]
	if n == nil || !n.Online {
		return Work{}
	}
	w := Work{Session: n.Session}
	switch f := n.Flight; {
	case f != nil && f.Session == n.Session:
		w.Push = &Push{Op: f.Op, Kind: f.Kind, ID: f.ID, Delete: f.Delete, Config: f.Config, IfMatch: f.IfMatch}
	case n.Compare:
		w.Snapshot = true
	case n.Reread:
		w.Snapshot, w.At = true, n.ReadAt
	}
	return w
}

// pushedLeg finds the leg that a push event is about, by the flight or by its place.
func (s *State) pushedLeg(of event.SyncOf) (*Object, *nodeconfig.Leg, *Leg) {
	kind, name := of.Object()
	if of.Local {
		return s.leg(s.legs[of.Node][place{kind, name}])
	}
	if o := s.Objects[Key(kind, name)]; o != nil {
		if d := o.Definition.Leg(cmp.Or(of.Leg, kind)); d != nil && d.Node == of.Node {
			return o, d, o.Legs[d.Role]
		}
	}
	return nil, nil, nil
}

// Retries reports whether pushes of a leg failed since the last that succeeded.
func (s *State) Retries(of event.SyncOf) bool {
	_, _, l := s.pushedLeg(of)
	return l != nil && l.Attempts > 0
}

func (s *State) foldPush(at clock.Instant, ev event.Event) {
	if of, is := ev.(interface{ Object() (kind, name string) }); is {
		s.touchObject(s.Objects[Key(of.Object())])
	}
	switch ev := ev.(type) {
	case event.PushStarted:
		s.foldStarted(ev)
	case event.PushSucceeded:
		s.foldSucceeded(at, ev)
	case event.PushFailed:
		s.foldFailed(at, ev)
	case event.EffectChanged:
		if _, _, l := s.pushedLeg(ev.SyncOf); l != nil {
			l.Effect, l.Detail = ev.Effect, ev.Detail
		}
	case event.GhostCleanup:
		if _, _, l := s.pushedLeg(ev.SyncOf); l != nil {
			l.BinnedUntil, l.RetryAt = ev.RestoreUntil, 0
		}
	}
}

func (s *State) foldStarted(ev event.PushStarted) {
	o, d, l := s.pushedLeg(ev.SyncOf)
	n := s.node(ev.Node)
	n.Op = max(n.Op, ev.Op)
	if o == nil {
		return
	}
	l.Status = Pushing
	f := &Flight{Op: ev.Op, Session: ev.Session, Object: o.key(), Role: d.Role, Kind: o.Kind, ID: d.ID, Delete: ev.Delete, Version: ev.Version, IfMatch: ev.IfMatch}
	if !ev.Delete {
		f.Desired = o.Definition.Config(d)
		f.Config = f.Desired
		f.Config = s.RulesOf(ev.Node, o.Kind, o.Name).Pushed(f.Desired, n.seen(o.Kind, d.ID, l))
	}
	n.Flight = f
}

// seen is what the server knows that a leg is on its node.
func (n *Node) seen(kind, id string, l *Leg) json.RawMessage {
	if e := n.Episodes[Key(kind, id)]; l.Match != nil && e != nil && e.ETag == *l.Match {
		return e.Actual
	}
	if l.Acked != nil {
		return l.Acked.Observed
	}
	return nil
}

// foldSucceeded has a leg be as the node acknowledged it.
func (s *State) foldSucceeded(at clock.Instant, ev event.PushSucceeded) {
	n := s.node(ev.Node)
	o, d, l := s.pushedLeg(ev.SyncOf)
	var desired []byte
	if f := n.Flight; f != nil && f.Op == ev.Op {
		o, d, l = s.leg(legRef{f.Object, f.Role})
		desired = f.Desired
		n.Flight = nil
		n.Reread = true
		if n.ReadAt < at || ev.ReadBack {
			n.ReadAt = at
		}
	}
	if o == nil || l == nil {
		return
	}
	*l = Leg{Status: Pending, Acked: l.Acked, Effect: ev.Effect}
	if ev.Delete {
		if o.Removed {
			s.gone(o, d, l)
		} else {
			l.Acked = nil // it was wanted again meanwhile
		}
		return
	}
	if desired == nil {
		desired = o.Definition.Config(d)
	}
	l.Acked = &Acked{ev.Version, nodeconfig.Base{Desired: desired, Observed: ev.Observed}, ev.ETag, at}
	if !o.Removed && ev.Version == o.Version {
		l.Status = Pushed
	}
}

func (s *State) foldFailed(at clock.Instant, ev event.PushFailed) {
	n := s.node(ev.Node)
	_, _, l := s.pushedLeg(ev.SyncOf)
	if f := n.Flight; f != nil && f.Op == ev.Op {
		_, _, l = s.leg(legRef{f.Object, f.Role})
		n.Flight = nil
	}
	if l == nil {
		return
	}
	if ev.Code == CodeUnknownOutcome {
		n.Compare = true // what it came to is read back
	}
	if ev.Conflict {
		l.Status, l.Attempts, l.RetryAt = Pending, ev.Attempt, ev.RetryAt
		if l.Acked != nil && ev.ETag != "" {
			l.Acked.ETag, l.Acked.Observed = ev.ETag, ev.Observed
		}
		return
	}
	l.Status, l.Code, l.Error, l.Attempts, l.RetryAt, l.Absent = Failed, ev.Code, ev.Error, ev.Attempt, ev.RetryAt, ev.Absent
	if l.FailedSince == 0 {
		l.FailedSince = at
	}
}

// CodeUnlike is the code of a push that was accepted, and after which the node has something
// else than was asked.
const CodeUnlike = "other-values"

// CodeUnknownOutcome is the code of a push that may have been applied.
const CodeUnknownOutcome = "outcome-unknown"

// codeConnectionLost is the code of a push that got no answer and was not applied. It is tried again at once.
const codeConnectionLost = "connection-lost"

// maxError bounds what a node says of a failure, in bytes.
const maxError = 1000

func (in Answer) decide(s *State, now clock.Instant) ([]event.OfNodes, error) {
	n := s.Nodes[in.Node]
	if n == nil || n.Session != in.Session || n.Flight == nil || n.Flight.Op != in.Op {
		return nil, nil // of a push that was judged by what the node has
	}
	return s.judge(n, in, now), nil
}

// judge decides what an answer to the operation in flight comes to.
func (s *State) judge(n *Node, in Answer, now clock.Instant) []event.OfNodes {
	f := n.Flight
	o, d, l := s.leg(legRef{f.Object, f.Role})
	if o == nil || l == nil {
		return nil
	}
	of := o.sync(d)
	if in.Object != nil {
		in.Object.Config, _ = s.RulesOf(n.Name, f.Kind, o.Name).Redacted(in.Object.Config)
	}
	if len(in.Want) > 0 {
		in.Want, _ = s.RulesOf(n.Name, f.Kind, o.Name).Redacted(in.Want)
	}
	acknowledges := in.Outcome == Applied || in.Outcome == Already
	switch {
	case acknowledges:
		respelt, unlike := in.unlike(f, s.RulesOf(n.Name, f.Kind, o.Name))
		if unlike == "" {
			ev := event.PushSucceeded{SyncOf: of, Op: f.Op, Delete: f.Delete, Version: f.Version, Already: in.Outcome == Already, Respelt: respelt, Effect: in.Effect}
			if in.Object != nil {
				ev.ETag, ev.Observed = in.Object.ETag, in.Object.Config
			}
			return []event.OfNodes{ev}
		}
		in.Code, in.Error = CodeUnlike, unlike
	case in.Outcome == Conflict:
		return s.conflict(n, o, d, l, in, now)
	case in.Outcome == MaybeApplied:
		in.Code = CodeUnknownOutcome
	}
	attempt := l.Attempts + 1
	failed := event.PushFailed{SyncOf: of, Op: f.Op, Code: cmp.Or(in.Code, string(in.Outcome)), Error: clip(cmp.Or(in.Error, "the node gave no reason")),
		Absent: in.Object == nil, Attempt: attempt, RetryAt: now.Add(backoff(n.Name+"/"+f.Object+"/"+f.Role, attempt))}
	c := comparison{s: s, n: n, out: []event.OfNodes{failed}}
	if in.Outcome != MaybeApplied && in.etag() != f.IfMatch && (in.Object != nil || acknowledges) {
		c.leg(o, d, l, in.Object) // it is not as before either: an operator is asked
	}
	return c.out
}

// etag is that of what the node has, empty for nothing.
func (in *Answer) etag() string {
	if in.Object == nil {
		return ""
	}
	return in.Object.ETag
}

// unlike returns what the node that acknowledged an operation has other than was asked, empty if
// nothing; and whether what it has is what was asked by the node's word alone.
func (in *Answer) unlike(f *Flight, rules *nodeconfig.Rules) (respelt bool, text string) {
	text = "the node acknowledged the push, and has something else"
	switch {
	case in.etag() == f.IfMatch && in.Object != nil:
		text = "the node acknowledged the push, and has what it had before"
	case in.Object == nil:
		text = "the node acknowledged the push, and does not have the object"
	}
	switch {
	case f.Delete && in.Object == nil:
		return false, ""
	case f.Delete || in.Object == nil:
		return false, text
	case len(rules.Compare(f.Config, in.Object.Config, nil)) == 0:
		return false, ""
	case len(in.Want) == 0:
		return false, text + ": " + nodeconfig.Describe(rules.Compare(f.Config, in.Object.Config, nil))
	}
	differences := rules.Compare(in.Want, in.Object.Config, nil)
	if len(differences) == 0 {
		return true, ""
	}
	return false, text + ": " + nodeconfig.Describe(differences)
}

// clip bounds a text of a node and makes it one line.
func clip(s string) string { return prose.Line(s[:min(len(s), maxError)]) }

// conflict decides what becomes of a push that the node refused since it has something else:
// if that is of no importance the push is tried again, else an operator is asked.
func (s *State) conflict(n *Node, o *Object, d *nodeconfig.Leg, l *Leg, in Answer, now clock.Instant) []event.OfNodes {
	ev := event.PushFailed{SyncOf: o.sync(d), Op: in.Op, Code: "conflict", Error: "the object changed on the node", Conflict: true, Absent: in.Object == nil, Attempt: l.Attempts + 1}
	rules := s.RulesOf(n.Name, o.Kind, o.Name)
	same := l.Match == nil && l.Acked != nil && in.Object != nil && !rules.Changed(in.Object.Config, &l.Acked.Base)
	if same {
		ev.ETag, ev.Observed = in.Object.ETag, in.Object.Config
		if ev.Attempt > 3 { // a device that changes all the time
			ev.RetryAt = now.Add(backoff(n.Name+"/"+d.ID, ev.Attempt))
		}
		return []event.OfNodes{ev}
	}
	ev.RetryAt = now.Add(RetryEvery)
	c := comparison{s: s, n: n}
	c.leg(o, d, l, in.Object)
	return append([]event.OfNodes{ev}, c.out...)
}

// backoff is how long to wait after so many failures: 30 s at first, up to ten minutes, a
// fifth more or less for each leg, so that they do not come all at once.
func backoff(of string, attempt int) clock.Duration {
	d := RetryEvery
	for range min(attempt-1, 10) {
		d = min(d*3/2, MaxBackoff)
	}
	h := sha256.Sum256(fmt.Appendf(nil, "%s %d", of, attempt))
	return d*4/5 + d*2/5*clock.Duration(binary.BigEndian.Uint16(h[:])%1000)/1000
}
