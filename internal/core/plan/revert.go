package plan

import (
	"fmt"

	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// provenLate fires rollback-and-halt for a rollout that halted because its failed
// hosts were silent, once enough of them have said so themselves.
func (p *planner) provenLate(r *rollout.Rollout) {
	if r.Final || r.Reverting || r.Plan.Header.Policy.OnHealthFailure != fleet.RollbackAndHalt {
		return
	}
	for w := range r.Waves {
		if limit := r.Plan.Header.Policy.MaxFailures; r.Acknowledged[w] == 0 && r.Waves[w].Proven > limit {
			p.add("", event.RolloutReverting{Rollout: r.Name, Manifest: r.Manifest, Wave: w,
				Reason: fmt.Sprintf("%s of wave %s reported that they failed, %d allowed", prose.Count(r.Waves[w].Proven, "host"), r.Plan.Header.Waves[w].Name, limit)})
			return
		}
	}
}

// grantRollbacks grants the way back to every host that acted on this rollout and has
// not gone back by itself. A healthy host takes a slot for it; one that holds a
// slot already uses that.
func (p *planner) grantRollbacks(r *rollout.Rollout) {
	f := p.about(gate.ToRollback, r)
	for i := r.RollbackNeeded.Next(0); i >= 0 && p.err == nil; i = r.RollbackNeeded.Next(i + 1) {
		if h := f.at(i).h; p.passes(f, gate.PerGrant, gate.PerHost) {
			p.grant(h, r, host.Rollback, h.Machine.From, r.Reason)
		}
	}
}

// needsRollback reports whether a member of a rollout that is reverted still runs, or tries
// to, what it brought. Where that wiped the host, nothing is left to go back to.
func needsRollback(h *Host, r *rollout.Rollout, i int) bool {
	m := &h.Machine
	if m.Manifest != r.Manifest || !r.Members[i].Claimed && !r.Ordered || r.Plan.Leaves[i].Removed == fleet.Wipe {
		return false
	}
	switch m.Phase {
	case host.Activating, host.Soaking, host.Deferred, host.Converged:
		return true
	case host.Failed:
		return !m.Reverting && m.RevertFailures == 0
	}
	return false
}

// setRollback brings up to date whether a member of a reverting rollout must be
// sent back, and whether the end of the revert waits for it: it does not for one
// that cannot be heard, or has gone back or given up. It reports whether anything changed.
func (s *State) setRollback(h *Host, r *rollout.Rollout, i int) bool {
	m := &r.Members[i]
	needs := needsRollback(h, r, i)
	away := h.SilentFailure || h.unwilling() || (!h.Reachable() && !h.Acting())
	moving := (m.Claimed || r.Ordered) && (m.Status == rollout.Claimed || m.Status == rollout.Broken && !m.Final)
	changed := r.RollbackNeeded.Put(i, needs && h.Reachable() && (h.Grant == nil || h.Grant.yields()))
	return r.RollbackPending.Put(i, !away && (needs || moving)) || changed
}

// endRevert ends a reverting rollout when every host that can be heard has gone
// back or given up.
func (p *planner) endRevert(r *rollout.Rollout) {
	late := r.Phase == rollout.Failed && (!r.Final || r.Ordered)
	if r.Phase.Ended() && !late || p.err != nil || r.RollbackPending.Len() > 0 {
		return
	}
	reason := fmt.Sprintf("%s; %s went back", r.Reason, prose.Count(r.Total().By[rollout.RolledBack], "host"))
	if n := r.NotBack(); n > 0 {
		reason += fmt.Sprintf(", %d could not or was given up", n)
	}
	p.move(r, rollout.Reverted, reason)
}
