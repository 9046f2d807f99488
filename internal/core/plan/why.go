package plan

import (
	"fmt"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// Why answers for one host: every gate of its channel's newest rollout in
// order, and the one sentence that matters. A host that waits always has at
// least one block.
func Why(s *State, name string, now clock.Instant) (*Answer, error) {
	h := s.Hosts[name]
	if h == nil {
		return nil, fmt.Errorf("host %q is not declared in any accepted release and never enrolled; steady host list shows the hosts", name)
	}
	a := &Answer{Host: name, Current: string(h.Machine.Current), Repair: s.whyRepair(h, now)}
	var r *rollout.Rollout
	for _, at := range h.seats {
		if r == nil || at.r.Place > r.Place {
			r = at.r
		}
	}
	if r == nil {
		a.Status, a.Words = "undeclared", "no rollout that is known names this host"
		s.pendingFor(a)
		return a, nil
	}
	i, _ := r.Plan.Leaf(name)
	leaf, m := &r.Plan.Leaves[i], &r.Members[i]
	a.Channel, a.Rollout, a.Wave = r.Channel, r.Name, r.Plan.Header.Waves[leaf.Wave].Name
	a.Target, a.Status = string(leaf.Target), m.Status.String()
	a.Gates = s.gates(h, r, leaf, now)
	for k := range a.Gates {
		if b := a.Gates[k].Block; b != nil && a.Block == nil && (m.Status == rollout.Waiting || m.Status == rollout.Refused) {
			a.Block = b
		}
	}
	a.Words = s.words(h, r, m, a.Block)
	if a.Repair != nil {
		a.Words += "; " + a.Repair.Words
	}
	if c := s.Channels[r.Channel]; c.pending() != nil {
		s.explainPending(a, c)
	}
	return a, nil
}

// Hold returns what keeps a rollout from going on as a whole, or nil.
func Hold(s *State, r *rollout.Rollout) *gate.Block {
	if r.Phase.Ended() || r.Plan == nil {
		return nil
	}
	if b := s.overlay(r); b != nil {
		return b
	}
	return s.promotion(r)
}

// pendingFor explains the rollout that is not open yet and names the host.
func (s *State) pendingFor(a *Answer) {
	for _, name := range s.ChannelNames() {
		ref := s.Channels[name].pending()
		if ref == nil {
			continue
		}
		m, err := s.docs.Manifest(ref.Digest)
		if err != nil {
			continue // the planner reports it when it opens the rollout
		}
		if i, ok := m.Leaf(a.Host); ok {
			a.Channel, a.Target, a.Status = name, string(m.Leaves[i].Target), "pending"
			s.explainPending(a, s.Channels[name])
			a.Words = "rollout " + ref.Rollout + " is not open yet"
			if b := a.PendingBlock; b != nil {
				a.Words += ": " + b.Words
			}
			return
		}
	}
}

// explainPending says what the next rollout of a channel waits for.
func (s *State) explainPending(a *Answer, c *Channel) {
	a.Pending = c.pending().Rollout
	if cur := s.Rollouts[c.Active]; cur != nil && (!cur.Phase.Ended() || cur.Reverting) && (c.OnNewRef != fleet.Supersede || cur.Reverting) {
		a.PendingBlock = gate.CheckQueue(a.Pending, cur.Name, standing(cur))
		return
	}
	a.PendingBlock = gate.CheckChannelEdges(c.Name, s.predecessors(c.Name))
}

// gates asks every gate about a host, blocked or not.
func (s *State) gates(h *Host, r *rollout.Rollout, leaf *fleet.Leaf, now clock.Instant) []Gate {
	c := s.Channels[r.Channel]
	waves := r.Plan.Header.Waves
	uses := s.room(h)
	return []Gate{
		{gate.Freshness, gate.CheckFreshness(c.Name, s.Timestamp.IssuedAt, c.FreshnessWindow, now)},
		{gate.Overlay, s.overlay(r)},
		{gate.Quarantine, gate.CheckQuarantine(c.Name, leaf.Target.Short(), firstOf(c.Quarantine[leaf.Target], r.Marks[h.Name].Refused))},
		{gate.Wave, gate.CheckWave(r.Name, leaf.Wave, waves[leaf.Wave].Name, r.Cursor, waves[r.Cursor].Name)},
		{gate.Presence, gate.CheckPresence(h.Name, h.Online)},
		{gate.HostEdge, gate.CheckHostEdges(h.Name, s.unmet(r, leaf))},
		{gate.Budget, gate.CheckBudgets(uses)},
		{gate.Backoff, gate.CheckBackoff(h.NotBefore, h.DeclineCode, h.DeclineWords, now)},
	}
}

// words sums up where a host stands.
func (s *State) words(h *Host, r *rollout.Rollout, m *rollout.Member, b *gate.Block) string {
	hm := &h.Machine
	switch m.Status {
	case rollout.Converged:
		return "converged on " + r.Name
	case rollout.AtTarget:
		return "runs the target of " + r.Name + " already"
	case rollout.Offered:
		return "was granted " + h.Grant.ID + " and is preparing; the grant expires at " + h.Grant.Expires.String()
	case rollout.Claimed:
		if hm.Phase == host.Soaking {
			return "is soaking since its own instant " + hm.SoakFrom.String() + probeWords(hm)
		}
		return "is activating " + r.Name
	case rollout.Broken:
		if h.SilentFailure {
			return "claimed its grant and went silent; it keeps its slot until it reports"
		}
		if hm.Reverting {
			return "failed (" + string(hm.Cause) + ": " + hm.Detail + ") and is on its way back"
		}
		return "failed: " + string(hm.Cause) + ": " + hm.Detail
	case rollout.Back:
		return "went back to its earlier bundle: " + string(hm.Cause) + ": " + hm.Detail
	case rollout.Busy:
		if h.Repairing() {
			return "has to end a repair first"
		}
		return "is still busy with " + firstOf(hm.Rollout, "an earlier grant") + " (" + string(hm.Phase) + ")"
	}
	if b == nil {
		return "is next: nothing holds it back"
	}
	return b.Words
}

func probeWords(m *host.State) string {
	if failing := m.FailingProbes(); len(failing) > 0 {
		return fmt.Sprintf("; failing probes: %v", failing)
	}
	for i := range m.Probes {
		if p := &m.Probes[i]; p.Mode == fleet.Enforce && !p.Seen {
			return "; probe " + p.Name + " has not been seen yet"
		}
	}
	return ""
}
