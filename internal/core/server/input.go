package server

import (
	"bytes"
	"errors"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/drift"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/warning"
)

// Input is one thing that a server decides about.
type Input interface {
	step(s *Server, t *Turn) error
}

// Connected says that a host made a request.
type Connected struct{ Host string }

// Resumed says that the server serves again, and why hosts could not report for a while. It
// comes before what they report then.
type Resumed struct{ Reason string }

// Batch are events of a host that were verified to follow its chain as a View has it.
type Batch struct {
	Host string
	View *View
	// Entries are the new ones; Events are what they decode to, nil to decode them.
	Entries []event.Entry
	Events  []event.Event
	Head    event.HostHead
}

// Claim is a host's claim of a grant that it was offered under a term.
type Claim struct {
	Host, Grant string
	Term        uint64
}

// Ahead says that a host claims to have Need events acknowledged, more than the log
// holds, as it is when the log was restored from a backup.
type Ahead struct {
	Host        string
	Incarnation uint64
	Need        uint64
}

// Fork says that an identity is proven to tell two histories or to run twice, or that its
// host says that its state was set back. Record
// names the second history, if there is one.
type Fork struct {
	Host        string
	Incarnation uint64
	Seq         uint64
	Record      digest.Digest
	Parked      string // the host's own code, if it is it who says so
}

// Release is a verified release: its events, and the identities that it revokes.
type Release struct {
	Events  []event.Event
	Revoked []fleet.Revocation
}

// Record records events of a host, or of the fleet, that Decide makes from the state.
type Record struct {
	Host   string
	Decide func(s *State, now clock.Instant) ([]event.Event, error)
}

// Operator is an operator's request, which the planner follows at once. Decide is nil
// to have it look at everything.
type Operator struct {
	Decide func(s *plan.State, now clock.Instant) ([]event.Entry, error)
}

// Nodes is what a node reports, or an operator decides about nodes.
type Nodes struct {
	Decide func(s *drift.State, now clock.Instant) ([]event.OfNodes, error)
}

// Expiries records news of what ends or fills up.
type Expiries struct{ Items []warning.Item }

// Elapsed notes the hosts that fell silent.
type Elapsed struct{}

// Tick runs the planner: see TickDue and Ticked.
type Tick struct{}

// ErrMoved says that the host's chain moved on since the View of a Batch, or that it was
// revoked: the batch has to be checked again.
var ErrMoved = errors.New("the host's chain moved on meanwhile")

// UnsureError says that a claim has to wait until the server knows that its log is whole.
type UnsureError struct{ Reason string }

func (e *UnsureError) Error() string { return e.Reason }

