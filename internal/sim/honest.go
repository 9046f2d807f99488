package sim

import (
	"slices"

	"github.com/steadyfleet/steady/internal/core/audit"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// What holds for honest hosts beside hosts that lie.

// againstOthers leaves out what a liar's own chain proves against it alone.
func (w *World) againstOthers(found []audit.Violation) []audit.Violation {
	if !w.lying {
		return found
	}
	return slices.DeleteFunc(found, func(v audit.Violation) bool { return w.lied[v.Host] })
}

// checkHonest is L7: while every honest host is there and well, a rollout that as many
// failed hosts as there are liars would let end does end, in a time that no liar lengthens.
func (w *World) checkHonest() {
	p, s := &w.checks.pace, w.server
	if !w.lying || w.now <= w.faultsEnd || s.away() || !w.well(s) {
		p.honest = 0
		return
	}
	if p.honest == 0 {
		p.honest = w.now
	}
	for _, name := range s.state.ChannelNames() {
		r := s.state.Rollouts[s.state.Channels[name].Active]
		if r == nil || r.Plan == nil || r.Phase.Ended() {
			continue
		}
		if p.beside[r.Manifest] == 0 || w.excused(s, r) || w.claimedAhead(s, r) {
			p.beside[r.Manifest] = w.now
		}
		if took, most := w.now.Sub(max(p.honest, p.beside[r.Manifest])), w.boundBeside(r); took > most {
			w.violate("L7", "every honest host is well for %s and %s is %s, held by %s; beside liars it may take %s", took, r.Name, r.Phase, r.Blocked, most)
		}
	}
}

// excused reports whether people, or hosts that fail, could keep a rollout from its end.
func (w *World) excused(s *server, r *rollout.Rollout) bool {
	if r.Paused || s.state.Overrides.Restrictions(r.Channel, r.Manifest) != nil || len(s.state.Verdicts[r.Manifest]) > 0 || w.waitsToGiveWay(s, r) {
		return true
	}
	why := plan.Explain(s.state, s.now())
	if slices.ContainsFunc(w.fleet.budgets, func(b budget) bool { return w.holders(why, b.members) >= b.max }) {
		return true
	}
	if r.Reverting {
		return false
	}
	if r.Outstanding.Len() > 0 {
		return true
	}
	c := s.state.Channels[r.Channel]
	liars, proof := 0, make([]int, len(r.Waves))
	for i := range r.Members {
		leaf, m := &r.Plan.Leaves[i], &r.Members[i]
		a := w.hosts[leaf.Host]
		if c.Quarantine[leaf.Target] != "" {
			return true
		}
		if slices.ContainsFunc(leaf.After, func(name string) bool { return w.hosts[name].lies() }) {
			return true
		}
		if a.lies() {
			liars++
			continue
		}
		if w.absent(a) || w.bundles[leaf.Target].on(leaf.Host) != sound || m.Refused != "" || m.Failed || m.Status == rollout.Broken || a.core.Quarantined(leaf.Target) || a.unproven {
			return true
		}
		if m.Status == rollout.Waiting && w.isStale(leaf.Host) {
			return true
		}
		if m.Status != rollout.AtTarget && m.Status != rollout.Absent && m.Status != rollout.Ahead {
			proof[leaf.Wave]++
		}
	}
	for i := range r.Waves {
		if need := max(1, r.Plan.Header.Waves[i].MinSoaked); proof[i] < need && w.liesIn(r, i) > 0 {
			return true
		}
	}
	most := r.CanaryMax()
	return most > 0 && most <= liars
}

// waitsToGiveWay reports whether a rollout of a key epoch that has ended, which no host takes any
// more, waits for the one after it, and that for a channel which failed hosts could hold.
func (w *World) waitsToGiveWay(s *server, r *rollout.Rollout) bool {
	if r.Plan.Header.Epoch >= s.state.Root.Epoch {
		return false
	}
	next := s.state.Channels[r.Channel].Manifests
	if s.state.Release.Epoch < s.state.Root.Epoch || len(next) > 0 && len(s.state.Verdicts[next[0].Digest]) > 0 { // nothing was signed since, or nothing that may open
		return true
	}
	return slices.ContainsFunc(s.state.Edges, func(e fleet.Edge) bool {
		before := s.state.Channels[e.Gates]
		if e.Gated != r.Channel || before == nil {
			return false
		}
		cur := s.state.Rollouts[before.Latest]
		return cur != nil && cur.Phase != rollout.Terminal && (cur.Phase.Ended() || cur.Plan == nil || w.excused(s, cur))
	})
}

// liesIn counts the liars of a wave.
func (w *World) liesIn(r *rollout.Rollout, wave int) int {
	n := 0
	for i := range r.Plan.Leaves {
		if leaf := &r.Plan.Leaves[i]; leaf.Wave == wave && w.hosts[leaf.Host].lies() {
			n++
		}
	}
	return n
}

// holders counts the hosts that may keep a slot for good: liars, those that failed or are gone,
// and those whose reboot waits for people.
func (w *World) holders(why *plan.Explainer, names []string) int {
	n := 0
	for _, name := range names {
		a := w.hosts[name]
		if p := a.core.Machine.Phase; w.absent(a) || p == host.Failed || p == host.Deferred && strandedIn(why, name) {
			n++
		}
	}
	return n
}

// boundBeside is the bound of a rollout if each liar has its slot of every budget for good,
// and its wave waits until all of them are given up.
func (w *World) boundBeside(r *rollout.Rollout) clock.Duration {
	most := clock.Duration(0)
	for wave := range r.Plan.Header.Waves {
		p := &r.Plan.Header.Policy
		whole := p.ActivationDeadline + p.ConfirmWindow + r.Plan.Header.Waves[wave].Soak + 3*clock.Minute
		most += 10 * whole
	}
	turns := clock.Duration(1)
	for _, b := range w.fleet.budgets {
		turns = max(turns, clock.Duration(b.max))
	}
	return most + turns*w.bound(r)
}

// quietBeside reports whether nothing is left to do for honest hosts: every rollout has
// ended, or waits for what people or failed hosts could hold.
func (w *World) quietBeside(why *plan.Explainer) bool {
	s := w.server
	if s.away() || !s.core.Idle() || w.stale != nil {
		return false
	}
	for _, name := range s.state.ChannelNames() {
		c := s.state.Channels[name]
		r := s.state.Rollouts[c.Active]
		if r == nil || r.Phase.Ended() {
			continue
		}
		if !w.excused(s, r) && !w.claimedAhead(s, r) {
			return false
		}
		for i := range r.Members {
			if r.Members[i].Status != rollout.Waiting || w.absent(w.hosts[r.Plan.Leaves[i].Host]) {
				continue
			}
			a, err := why.Why(r.Plan.Leaves[i].Host)
			if err != nil || a.Block == nil || a.Block.Code == gate.Backoff || a.Block.Code == gate.Window {
				return false
			}
		}
	}
	return true
}

// isStale reports whether nothing that was signed counts any more for a host: the server's clock
// was set ahead by days.
func (w *World) isStale(name string) bool {
	a, err := plan.Why(w.server.state, name, w.server.now())
	return err == nil && a.Block != nil && a.Block.Code == gate.Freshness
}
