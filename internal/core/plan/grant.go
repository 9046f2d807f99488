package plan

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// serve grants to the hosts of a rollout, which may be terminal: hosts that were
// away take it as they return. When more of them fail than its policy allows,
// what failed is quarantined, so that it does not break the others one by one as
// they come; the hosts that converged keep it, since an ended rollout reverts
// nobody.
func (p *planner) serve(c *Channel, r *rollout.Rollout) {
	if r != nil && r.Phase == rollout.Terminal && r.Plan != nil && r.Judged != r.Total().Failures {
		r.Judged = r.Total().Failures
		if w := r.Excess(); w >= 0 && p.quarantine(r) {
			p.endOffers(r, fmt.Sprintf("%s of wave %s failed as they returned, %d allowed", prose.Count(r.Waves[w].Failures-r.Acknowledged[w], "host"),
				r.Plan.Header.Waves[w].Name, r.Plan.Header.Policy.MaxFailures))
		}
	}
	if p.s.outdated(r) {
		p.endOffers(r, "the key epoch in which "+r.Name+" was signed has ended")
		return
	}
	p.forward(c, r)
	p.reboots(c, r)
}

// forward grants the target to every host that no gate holds back.
func (p *planner) forward(c *Channel, r *rollout.Rollout) {
	if r == nil || p.err != nil || p.s.overlay(r) != nil {
		return
	}
	if p.s.stale(c, p.now) != nil {
		return
	}
	active := p.s.Rollouts[c.Latest]
	for i := r.Holders.Next(0); i >= 0 && p.err == nil; i = r.Holders.Next(i + 1) {
		if leaf := &r.Plan.Leaves[i]; leaf.Wave <= r.Cursor && !p.closed(r, leaf.Windows) && p.s.compliance(r, leaf.Wave) == nil {
			p.offer(c, r, active, i)
		}
	}
	for k := range r.Classes {
		class := &r.Classes[k]
		if class.Free.Len() == 0 || class.Wave > r.Cursor || p.closed(r, class.Windows) || p.s.compliance(r, class.Wave) != nil {
			continue
		}
		for i := class.Free.Next(0); i >= 0 && p.err == nil && !p.s.full(class.Budgets); i = class.Free.Next(i + 1) {
			p.offer(c, r, active, i)
		}
	}
}

// offer grants a member the target unless a gate of its own holds it back. One that
// goes after another is looked at again when that one has arrived.
func (p *planner) offer(c *Channel, r, active *rollout.Rollout, i int) {
	leaf := &r.Plan.Leaves[i]
	if before := firstUnmet(r, leaf); before >= 0 {
		r.SetAside(i, before)
		return
	}
	if h := p.s.host(leaf.Host); p.s.canary(r, i, 0, p.now) == nil && p.hostGates(c, r, active, h, leaf) {
		p.grant(h, r, host.Forward, leaf.Target, p.reasonFor(r, active, leaf))
	}
}

// hostGates asks the gates that differ from host to host.
func (p *planner) hostGates(c *Channel, r, active *rollout.Rollout, h *Host, leaf *fleet.Leaf) bool {
	switch {
	case h.Grant != nil && !h.Grant.idle() || h.NotBefore > p.now:
		return false
	case h.frozen(p.now) != nil:
		return false
	case (h.Grant != nil || h.idles()) && !p.s.fits(h):
		return false
	case p.s.quarantined(c, leaf.Target, h.Name) != "":
		return false
	}
	return active == nil || r == active || p.s.mayReturn(h, active)
}

// mayReturn reports whether a host may be given the last converged release
// although a newer rollout opened: its wave there is not open, or it went back
// from it. One that took a newer release and stays on it is ahead and never asked.
func (s *State) mayReturn(h *Host, newer *rollout.Rollout) bool {
	i, ok := newer.Plan.Leaf(h.Name)
	if !ok || newer.Phase.Ended() || newer.Reverting {
		return true
	}
	return newer.Members[i].Status == rollout.Back || newer.Plan.Leaves[i].Wave > newer.Cursor
}