// Refused reports whether an error of Step left the state as it was.
func Refused(err error) bool {
	return is[*plan.ReportError](err) || is[*plan.VerbError](err) || is[*plan.ClaimRefusedError](err) || is[*UnsureError](err) || is[*SetBack](err) || is[*drift.Refusal](err) || errors.Is(err, ErrMoved)
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

func (in Connected) step(s *Server, t *Turn) error {
	return t.add(s.Planned(plan.Presence(s.Plan, in.Host, true, 0, t.Now)))
}

func (in Batch) step(s *Server, t *Turn) error {
	h, v := s.Plan.Hosts[in.Host], in.View
	if h == nil || h.Incarnation != v.Incarnation || h.Seq != v.Seq || !bytes.Equal(h.ChainHash, v.Chain) || h.RevokedBefore != v.RevokedBefore {
		return ErrMoved
	}
	if declinesTerm(in.Entries) {
		s.outrank(in.Host, t)
	}
	return t.add(s.Planned(plan.Ingest(s.Plan, in.Host, in.Entries, in.Events, in.Head, s.safe.acked(in.Host, h.Incarnation), t.Now)))
}

// declinesTerm reports whether a host declined a grant for its term.
func declinesTerm(entries []event.Entry) bool {
	for i := range entries {
		if entries[i].Type != (event.GrantDeclined{}).EventType() {
			continue
		}
		ev, err := event.Decode(entries[i])
		if d, ok := ev.(event.GrantDeclined); err == nil && ok && d.Code == host.DeclineOldTerm {
			return true
		}
	}
	return false
}

func (in Claim) step(s *Server, t *Turn) error {
	if in.Term > s.term {
		s.outrank(in.Host, t)
		return &plan.ClaimRefusedError{Reason: "the grant is of a newer server than this one"}
	}
	if b := s.Restored(t.Now).Claim(s.Plan, in.Host, in.Grant); b != nil {
		return &UnsureError{b.Message}
	}
	return t.add(s.Planned(plan.Claim(s.Plan, in.Host, in.Grant, t.Now)))
}

func (in Ahead) step(s *Server, t *Turn) error {
	h := s.Plan.Hosts[in.Host]
	if h == nil || h.Incarnation != in.Incarnation || h.Seq >= in.Need || !h.Reports() {
		return nil
	}
	if s.safe.claim(in.Host, in.Incarnation, in.Need, t.Now) {
		t.Effects = append(t.Effects, SafeModeChanged{Host: in.Host, Logged: h.Seq, Claimed: in.Need})
	}
	return nil
}

func (in Fork) step(s *Server, t *Turn) error {
	if h := s.Plan.Hosts[in.Host]; h == nil || h.Forked && (in.Parked == "" || h.Parked != "") || h.Incarnation != in.Incarnation {
		return nil
	}
	return t.add(s.Record(in.Host, t.Now, event.HostForked{Incarnation: in.Incarnation, Seq: in.Seq, Record: in.Record, Parked: in.Parked}))
}

func (in Release) step(s *Server, t *Turn) error {
	s.pace.urgent = true
	if err := t.add(s.Record("", t.Now, in.Events...)); err != nil {
		return err
	}
	for _, r := range in.Revoked {
		if h := s.Plan.Hosts[r.Host]; h != nil && h.RevokedBefore >= r.NotBefore {
			continue
		}
		ev := event.HostRevoked{NotBefore: r.NotBefore, Reason: r.Reason, Actor: "release"}
		if err := t.add(s.Record(r.Host, t.Now, ev)); err != nil {
			return err
		}
	}
	return nil
}

func (in Record) step(s *Server, t *Turn) error {
	events, err := in.Decide(s.State, t.Now)
	if err != nil {
		return err
	}
	return t.add(s.Record(in.Host, t.Now, events...))
}

func (in Operator) step(s *Server, t *Turn) error {
	if in.Decide == nil {
		s.Plan.MarkAll()
	} else if err := t.add(s.Planned(in.Decide(s.Plan, t.Now))); err != nil {
		return err
	}
	s.pace.urgent = true
	return nil
}

func (in Nodes) step(s *Server, t *Turn) error {
	s.State.Nodes.Backoff = s.cfg.PushBackoff
	events, err := in.Decide(s.State.Nodes, t.Now)
	if err != nil {
		return err
	}
	entries, err := nodeEntries(events, t.Now)
	if err := t.add(entries, err); err != nil {
		return err
	}
	return t.add(s.attend(entries, t.Now))
}

// step logs it where a host acts: nothing is expected of the others by a time.
func (in Resumed) step(s *Server, t *Turn) error {
	if !s.Plan.ActsAny() {
		return nil
	}
	return t.add(s.Planned(plan.Record(s.Plan, "", t.Now, event.ServerResumed{Reason: in.Reason})))
}

func (in Expiries) step(s *Server, t *Turn) error {
	return t.add(s.Planned(plan.Record(s.Plan, "", t.Now, s.Plan.ExpiryNews(in.Items)...)))
}

func (Elapsed) step(s *Server, t *Turn) error {
	for _, silent := range s.presence.silent(s.Plan, s.contacts, t.Now) {
		if err := t.add(s.Planned(plan.Presence(s.Plan, silent.host, false, silent.last, t.Now))); err != nil {
			return err
		}
	}
	return nil
}
