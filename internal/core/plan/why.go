package plan

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// Why answers for one host: every gate of its channel's newest rollout in
// order, and the one sentence that matters. A host that waits always has at
// least one block.
func Why(s *State, name string, now clock.Instant) (*Answer, error) { return Ask(s, now).Why(name) }

// Why is Why of one host. Answers share blocks: nobody may write to them.
func (q *Reasons) Why(name string) (*Answer, error) {
	s, now := q.s, q.now
	h := s.Hosts[name]
	if h == nil {
		return nil, fmt.Errorf("host %q is not declared in any accepted release and never enrolled; steady host list shows the hosts", name)
	}
	server := q.server(h)
	a := &Answer{Host: name, Current: string(h.Machine.Current), Repair: s.whyRepair(h, server, now), Reboot: s.whyReboot(h, server, now)}
	var r *rollout.Rollout
	for _, at := range h.seats {
		if r == nil || at.r.Place > r.Place {
			r = at.r
		}
	}
	if r == nil {
		a.Status, a.Words = "undeclared", "is named by no rollout that is known"
		q.pendingFor(a)
		a.degraded(h, now)
		return a, nil
	}
	i, _ := r.Plan.Leaf(name)
	leaf, m := &r.Plan.Leaves[i], &r.Members[i]
	a.Channel, a.Rollout, a.Wave = r.Channel, r.Name, r.Plan.Header.Waves[leaf.Wave].Name
	a.Target, a.Status = string(leaf.Target), m.Status.String()
	all := q.rollout(r)
	a.Holds = all.holds
	if a.Gates = q.gates(h, r, i, all); len(server) > 0 {
		a.Gates = append(slices.Clip(server), a.Gates...)
	}
	switch {
	case m.Status == rollout.Waiting || m.Status == rollout.Refused || m.Status == rollout.Absent:
		a.Block = first(a.Gates)
	case m.Status == rollout.Offered && first(server) != nil:
		a.Block = first(server)
	case h.InFlight():
		// An identity that has ended can say no more how that ended.
		a.Block = cmp.Or(h.identityBlock(), s.presenceBlock(h, now))
	}
	a.Words = a.words(h, r, m)
	if b := a.Block; b != nil && b.Code == gate.Presence && a.Words != b.Words {
		a.Words += "; " + b.Words
	}
	a.degraded(h, now)
	for k := range r.Accepted {
		if w := &r.Accepted[k]; w.Wave <= leaf.Wave {
			a.Accepted = append(a.Accepted, "wave "+r.Plan.Header.Waves[w.Wave].Name+" "+w.Words())
		}
	}
	if r.Glass != "" {
		a.Accepted = append(a.Accepted, "every wave "+r.Glass)
	}
	if r.Outstanding.Has(i) {
		a.Words += excuses(r, h)
	}
	if a.Repair != nil {
		a.Words += "; " + a.Repair.Words
	}
	if c := s.Channels[r.Channel]; c.pending() != nil {
		q.explainPending(a, c)
		if b := a.PendingBlock; b != nil {
			a.Words += "; " + b.Words
		}
	}
	return a, nil
}

// degraded puts first that a host does not run what it should.
func (a *Answer) degraded(h *Host, now clock.Instant) {
	d := h.Degraded
	if d == nil {
		return
	}
	a.Degraded = d
	a.Words = "is degraded for " + prose.Span(now.Sub(d.Since)) + ": " + d.Summary() + "; " + a.Words
}

// pendingFor explains the rollout that is not open yet and names the host.
func (q *Reasons) pendingFor(a *Answer) {
	s := q.s
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
			q.explainPending(a, s.Channels[name])
			a.Words = "rollout " + ref.Rollout + " is not open yet"
			if b := a.PendingBlock; b != nil {
				a.Words += ": " + b.Words
			}
			return
		}
	}
}

// first is the first gate that blocks, or nil.
func first(gates []Gate) *gate.Block {
	for _, g := range gates {
		if g.Block != nil {
			return g.Block
		}
	}
	return nil
}

