package plan

import (
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/rollout"
	"github.com/steadyfleet/steady/internal/core/window"
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

// heard learns from a report that arrived at an instant of the server.
func (c *HostClock) heard(at clock.Instant) {
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

// soaked is when a soaking host can converge at the soonest; zero for others.
func (s *State) soaked(h *Host, now clock.Instant) clock.Instant {
	m := &h.Machine
	p := s.hostPlan(h, m.Manifest)
	if m.Phase != host.Soaking || p == nil {
		return 0
	}
	return upcoming(h.Clock.onServer(m.SoakFrom.Add(p.Soak)), now)
}

// settles is when time can end what a host in flight does: its soak, or the
// patience with it.
func (s *State) settles(h *Host, now clock.Instant) clock.Instant {
	end, _ := s.givenUp(h)
	return clock.Earliest(s.soaked(h, now), upcoming(end, now))
}

// frees is when time can free the slot that a host holds. Silence frees none.
func (s *State) frees(h *Host, now clock.Instant) clock.Instant {
	if h.Grant != nil && !h.Grant.Claimed {
		return upcoming(h.Grant.Expires, now)
	}
	return s.soaked(h, now)
}

// starts is when time lifts what it can lift from a host that waits.
func (h *Host) starts(now clock.Instant) clock.Instant {
	return upcoming(max(h.frozenUntil(), h.NotBefore), now)
}

// timed is the evidence of the open waves with what time can bring. It looks at
// every member, for people who ask and not for the planner.
func (s *State) timed(r *rollout.Rollout, now clock.Instant) gate.Evidence {
	e := s.proof(r)
	for i := range r.Members {
		m, leaf := &r.Members[i], &r.Plan.Leaves[i]
		if leaf.Wave > r.Cursor {
			continue
		}
		switch h := s.Hosts[leaf.Host]; m.Status {
		case rollout.Claimed, rollout.Busy, rollout.Broken:
			e.Settles = max(e.Settles, s.settles(h, now))
		case rollout.Waiting:
			if m.Online && r.Forced(leaf.Wave) == nil {
				e.Starts = max(e.Starts, h.starts(now))
				if at, ok := window.NextAll(r.Plan.Header.WindowsOf(leaf), now); ok {
					e.Starts = max(e.Starts, upcoming(at, now))
				}
			}
		}
	}
	return e
}

// Holds returns everything that keeps a rollout from going on as a whole, in
// order, with when time can clear it.
func Holds(s *State, r *rollout.Rollout, now clock.Instant) []*gate.Block {
	return s.holding(r, s.overlay(r), now)
}

// holding is Holds given what the overlay gate says.
func (s *State) holding(r *rollout.Rollout, overlay *gate.Block, now clock.Instant) []*gate.Block {
	if r.Phase.Ended() || r.Plan == nil {
		return nil
	}
	var bs []*gate.Block
	if overlay != nil {
		bs = append(bs, overlay)
	}
	bs = append(bs, gate.CheckPromotions(s.timed(r, now))...)
	for _, b := range [...]*gate.Block{s.evidenceBefore(r, r.Cursor+1), s.soakBlock(r, now)} {
		if b != nil {
			bs = append(bs, b)
		}
	}
	return bs
}

// Hold returns the first of Holds, or nil, saying when of maintenance windows
// alone: it costs the same however many members the rollout has.
func Hold(s *State, r *rollout.Rollout, now clock.Instant) *gate.Block {
	if r.Phase.Ended() || r.Plan == nil {
		return nil
	}
	if b := s.overlay(r); b != nil {
		return b
	}
	return s.holds(r, now)
}

// goesOn is when time can promote a rollout's wave: nothing less than the last of
// what keeps it. Zero while something keeps it that time says nothing of alone.
func (s *State) goesOn(r *rollout.Rollout, now clock.Instant) clock.Instant {
	return latest(Holds(s, r, now))
}

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

// timedUses is room with when time can free a slot of each full budget.
func (s *State) timedUses(h *Host, uses []gate.Use, now clock.Instant) []gate.Use {
	for i := range uses {
		if uses[i].InFlight < uses[i].Max {
			continue
		}
		for _, name := range s.budgets[h.budgets[i]].Members {
			if other := s.Hosts[name]; other != nil && other != h && other.inFlight {
				uses[i].Earliest = clock.Earliest(uses[i].Earliest, s.frees(other, now))
			}
		}
	}
	return uses
}

// arrived is when time can bring the last of some hosts to where they go.
func (s *State) arrived(names []string, now clock.Instant) clock.Instant {
	var at clock.Instant
	for _, name := range names {
		if h := s.Hosts[name]; h != nil {
			at = max(at, s.soaked(h, now))
		}
	}
	return at
}
