package audit

import (
	"errors"
	"fmt"
	"slices"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/oracle"
)

// Log checks a log as it grows: each event is held against what the specification,
// package oracle, says of the events before it. It reads nothing of the planner's state.
type Log struct {
	finding
	*oracle.Facts
	docs oracle.Documents
	seq  uint64
	// checkpoint is the record of the newest one.
	checkpoint uint64
	gaps       map[string]bool // hosts whose chain has one
	suspects   map[string]bool // hosts that contradicted themselves or the server's records, until they enrol again
	grants     map[string]*oracle.Grant
	outcomes   map[string]host.Phase // of grants: Converged or Reverted, once
	forgets    bool
	given      map[string][]string // grants of each host, in order
	nodes      map[string]*auditedNode
}

// remembered is how many grants of each host a snapshot has.
const remembered = 8

// Forget has the log remember no more than the last grants of each host, as a snapshot
// does, so that it does not grow for ever. That an earlier one is given or ends again is
// not found any more.
func (l *Log) Forget() *Log {
	l.forgets = true
	return l
}

// Stops returns the manifest whose rollout has to stop if an event breaks something: that
// of a decision of the server's own. What a host reports stops none, or one host could
// stop all the others.
func (l *Log) Stops(e event.Entry, ev event.Event) digest.Digest {
	if e.HostSeq != 0 || event.FromHost(e.Type) {
		return ""
	}
	switch ev := ev.(type) {
	case event.OfRollout:
		if r := l.About(ev); r != nil {
			return r.Manifest.Digest
		}
	case event.RolloutOpened:
		return ev.Manifest
	case event.GrantClaimed:
		if g := l.grants[ev.Grant]; g != nil {
			return g.Manifest
		}
	}
	return ""
}

// NewLog returns a checker that has seen nothing yet.
func NewLog(docs oracle.Documents) *Log {
	return &Log{Facts: oracle.New(docs), docs: docs, gaps: map[string]bool{}, suspects: map[string]bool{}, grants: map[string]*oracle.Grant{},
		outcomes: map[string]host.Phase{}, given: map[string][]string{}, nodes: map[string]*auditedNode{}}
}

// Observe takes the next committed entry and returns what it violates.
func (l *Log) Observe(seq uint64, e event.Entry) []Violation {
	ev, err := event.Decode(e)
	if err != nil {
		l.seq = seq
		return []Violation{{Invariant: "S25", Message: fmt.Sprintf("event %d: %v", seq, err)}}
	}
	return l.ObserveEvent(seq, e, ev)
}

// ObserveEvent is Observe of an entry that ev was decoded from.
func (l *Log) ObserveEvent(seq uint64, e event.Entry, ev event.Event) []Violation {
	l.out = nil
	if seq != l.seq+1 {
		l.addf("S25", "event %d follows event %d", seq, l.seq)
	}
	l.seq = seq
	if e.HostSeq != 0 || event.FromHost(e.Type) {
		l.chain(e)
	}
	if step, is := ev.(event.HostStepped); is {
		l.step(e, step)
	} else if of, is := ev.(event.OfNodes); is {
		l.nodeEvent(e, of)
	} else {
		l.fleetEvent(e, ev)
		l.hostEvent(e, ev)
		l.grantEvent(e, ev)
		l.rolloutEvent(e, ev)
		l.apply(e, ev)
	}
	l.attribute(e, ev)
	for i := range l.out {
		l.out[i].Message = fmt.Sprintf("event %d (%s): %s", seq, e.Type, l.out[i].Message)
	}
	return l.out
}

// attribute has a host answer for what is found about it, or about a rollout that it is in, once
// it contradicted itself: all that the log has of its machine are its reports, and where they
// fit together no more the server and the specification may follow it to different ends.
// How a report comes into the log is the server's to answer for.
func (l *Log) attribute(e event.Entry, ev event.Event) {
	if _, enrols := ev.(event.HostEnrolled); enrols {
		delete(l.suspects, e.Host())
	}
	if name := l.suspect(e, ev); name != "" {
		for i := range l.out {
			if v := &l.out[i]; v.Host == "" {
				v.Host, v.Disputed = name, true
			}
		}
	}
	for i := range l.out {
		if v := &l.out[i]; v.Host != "" {
			l.suspects[v.Host] = true
		}
	}
}

