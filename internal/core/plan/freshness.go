package plan

import (
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/gate"
)

// Elapsed ties the newest timestamp to the server's own clock, as the log has it:
// when it was accepted, and the latest instant since.
type Elapsed struct {
	Accepted clock.Instant `json:"accepted"`
	Latest   clock.Instant `json:"latest"`
}

// pass learns from an entry that the server made; hosts have clocks of their own.
func (e *Elapsed) pass(entry event.Entry, ev event.Event) {
	switch ev.(type) {
	case event.TimestampAccepted: // a newer signed time makes up for a clock that was ahead
		e.Accepted, e.Latest = entry.At, entry.At
	default:
		if entry.HostSeq == 0 && !event.FromHost(entry.Type) {
			e.Latest = max(e.Latest, entry.At)
		}
	}
}

// floor is the least instant that it can be by what was signed and what the log
// shows since: a server that starts with its clock set back goes on from there.
func (s *State) floor() clock.Instant {
	return s.Timestamp.IssuedAt.Add(s.Elapsed.Latest.Sub(s.Elapsed.Accepted))
}

// stale returns what keeps a channel from acting on old intent, or nil.
func (s *State) stale(c *Channel, now clock.Instant) *gate.Block {
	return gate.CheckFreshness(c.Name, s.Timestamp.IssuedAt, c.FreshnessWindow, max(now, s.floor()))
}
