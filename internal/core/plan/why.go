package plan

import (
	"cmp"
	"fmt"

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
func Why(s *State, name string, now clock.Instant) (*Answer, error) { return Explain(s, now).Why(name) }

// Why is Why of one host. Answers share blocks: nobody may write to them.
func (q *Explainer) Why(name string) (*Answer, error) {
	s, now := q.s, q.now
	h := s.Hosts[name]
	if h == nil {
		return nil, fmt.Errorf("host %q is not declared in any accepted release and never enrolled; steady host list shows the hosts", name)
	}
	a := &Answer{Host: name, Former: h.FormerNames(), Current: string(h.Machine.Current), Repair: q.whyRepair(h), Reboot: q.whyReboot(h)}
	var r *rollout.Rollout
	for _, at := range h.memberships {
		if r == nil || at.r.Place > r.Place {
			r = at.r
		}
	}
	if r == nil {
		a.Status, a.Message = "undeclared", "is named by no rollout that is known"
		q.pendingFor(a)
		a.Message = prose.Clauses(s.lacked(h), a.Message)
		a.degraded(h, now)
		return a, nil
	}
	i, _ := r.Plan.Leaf(name)
	leaf, m := &r.Plan.Leaves[i], &r.Members[i]
	a.Channel, a.Rollout, a.Wave = r.Channel, r.Name, r.Plan.Header.Waves[leaf.Wave].Name
	a.Target, a.Status = string(leaf.Target), m.Status.String()
	a.WaveBlocks = q.rollout(r).blocks
	q.facts = facts{s: s, now: now, purpose: gate.ToUpdate, r: r, c: s.Channels[r.Channel], q: q}
	f := q.facts.at(i)
	a.Gates = q.gates(f)
	switch {
	case m.Status == rollout.Waiting || m.Status == rollout.Refused || m.Status == rollout.Absent:
		a.Block = first(a.Gates)
	case m.Status == rollout.Offered && q.restored != nil && a.Gates[0].Block != nil:
		a.Block = a.Gates[0].Block
	case h.InFlight():
		// An identity that has ended can say no more how that ended.
		a.Block = cmp.Or(gate.FirstCode(f, f.purpose, gate.AtOffer, gate.Identity), gate.FirstCode(f, f.purpose, gate.AtOffer, gate.Presence))
	}
	a.climbed(m.Status)
	a.Turn = q.turn(r, i)
	a.Message = prose.Clauses(s.lacked(h), a.words(h, r, m))
	if m.Unwilling && m.Status != rollout.Waiting {
		a.Message += "; it " + gate.Unwilling(h.Declines)
	}
	if b := a.Block; b != nil && b.Code == gate.Presence && a.Message != b.Message {
		a.Message += "; " + b.Message
	}
	a.degraded(h, now)
	for k := range r.Accepted {
		if w := &r.Accepted[k]; w.Wave <= leaf.Wave {
			a.Accepted = append(a.Accepted, "wave "+r.Plan.Header.Waves[w.Wave].Name+" "+w.Message())
		}
	}
	if r.BreakGlass != "" {
		a.Accepted = append(a.Accepted, "every wave "+r.BreakGlass)
	}
	if r.Outstanding.Has(i) {
		a.Message += excuses(r, h)
	}
	if a.Repair != nil {
		a.Message += "; " + a.Repair.Message
	}
	if c := s.Channels[r.Channel]; c.pending() != nil {
		q.explainPending(a, c)
		if b := a.PendingBlock; b != nil {
			a.Message += "; " + b.Message
		}
	}
	return a, nil
}

// climbed says of the gates how far the host has come: one that needs no grant of this rollout,
// or has to end something first, reaches none of them.
func (a *Answer) climbed(status rollout.Status) {
	switch status {
	case rollout.Waiting, rollout.Refused, rollout.Absent:
		climb(a.Gates)
	case rollout.AtTarget, rollout.Ahead, rollout.Busy:
		beside(a.Gates, NotReached, a.Block)
	default:
		beside(a.Gates, Passed, a.Block)
	}
}

// degraded puts first that a host does not run what it should.
func (a *Answer) degraded(h *Host, now clock.Instant) {
	d := h.Degraded
	if d == nil {
		return
	}
	a.Degraded = d
	a.Message = "is degraded for " + prose.Span(now.Sub(d.Since)) + ": " + d.Summary() + "; " + a.Message
}

// pendingFor explains the rollout that is not open yet and names the host.
func (q *Explainer) pendingFor(a *Answer) {
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
			a.Message = "rollout " + ref.Rollout + " is not open yet"
			if b := a.PendingBlock; b != nil {
				a.Message += ": " + b.Message
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

// gates asks every gate that its facts are asked by, blocked or not. Gates of one code
// answer together.
func (q *Explainer) gates(f *facts) []Gate {
	if f.r == nil {
		return []Gate{{Gate: gate.Overlay, Block: gate.CheckOverlay(f.Status())}}
	}
	list := gate.Of(f.purpose, gate.AtOffer)
	out := append(make([]Gate, 0, len(list)), q.server(f.h)...)
	for _, g := range list {
		if g.Scope == gate.PerServer {
			continue
		}
		b := q.ask(g, f)
		if last := len(out) - 1; last >= 0 && out[last].Gate == g.Code {
			out[last].Block = cmp.Or(out[last].Block, b)
			continue
		}
		out = append(out, Gate{Gate: g.Code, Block: b})
	}
	return out
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
			return a.Reboot.Message
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
	case rollout.RolledBack:
		if hm.Current == "" {
			return "failed, and what it had done is undone; it ran nothing before" + because(hm)
		}
		return "failed and went back to the bundle that it ran before" + because(hm)
	case rollout.Ahead:
		return "went on to " + hm.Rollout + ", and takes no older rollout of its channel"
	case rollout.Busy:
		if h.Repairing() {
			return "has to end a repair first"
		}
		return busyWords(h)
	}
	if a.Block == nil {
		return "is next: nothing blocks it"
	}
	return a.Block.Message
}

// ended says what ended the host's identity, if the first block is that.
func (a *Answer) ended() string {
	if a.Block == nil || a.Block.Code != gate.Identity {
		return ""
	}
	return ": " + a.Block.Message
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
