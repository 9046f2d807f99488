package audit

import (
	"errors"
	"fmt"

	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/oracle"
)

// Log checks a log as it grows: each event is held against what the specification,
// package oracle, says of the events before it. It reads nothing of the planner's state.
type Log struct {
	finding
	*oracle.Facts
	docs     oracle.Documents
	seq      uint64
	gaps     map[string]bool // hosts whose chain has one
	grants   map[string]*oracle.Grant
	outcomes map[string]host.Phase // of grants: Converged or Reverted, once
}

// NewLog returns a checker that has seen nothing yet.
func NewLog(docs oracle.Documents) *Log {
	return &Log{Facts: oracle.New(docs), docs: docs, gaps: map[string]bool{}, grants: map[string]*oracle.Grant{}, outcomes: map[string]host.Phase{}}
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
	} else {
		l.fleetEvent(e, ev)
		l.hostEvent(e, ev)
		l.grantEvent(e, ev)
		l.rolloutEvent(e, ev)
		l.apply(e, ev)
	}
	for i := range l.out {
		l.out[i].Message = fmt.Sprintf("event %d (%s): %s", seq, e.Type, l.out[i].Message)
	}
	return l.out
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
	}
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
	if l.addf(invariant, format, a...); !l.gaps[h.Name] {
		l.out[len(l.out)-1].Host = h.Name
	}
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