// gates asks every gate about a host, blocked or not, in the order in which the
// planner asks them. A rollout that is open has passed its channel's edges.
func (q *Reasons) gates(h *Host, r *rollout.Rollout, member int, all *common) []Gate {
	s, now := q.s, q.now
	c, leaf := s.Channels[r.Channel], &r.Plan.Leaves[member]
	shut := q.wave(r, all, leaf.Wave)
	uses, unmet := s.timedUses(h, s.room(h), now), unmet(r, leaf)
	return []Gate{
		{gate.Freshness, all.stale},
		{gate.Overlay, all.overlay},
		{gate.Freeze, h.frozen(now)},
		{gate.Quarantine, gate.CheckQuarantine(c.Name, leaf.Target.Short(), cmp.Or(s.quarantined(c, leaf.Target, h.Name), r.Marks[h.Name].Refused))},
		{gate.Window, gate.CheckWindow("host "+h.Name, r.Plan.Header.WindowsOf(leaf), now)},
		{gate.ChannelEdge, nil},
		{gate.Wave, shut.wave},
		{gate.Canary, s.canary(r, member, all.soaks, now)},
		{gate.Identity, h.identityBlock()},
		{gate.Presence, s.presenceBlock(h, now)},
		{gate.HostEdge, gate.CheckHostEdges(h.Name, unmet, s.arrived(unmet, now))},
		{gate.Budget, gate.CheckBudgets(uses)},
		{gate.Compliance, shut.compliance},
		{gate.Backoff, gate.CheckBackoff(h.NotBefore, h.DeclineCode, h.DeclineWords, now)},
	}
}

// words sums up where a host stands.
func (a *Answer) words(h *Host, r *rollout.Rollout, m *rollout.Member) string {
	hm := &h.Machine
	switch m.Status {
	case rollout.Converged:
		return "converged on " + r.Name + failingWords(hm)
	case rollout.AtTarget:
		return "runs the target of " + r.Name + " already" + failingWords(hm)
	case rollout.Offered:
		return "was granted " + h.Grant.ID + " and is preparing; the grant expires at " + h.Grant.Expires.String() + unclaimed(a.Block)
	case rollout.Claimed:
		if hm.Phase == host.Soaking {
			return "runs the new bundle and is soaking: it must stay healthy for a while" + probeWords(hm)
		}
		if a.Reboot != nil {
			return a.Reboot.Words
		}
		return "is activating " + r.Name
	case rollout.Broken:
		switch {
		case h.Overdue:
			return "claimed its grant and did not report in time what came of it; it keeps its slot until it does"
		case h.SilentFailure:
			return "claimed its grant and went silent; it keeps its slot until it reports"
		case hm.Cause == "": // it was retired, and nothing more comes of its part
			return "took part in " + r.Name + " until its identity ended" + a.ended()
		}
		if hm.Reverting {
			return "failed and is going back" + because(hm)
		}
		if hm.Cause == "" {
			return "counts as failed: it was retired or lost its identity before it said how that ended"
		}
		return "failed" + because(hm)
	case rollout.Back:
		if hm.Current == "" {
			return "failed, and what it had done is undone; it ran nothing before" + because(hm)
		}
		return "failed and went back to the bundle that it ran before" + because(hm)
	case rollout.Busy:
		if h.Repairing() {
			return "has to end a repair first"
		}
		return busyWords(h)
	}
	if a.Block == nil {
		return "is next: nothing holds it back"
	}
	return a.Block.Words
}

// ended says what ended the host's identity, if the first block is that.
func (a *Answer) ended() string {
	if a.Block == nil || a.Block.Code != gate.Identity {
		return ""
	}
	return ": " + a.Block.Words
}

// busyWords say what a host does that has to end before it takes something new.
func busyWords(h *Host) string {
	g, m := h.Grant, &h.Machine
	switch {
	case g != nil && g.Claimed:
		return "has claimed grant " + g.ID + " of " + g.Rollout + " and has to end that first"
	case g != nil:
		return "was offered grant " + g.ID + " of " + g.Rollout + ", which it claims or which expires at " + prose.Date(g.Expires)
	}
	return "is still busy with " + m.Rollout + ": it is " + string(m.Phase)
}

// because says why a host failed.
func because(m *host.State) string {
	if words := prose.Failure(string(m.Cause), m.Detail); words != "" {
		return ": " + words
	}
	return ""
}

// failingWords says which enforced probes fail now, and why.
func failingWords(m *host.State) (words string) {
	for _, p := range m.FailingProbes() {
		words += "; probe " + p.Name + " fails: " + p.Reason
	}
	return words
}

func probeWords(m *host.State) string {
	if words := failingWords(m); words != "" {
		return words
	}
	for i := range m.Probes {
		if p := &m.Probes[i]; p.Mode == fleet.Enforce && !p.Seen {
			return "; probe " + p.Name + " has not been seen yet"
		}
	}
	return ""
}
