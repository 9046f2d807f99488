package sim

import (
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
	"slices"
)

// What has to come about, as it can be asked at every event.

// checkWakes is L3: whatever time ends has somebody who looks then. next is when
// the planner wants to be woken.
func (w *World) checkWakes(s *server, now, next clock.Instant) {
	wakes := func(a string, what string, at clock.Instant) {
		if at > now && (next == 0 || next > at) {
			w.violate("L3", "%s of %s ends at %s and the planner looks again at %s", what, a, at, next)
		}
	}
	for _, a := range w.agents {
		h := s.state.Hosts[a.name]
		if h == nil {
			continue
		}
		if g := h.Grant; g != nil && !g.Claimed {
			wakes(h.Name, "an offer", g.Expires)
		}
		if h.Freeze != nil {
			wakes(h.Name, "a freeze", h.Freeze.Until)
		}
		for _, o := range h.Occupied { // order-free: what is found is found for all
			wakes(h.Name, "an entry of session "+o.Session, o.Until)
		}
		wakes(h.Name, "the time off", h.NotBefore)
		if h.Repair != nil {
			wakes(h.Name, "the time off from repairs", h.Repair.NotBefore)
		}
		if h.Ended != nil && !h.Ended.Freed {
			wakes(h.Name, "the slot", h.Ended.SlotUntil)
		}
	}
}

// checkArrived is L1: a rollout in which everybody who enrolled arrived is over, unless evidence
// of theirs does not pass now. Once all is at rest checkDone asks for more.
func (w *World) checkArrived(s *server) {
	for _, name := range s.state.ChannelNames() {
		r := s.state.Rollouts[s.state.Channels[name].Active]
		if r == nil || r.Phase.Ended() || r.Paused || r.Reverting || r.Outstanding.Len() > 0 {
			continue
		}
		never := 0
		for i := range r.Members {
			if w.hosts[r.Plan.Leaves[i].Host].inc == 0 {
				never++
			}
		}
		t := r.Total()
		if arrived := t.By[rollout.Converged] + t.By[rollout.AtTarget]; t.Unfit == 0 && arrived+never == len(r.Members) && never < len(r.Members) && !s.soaks(r) {
			w.violate("L1", "every host of %s arrived and it is %s, held by %s", r.Name, r.Phase, r.Blocked)
		}
	}
}

// soaks reports whether a rollout waits for its soak on the server's clock, which stood
// still meanwhile or was set back: time ends that.
func (s *server) soaks(r *rollout.Rollout) bool {
	return slices.ContainsFunc(plan.Blocks(plan.WaveGates(s.state, r, s.now())), func(b *gate.Block) bool { return b.Detail == gate.Soak })
}

// pace is what liveness in time is judged by.
type pace struct {
	last   clock.Instant                   // when something happened last
	events int                             // in the log, then
	clean  clock.Instant                   // since when nothing is wrong with any host; zero while something is
	honest clock.Instant                   // since when nothing is wrong with any honest host
	beside map[digest.Digest]clock.Instant // since when the time of each rollout counts beside liars
	opened map[digest.Digest]clock.Instant // since when the time of each rollout counts: it is open, and none of its claims is ahead
}

// patience bounds how long nothing at all may happen to a fleet that is not at
// rest: the longest that a host is away by itself, or that windows are closed.
const patience = opens + 5*clock.Minute

// checkMoves is L3: once faults have ended something happens until all is at rest.
func (w *World) checkMoves() {
	p := &w.checks.pace
	if n := len(w.log.entries); n != p.events || w.now <= w.faultsEnd {
		p.events, p.last = n, w.now
	}
	quiet := w.now.Sub(p.last)
	if quiet > patience && !w.labsSettled() { // sessions end by time
		p.last = w.now
		return
	}
	if quiet > patience {
		w.violate("L3", "nothing has happened for %s: %s", quiet, w.unsettled())
	}
}