func (p *planner) reasonFor(r, active *rollout.Rollout, leaf *fleet.Leaf) string {
	if r != active || r.Phase == rollout.Terminal {
		return "the host returned; " + r.Name + " is the last converged release"
	}
	return "wave " + r.Plan.Header.Waves[leaf.Wave].Name + " of " + r.Name + " is open"
}

// unmet lists the hosts that must converge before this one and have not.
func unmet(r *rollout.Rollout, leaf *fleet.Leaf) []string {
	var unmet []string
	for _, name := range leaf.After {
		if i, ok := r.Plan.Leaf(name); ok && !r.Members[i].Status.Arrived() {
			unmet = append(unmet, name)
		}
	}
	return unmet
}

// firstUnmet is the first member that must converge before this one and has not, or
// -1.
func firstUnmet(r *rollout.Rollout, leaf *fleet.Leaf) int {
	for _, name := range leaf.After {
		if i, ok := r.Plan.Leaf(name); ok && !r.Members[i].Status.Arrived() {
			return i
		}
	}
	return -1
}

// grantName names a grant. The number alone comes again when the log is restored
// from a backup: the claim of one that was lost must never be taken for the
// claim of another manifest's, or of the way back.
func grantName(n uint64, manifest digest.Digest, purpose host.Purpose) string {
	return "g" + strconv.FormatUint(n, 10) + "-" + manifest.Short() + "-" + string(purpose)
}

// grant gives a host a grant of a rollout, which ends an idle one.
func (p *planner) grant(h *Host, r *rollout.Rollout, purpose host.Purpose, target digest.Digest, reason string) {
	if h.Grant.idle() {
		p.endGrant(h, "rollout "+r.Name+" goes first", 0)
	}
	ev := event.Granted{Grant: grantName(p.s.Grants+1, r.Manifest, purpose), Rollout: r.Name, Target: target, Manifest: r.Manifest, Purpose: purpose,
		Expires: p.now.Add(r.Plan.Header.Policy.GrantExpiry), Reason: reason}
	if i, ok := r.Plan.Leaf(h.Name); ok {
		ev.Wave = r.Plan.Leaves[i].Wave
		if purpose != host.Back {
			ev.Expires = endsBy(r.Plan.Header.WindowsOf(&r.Plan.Leaves[i]), p.now, ev.Expires)
		}
	}
	ev.Budgets = p.budgetWords(h)
	p.do(grant{ev, h.Name}, h.Name, ev)
}

// budgetWords says how full a host's budgets are with a grant for it.
func (p *planner) budgetWords(h *Host) map[string]string {
	if len(h.budgets) == 0 {
		return nil
	}
	words, n := make(map[string]string, len(h.budgets)), 0
	if !h.InFlight() {
		n = 1
	}
	for _, id := range h.budgets {
		b := &p.s.budgets[id]
		words[b.Selector] = strconv.Itoa(b.InFlight+n) + "/" + strconv.Itoa(b.Max) + " in flight"
	}
	return words
}

// overlay returns why a rollout gives out no grants at all, or nil. A terminal
// rollout still serves hosts that return.
func (s *State) overlay(r *rollout.Rollout) *gate.Block {
	if t := s.Overrides.Hold(r.Channel, r.Manifest); t != nil && !r.Reverting {
		return gate.CheckOverride(r.Name, string(t.Action), t.Words())
	}
	return gate.CheckOverlay(gate.Standing{
		Rollout: r.Name, Phase: standing(r), Paused: r.Paused, Reason: cmp.Or(r.PauseReason, r.Reason),
		Halted: r.Phase == rollout.Failed && !r.Final, Blocked: len(s.Verdicts[r.Manifest]) > 0, Reverting: r.Reverting,
		Ended: r.Phase.Ended() && r.Phase != rollout.Terminal, Outdated: s.outdated(r),
	})
}

// outdated reports whether a rollout was signed in a key epoch that has ended. Hosts
// take nothing of it any more, but those that acted on it go on.
func (s *State) outdated(r *rollout.Rollout) bool {
	return r != nil && r.Plan != nil && r.Plan.Header.Epoch < s.Root.Epoch
}
