package replay

import (
	"encoding/json"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/plan"
)

// kind says what a stretch of the log is: what came from outside, or what the
// planner decided.
type kind uint8

const (
	decided  kind = iota // by one run of the planner
	reported             // a host's batch of events, with what follows from it
	claimed
	present // a host is there, or is silent
	verb    // what an operator asked for, with all that it decided
	other   // anything else from outside
)

// unit is a stretch of the log that one decide function committed.
type unit struct {
	kind    kind
	at      clock.Instant // when it is played; never before the one before it
	said    clock.Instant // by the clock of the server that committed it
	term    uint64
	first   uint64
	last    uint64
	host    string
	records []event.Record // for reported: the host's own
	diverge []bool         // parallel: the mirror went another way when it was recorded
	after   standing       // of the host, once all of it was folded
	// The end of the host's chain after a batch, as it was signed.
	hash, signature []byte
	dropped         bool
}

// standing is as much of a host's machine as tells whether a fold with another
// plan has it elsewhere.
type standing struct {
	phase     host.Phase
	current   digest.Digest
	reverting bool
	due       clock.Instant
}

// planner names the types that only the planner decides, or an operator where they
// have an actor. It is an Applier, so that a new kind of decision does not compile
// until it is here.
type planner map[string]bool

var _ plan.Applier = planner{}

func decisions() planner {
	p := planner{}
	for _, apply := range []func() error{
		func() error { return p.OpenRollout(event.RolloutOpened{}) }, func() error { return p.QueueRollout(event.RolloutQueued{}) },
		func() error { return p.DeferRollout(event.RolloutDeferred{}) }, func() error { return p.MoveRollout(event.RolloutMoved{}) },
		func() error { return p.RevertRollout(event.RolloutReverting{}) }, func() error { return p.PromoteWave(event.WavePromoted{}) },
		func() error { return p.HoldWave(event.WaveHeld{}) }, func() error { return p.Grant("", event.Granted{}) },
		func() error { return p.EndGrant("", event.GrantEnded{}) }, func() error { return p.FailSilent("", event.HostFailedSilently{}) },
		func() error { return p.AddQuarantine(event.QuarantineAdded{}) }, func() error { return p.FreeSlot("", event.HostSlotFreed{}) },
		func() error { return p.Unfreeze("", event.HostUnfrozen{}) }, func() error { return p.ForceWave(event.WaveForced{}) },
		func() error { return p.BreakGlass(event.GlassBroken{}) },
	} {
		_ = apply() // it only names itself
	}
	return p
}

func (p planner) is(e event.Event) error                                { p[e.EventType()] = true; return nil }
func (p planner) OpenRollout(e event.RolloutOpened) error               { return p.is(e) }
func (p planner) QueueRollout(e event.RolloutQueued) error              { return p.is(e) }
func (p planner) DeferRollout(e event.RolloutDeferred) error            { return p.is(e) }
func (p planner) MoveRollout(e event.RolloutMoved) error                { return p.is(e) }
func (p planner) RevertRollout(e event.RolloutReverting) error          { return p.is(e) }
func (p planner) PromoteWave(e event.WavePromoted) error                { return p.is(e) }
func (p planner) ForceWave(e event.WaveForced) error                    { return p.is(e) }
func (p planner) BreakGlass(e event.GlassBroken) error                  { return p.is(e) }
func (p planner) HoldWave(e event.WaveHeld) error                       { return p.is(e) }
func (p planner) Grant(_ string, e event.Granted) error                 { return p.is(e) }
func (p planner) EndGrant(_ string, e event.GrantEnded) error           { return p.is(e) }
func (p planner) FreeSlot(_ string, e event.HostSlotFreed) error        { return p.is(e) }
func (p planner) Unfreeze(_ string, e event.HostUnfrozen) error         { return p.is(e) }
func (p planner) FailSilent(_ string, e event.HostFailedSilently) error { return p.is(e) }
func (p planner) AddQuarantine(e event.QuarantineAdded) error           { return p.is(e) }

// decides reports whether the planner decided a record by itself.
func (p planner) decides(r *event.Record) bool {
	if !p[r.Type] {
		return false
	}
	var by struct {
		Actor string `json:"actor"`
	}
	return json.Unmarshal(r.Body, &by) == nil && (by.Actor == "" || plan.CarriesOut(by.Actor))
}

// split takes a log apart. Every record is in one unit, in order. What verbs
// decided is found by the fold alone: see look.
func split(records []event.Record) []*unit {
	var units []*unit
	p := decisions()
	for i := 0; i < len(records); {
		u := &unit{at: records[i].At, term: records[i].Term, host: records[i].Host, first: records[i].Seq}
		n := u.fill(p, records[i:])
		if n == 0 {
			n = 1
		}
		u.last, u.said = records[i+n-1].Seq, u.at
		if len(units) > 0 {
			prev := units[len(units)-1]
			u.at = max(u.at, prev.at)
		}
		units = append(units, u)
		i += n
	}
	return units
}

// cut takes the records up to one out of the front, which a verb before decided. It
// reports whether any are left.
func (u *unit) cut(upTo uint64) bool {
	if u.last <= upTo {
		return false
	}
	if u.first <= upTo {
		u.records, u.first = u.records[upTo-u.first+1:], upTo+1
	}
	return true
}

// fill says what the unit at the front of records is and how many it takes.
func (u *unit) fill(p planner, records []event.Record) int {
	r := &records[0]
	switch {
	case r.HostSeq != 0:
		return u.batch(records)
	case r.Type == (event.GrantClaimed{}).EventType():
		u.kind = claimed
	case r.Type == (event.HostSilent{}).EventType() || r.Type == (event.HostReturned{}).EventType():
		u.kind = present
	case p.decides(r):
		u.kind, u.host = decided, ""
		n := 1
		for n < len(records) && records[n].At == r.At && records[n].Term == r.Term && records[n].HostSeq == 0 && p.decides(&records[n]) {
			n++
		}
		u.records = records[:n]
		return n
	default:
		u.kind = other // or a verb, which the fold tells
	}
	u.records = records[:1]
	return 1
}

// batch takes a host's report up to the head that closes it.
func (u *unit) batch(records []event.Record) int {
	u.kind, u.at = reported, 0 // its own events carry the host's clock
	for i := range records {
		r := &records[i]
		switch {
		case r.HostSeq != 0 && r.Host == u.host:
			u.records, u.diverge = append(u.records, *r), append(u.diverge, false)
		case r.Host == u.host && r.Type == (event.MirrorDiverged{}).EventType():
			u.diverge[len(u.diverge)-1] = true
		case r.Host == u.host && r.Type == (event.HostHead{}).EventType():
			u.at = r.At
			var head event.HostHead
			if json.Unmarshal(r.Body, &head) == nil {
				u.hash, u.signature = head.Hash, head.Signature
			}
			return i + 1
		}
	}
	return len(records) // cut off by the end of the log
}