// checkPace is L1: while every host is there and well, each rollout that can end
// does within its bound.
func (w *World) checkPace() {
	p, s := &w.checks.pace, w.server
	if w.now <= w.faultsEnd || s.away() || w.lying || w.labs() || !w.well(s) { // hosts in use have no bound
		p.clean = 0
		return
	}
	if p.clean == 0 {
		p.clean = w.now
	}
	for _, name := range s.state.ChannelNames() {
		r := s.state.Rollouts[s.state.Channels[name].Active]
		if r == nil || r.Plan == nil || r.Phase.Ended() || !w.canEnd(s, r) {
			continue
		}
		if p.opened[r.Manifest] == 0 || w.claimedAhead(s, r) {
			p.opened[r.Manifest] = w.now
		}
		if took, most := w.now.Sub(max(p.clean, p.opened[r.Manifest])), w.bound(r); took > most {
			w.violate("L1", "every host is well for %s and %s is %s, held by %s; it may take %s", took, r.Name, r.Phase, r.Blocked, most)
		}
	}
}

// claimedAhead reports whether the server's clock, which was set right, has yet to reach
// a claim of a rollout that it stamped while it was ahead: a soak passes on that clock, and
// from the claim on. A claim later than all that the clock had shown is no such claim.
func (w *World) claimedAhead(s *server, r *rollout.Rollout) bool {
	now := s.now()
	if w.showed <= now {
		return false
	}
	for i := range r.Plan.Leaves {
		h := s.state.Hosts[r.Plan.Leaves[i].Host]
		k, at := &h.Work, clock.Instant(0)
		switch {
		case h.Repairing():
			at = k.Began
		case k.Manifest == r.Manifest:
			at = k.ClaimedAt
		}
		if at > now && at <= w.showed {
			return true
		}
	}
	return false
}

// well reports whether every host is there, heard and healthy.
func (w *World) well(s *server) bool {
	if s.waits() {
		return false
	}
	for _, a := range w.agents {
		h := s.state.Hosts[a.name]
		if a.lies() {
			continue
		}
		if !a.up || a.partitioned > 0 || h == nil || !h.Reachable() || h.SilentFailure || h.Freeze != nil || s.occupied(a.name) {
			return false
		}
		if p := a.core.Machine.Phase; p == host.Failed || p == host.Reverted {
			return false
		}
	}
	return true
}

// canEnd reports whether nothing but time and healthy hosts stands between a
// rollout and its end: nobody holds it, and what it brings is sound.
func (w *World) canEnd(s *server, r *rollout.Rollout) bool {
	if r.Paused || r.Reverting || r.Outstanding.Len() > 0 || s.state.Overrides.Restrictions(r.Channel, r.Manifest) != nil || len(s.state.Verdicts[r.Manifest]) > 0 {
		return false
	}
	c := s.state.Channels[r.Channel]
	for i := range r.Members {
		leaf := &r.Plan.Leaves[i]
		if w.bundles[leaf.Target].on(leaf.Host) != sound || r.Members[i].Refused != "" || r.Members[i].Failed || c.Quarantine[leaf.Target] != "" ||
			w.hosts[leaf.Host].core.Quarantined(leaf.Target) || w.hosts[leaf.Host].unproven {
			return false
		}
	}
	return true
}

// The times of one host's turn, each the most that a healthy one takes here.
const (
	asks     = 75 * clock.Second // until its long-poll is open
	prepares = 30 * clock.Second // with its claim and the answer to it
	switches = 40 * clock.Second
	boots    = 3 * clock.Minute // with the grant for it, if it stages
	reports  = 20 * clock.Second
	repairs  = 4 * clock.Minute  // one that holds a slot
	opens    = 30 * clock.Minute // until all maintenance windows of a host are open
)

// bound is how long a rollout may take when all is well: for each wave as many
// turns as its longest chain of edges, and for each budget as many as its members
// take one after the other in groups of its cap, with those of the other channel
// and repairs in front.
func (w *World) bound(r *rollout.Rollout) clock.Duration {
	var most clock.Duration
	for wave := range r.Plan.Header.Waves {
		turn := asks + prepares + switches + boots + reports + r.Plan.Header.Waves[wave].Soak
		if len(r.Plan.Header.Windows) > 0 {
			turn += opens
		}
		turns := 1
		for i := range r.Plan.Leaves {
			if leaf := &r.Plan.Leaves[i]; leaf.Wave == wave && len(leaf.After) > 0 {
				turns++ // a chain is no longer than that
			}
		}
		for _, b := range w.fleet.budgets {
			turns += 2 * (len(b.members) + b.max - 1) / b.max
		}
		most += clock.Duration(turns) * turn
	}
	for _, b := range w.fleet.budgets {
		most += clock.Duration(2*len(b.members)) * repairs
	}
	return most
}
