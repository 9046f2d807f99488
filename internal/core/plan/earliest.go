package plan

import (
	"cmp"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// HostClock ties a host's own clock to the server's. A report arrives after it
// was made, so the least difference seen is the nearest to the truth; a start of
// the agent begins again, since its clock may have stood still.
type HostClock struct {
	// At is when the newest event happened, on the host's clock.
	At clock.Instant `json:"at,omitempty"`
	// Ahead is how much the server's clock is ahead, once Known.
	Ahead clock.Duration `json:"ahead,omitempty"`
	Known bool           `json:"known,omitempty"`
}

// observe learns from a report that arrived at an instant of the server.
func (c *HostClock) observe(at clock.Instant) {
	if c.At == 0 {
		return
	}
	if ahead := at.Sub(c.At); !c.Known || ahead < c.Ahead {
		c.Ahead, c.Known = ahead, true
	}
}

// onServer translates an instant of the host's clock; zero when it cannot.
func (c *HostClock) onServer(at clock.Instant) clock.Instant {
	if at == 0 || !c.Known {
		return 0
	}
	return at.Add(c.Ahead)
}

// upcoming drops an instant that has passed: time has done what it could.
func upcoming(at, now clock.Instant) clock.Instant {
	if at <= now {
		return 0
	}
	return at
}

// soakedAt is when a soaking host can converge at the soonest; zero for others.
func (s *State) soakedAt(h *Host, now clock.Instant) clock.Instant {
	m := &h.Machine
	p := s.hostPlan(h, m.Manifest)
	if m.Phase != host.Soaking || p == nil {
		return 0
	}
	return upcoming(h.Clock.onServer(m.SoakFrom.Add(p.Soak)), now)
}

// timeEvidence adds to the evidence of the open waves what time can bring. It looks at
// every member, for people who ask and not for the planner.
func (s *State) timeEvidence(e *gate.Evidence, r *rollout.Rollout, now clock.Instant) {
	for i := range r.Members {
		m, leaf := &r.Members[i], &r.Plan.Leaves[i]
		if leaf.Wave > r.Cursor {
			continue
		}
		switch h := s.Hosts[leaf.Host]; m.Status {
		case rollout.Claimed, rollout.Busy, rollout.Broken:
			end, _ := s.givenUp(h) // its soak ends, or the patience with it
			e.Finishes = max(e.Finishes, clock.Earliest(s.soakedAt(h, now), upcoming(end, now)))
		case rollout.Waiting:
			if m.Online && r.Forced(leaf.Wave) == nil {
				e.Starts = max(e.Starts, upcoming(max(h.frozenUntil(), h.NotBefore), now), s.leftAt(h, now))
				if at, ok := clock.NextOpening(r.Plan.Header.WindowsOf(leaf), now); ok {
					e.Starts = max(e.Starts, upcoming(at, now))
				}
			}
		}
	}
}

// FirstBlock returns the first block of WaveGates, or nil, saying when of maintenance windows
// alone: it costs the same however many members the rollout has.
func FirstBlock(s *State, r *rollout.Rollout, now clock.Instant) *gate.Block {
	if r.Phase.Ended() || r.Plan == nil {
		return nil
	}
	if b := s.overlay(r); b != nil {
		return b
	}
	b := s.promotion(r, now)
	if b != nil && b.Detail == gate.Waiting {
		return cmp.Or(s.windowHolds(r, now), b) // what hosts wait for, if it is windows alone
	}
	return b
}

// latest is when time can promote a wave: nothing less than the last of what keeps it.
// Zero while something keeps it that time says nothing of alone.
func latest(holds []*gate.Block) clock.Instant {
	var at clock.Instant
	for _, b := range holds {
		if b.Code == gate.Overlay || b.Code == gate.Compliance {
			return 0
		}
		at = max(at, b.Earliest)
	}
	return at
}

// arrivesAt is when time can bring the last of some hosts to where they go.
func (s *State) arrivesAt(names []string, now clock.Instant) clock.Instant {
	var at clock.Instant
	for _, name := range names {
		if h := s.Hosts[name]; h != nil {
			at = max(at, s.soakedAt(h, now))
		}
	}
	return at
}

// canarySoaks is when time can bring the first of a rollout's hosts through its
// soak; zero when it cannot. It looks at every member.
func (s *State) canarySoaks(r *rollout.Rollout, now clock.Instant) clock.Instant {
	var at clock.Instant
	for i := range r.Members {
		if r.Members[i].Status == rollout.Claimed {
			at = clock.Earliest(at, s.soakedAt(s.Hosts[r.Plan.Leaves[i].Host], now))
		}
	}
	return at
}

// windowHolds is the block of a rollout whose open waves wait for nothing but
// maintenance windows; nil when something else holds a host that is ready.
func (s *State) windowHolds(r *rollout.Rollout, now clock.Instant) *gate.Block {
	var first *gate.Block
	f := s.rolloutFacts(gate.ToUpdate, r, now)
	for k := range r.Classes {
		c := &r.Classes[k]
		if c.Ready.Len() == 0 || c.Wave > r.Cursor || r.Forced(c.Wave) != nil {
			continue
		}
		b := gate.FirstCode(f.in(c), gate.ToUpdate, gate.AtOffer, gate.Window)
		if b == nil {
			return nil
		}
		if first == nil || b.Earliest != 0 && (first.Earliest == 0 || b.Earliest < first.Earliest) {
			first = b
		}
	}
	return first
}
