package replay

import (
	"encoding/json"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/plan"
)

// kind says what a stretch of the log is: what came from outside, or what the
// planner decided.
type kind uint8

const (
	decided  kind = iota // by one run of the planner
	asked                // for by an operator, with all that was decided then
	reported             // a host's batch of events, with what follows from it
	claimed
	noted // anything else from outside
)

// unit is a stretch of the log that one input of the server left.
type unit struct {
	kind    kind
	at      clock.Instant // when it is played; never before the one before it
	said    clock.Instant // by the clock of the server that committed it
	term    uint64
	first   uint64
	last    uint64
	host    string
	source  string         // what is of one source comes in order
	records []event.Record // for reported: the host's own
	head    event.HostHead // of the host's chain after a batch
	grant   string         // that is claimed
	cut     bool           // it is left out
	late    bool           // it comes later than it did
}

// fromHost reports whether the host itself sent it.
func (u *unit) fromHost() bool { return u.kind == reported || u.kind == claimed }

// split takes a log apart. Every record is in one unit, in order.
func split(records []event.Record) []*unit {
	var units []*unit
	for i := 0; i < len(records); {
		u := &unit{at: records[i].At, term: records[i].Term, host: records[i].Host(), first: records[i].Seq}
		n := u.fill(records[i:])
		u.last, u.said = records[i+n-1].Seq, u.at
		if len(units) > 0 {
			u.at = max(u.at, units[len(units)-1].at)
		}
		units = append(units, u)
		i += n
	}
	return units
}

// fill says what the unit at the front of records is and how many it takes.
func (u *unit) fill(records []event.Record) int {
	r, n := &records[0], 1
	switch {
	case r.HostSeq != 0:
		return u.batch(records)
	case r.Type == (event.GrantClaimed{}).EventType():
		u.kind, u.source = claimed, u.host
		var ev event.GrantClaimed
		_ = json.Unmarshal(r.Body, &ev) // the fold refuses what is none
		u.grant = ev.Grant
	case decides(r):
		u.kind, u.host = decided, ""
		for n < len(records) && u.together(&records[n]) && decides(&records[n]) {
			n++
		}
	case actor(r) != "":
		u.kind = asked
		for n < len(records) && u.together(&records[n]) && (event.IsDecision(records[n].Type) || actor(&records[n]) != "") {
			n++
		}
	default:
		u.kind, u.source = noted, r.Type+" "+u.host
	}
	u.records = records[:n]
	return n
}

// together reports whether a record may have been committed with the unit.
func (u *unit) together(r *event.Record) bool {
	return r.At == u.at && r.Term == u.term && r.HostSeq == 0
}

// Changeable lists the changes that may be of a record: of those that the planner decided by
// itself none is, and a claim is repeated until it is answered.
func Changeable(r *event.Record) []string {
	switch {
	case r.HostSeq == 0 && decides(r):
		return nil
	case r.Type == (event.GrantClaimed{}).EventType():
		return []string{"delay"}
	}
	return []string{"delay", "drop"}
}

// decides reports whether the planner decided a record by itself.
func decides(r *event.Record) bool { return event.IsDecision(r.Type) && actor(r) == "" }

// actor is the operator who asked for what a record says, or is empty.
func actor(r *event.Record) string {
	var by struct {
		Actor string `json:"actor"`
	}
	if json.Unmarshal(r.Body, &by) != nil || plan.CarriesOut(by.Actor) || by.Actor == "release" {
		return ""
	}
	return by.Actor
}

// batch takes a host's report up to the head that closes it.
func (u *unit) batch(records []event.Record) int {
	u.kind, u.source, u.at = reported, u.host, 0 // its own events carry the host's clock
	for i := range records {
		r := &records[i]
		switch {
		case r.HostSeq != 0 && r.Host() == u.host:
			u.records = append(u.records, *r)
		case r.Host() == u.host && r.Type == (event.HostHead{}).EventType():
			u.at = r.At
			_ = json.Unmarshal(r.Body, &u.head) // the fold refuses what is none
			return i + 1
		}
	}
	return len(records) // cut off by the end of the log
}