// suspect is the host that contradicted itself and that a record of the server rests on, if any.
func (l *Log) suspect(e event.Entry, ev event.Event) string {
	if e.HostSeq != 0 || len(l.suspects) == 0 || len(l.out) == 0 {
		return ""
	}
	if l.suspects[e.Host()] {
		return e.Host()
	}
	r := l.About(ev)
	if claim, is := ev.(event.GrantClaimed); is && l.grants[claim.Grant] != nil {
		r = l.Find(l.grants[claim.Grant].Manifest)
	}
	if r != nil {
		for i := range r.Manifest.Leaves {
			if name := r.Manifest.Leaves[i].Host; l.suspects[name] {
				return name
			}
		}
	}
	return ""
}

func (l *Log) apply(e event.Entry, ev event.Event) {
	err := l.Apply(e, ev)
	if unknown := (*oracle.UnknownError)(nil); errors.As(err, &unknown) {
		l.addf("S25", "event %d of type %s is not checked", l.seq, e.Type)
	} else if err != nil {
		l.addf("S30", "%v", err)
	}
	if g, is := ev.(event.Granted); is {
		l.grants[g.Grant] = l.Host(e.Host()).Grant
		l.given[e.Host()] = append(l.given[e.Host()], g.Grant)
		if l.forgets {
			l.forget(e.Host())
		}
	}
}

// forget drops the grants of a host that a snapshot would not have.
func (l *Log) forget(host string) {
	keep := l.lastOf(host)
	for _, id := range l.given[host] {
		if !slices.Contains(keep, id) {
			delete(l.grants, id)
			delete(l.outcomes, id)
		}
	}
	l.given[host] = keep
}

// lastOf lists the last grants of a host, and the ones before that it still acts on, in
// order.
func (l *Log) lastOf(host string) []string {
	given, h := l.given[host], l.Host(host)
	first := max(0, len(given)-remembered)
	var out []string
	for _, id := range given[:first] {
		if id == h.Acting || id == h.Reboot {
			out = append(out, id)
		}
	}
	return append(out, given[first:]...)
}

func (l *Log) chain(e event.Entry) {
	h := l.Host(e.Host())
	if !event.FromHost(e.Type) {
		l.addf("S3", "the chain of host %s holds an event that hosts do not report", e.Host())
	}
	if e.Incarnation != h.Incarnation || e.HostSeq != h.Seq+1 {
		l.addf("S33", "event %d/%d of host %s follows %d/%d", e.Incarnation, e.HostSeq, e.Host(), h.Incarnation, h.Seq)
		l.gaps[e.Host()] = true
	}
	if h.Closed() {
		l.addf("S43", "event %d of host %s was accepted after its certificates ended", e.HostSeq, e.Host())
	}
}

// consistent adds, unless ok, what the events of a host prove by themselves: no record
// of the server may be part of the proof. Of a chain with a gap nothing is proven.
func (l *Log) consistent(ok bool, h *oracle.Host, invariant, format string, a ...any) {
	if ok {
		return
	}
	if h.Apart { // from where it is by the records
		l.disputed(false, h, invariant, format, a...)
		return
	}
	if l.addf(invariant, format, a...); !l.gaps[h.Name] {
		l.out[len(l.out)-1].Host = h.Name
	}
}

// disputed adds, unless ok, what a host reports against the records of the server: one of
// the two is wrong, and nobody can tell by the log which.
func (l *Log) disputed(ok bool, h *oracle.Host, invariant, format string, a ...any) {
	if ok {
		return
	}
	l.addf(invariant, format+"; it reports that against the records of the server: it lies, or one is missing", a...)
	v := &l.out[len(l.out)-1]
	v.Host, v.Disputed = h.Name, true
}

// find returns the rollout that an event names.
func (l *Log) find(ev event.OfRollout) *oracle.Rollout {
	name, _ := ev.Of()
	if r := l.About(ev); r != nil && r.Name == name {
		return r
	}
	l.addf("S25", "rollout %s never opened", name)
	return nil
}
