package plan

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
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
	p.grantUpdates(c, r)
	p.grantReboots(r)
}

// blocked reports whether a gate of a scope keeps hosts back, and has the channel
// planned again when a window opens.
func (p *planner) blocked(f *facts, scope gate.Scope) bool {
	g := gate.FirstClosed(f, f.purpose, scope)
	if g != nil && g.Code == gate.Window {
		p.s.wakeChannel(f.c.Name, g.Check(f, true).Earliest, p.now)
	}
	return g != nil
}

// passes reports whether no gate of some scopes keeps a host back.
func (p *planner) passes(f *facts, scopes ...gate.Scope) bool {
	for _, scope := range scopes {
		if p.blocked(f, scope) {
			return false
		}
	}
	return true
}

// grantUpdates grants the target to every host that no gate keeps back.
func (p *planner) grantUpdates(c *Channel, r *rollout.Rollout) {
	if r == nil || p.err != nil {
		return
	}
	f := p.about(gate.ToUpdate, r)
	if p.blocked(f, gate.PerRollout) {
		return
	}
	active := p.s.Rollouts[c.Latest]
	for i := r.InSlot.Next(0); i >= 0 && p.err == nil; i = r.InSlot.Next(i + 1) {
		if p.passes(f.at(i), gate.PerWave, gate.PerClass, gate.PerGrant) {
			p.offer(f, active)
		}
	}
	for k := range r.Classes {
		class := &r.Classes[k]
		if class.Free.Len() == 0 || !p.passes(f.in(class), gate.PerWave, gate.PerClass) {
			continue
		}
		for i := class.Free.Next(0); i >= 0 && p.err == nil && !p.blocked(f.in(class), gate.PerGrant); i = class.Free.Next(i + 1) {
			p.offer(f.at(i), active)
		}
	}
}

// offer grants a member the target unless a gate of its own keeps it back. One that
// goes after another is looked at again when that one has arrived.
func (p *planner) offer(f *facts, active *rollout.Rollout) {
	h, r := f.h, f.r
	if h.Grant != nil && !h.Grant.yields() {
		return
	}
	if g := gate.FirstClosed(f, f.purpose, gate.PerHost); g != nil {
		if g.Code == gate.HostEdge {
			after, _ := r.Plan.Leaf(f.unmet[0])
			r.Defer(f.i, after)
		}
		return
	}
	if active == nil || r == active || p.s.mayReturn(h, active) {
		p.grant(h, r, host.Update, f.bundle, p.reasonFor(r, active, &r.Plan.Leaves[f.i]))
	}
}

// mayReturn reports whether a host may be given the last converged release
// although a newer rollout opened: its wave there is not open, or it went back
// from it. One that took a newer release and stays on it is ahead and never asked.
func (s *State) mayReturn(h *Host, newer *rollout.Rollout) bool {
	i, ok := newer.Plan.Leaf(h.Name)
	if !ok || newer.Phase.Ended() || newer.Reverting {
		return true
	}
	return newer.Members[i].Status == rollout.RolledBack || newer.Plan.Leaves[i].Wave > newer.Cursor
}

func (p *planner) reasonFor(r, active *rollout.Rollout, leaf *fleet.Leaf) string {
	if r != active || r.Phase == rollout.Terminal {
		return "the host returned; " + r.Name + " is the last converged release"
	}
	return "wave " + r.Plan.Header.Waves[leaf.Wave].Name + " of " + r.Name + " is open"
}

// Run names the time in which one process leads under a term. Two processes that begin
// with the same backup have the same term and the same number of grants: nonce tells
// them apart. It is empty for a log that nobody keeps.
func Run(term uint64, nonce string) string {
	if nonce == "" {
		return ""
	}
	return strconv.FormatUint(term, 10) + "." + nonce
}

// Lead has the grants that are given from now on carry a run.
func (s *State) Lead(run string) { s.run = run }

// grantName names a grant. The number comes again when the log is restored from a
// backup, the run does not: the claim of a grant that was lost must never be taken for
// the claim of one that the log has.
func grantName(n uint64, run string, manifest digest.Digest, purpose host.Purpose) string {
	name := "g" + strconv.FormatUint(n, 10) + "-"
	if run != "" {
		name += run + "-"
	}
	return name + manifest.Short() + "-" + string(purpose)
}

// RunOf is the run that the name of a grant carries; empty for one of before names had it.
func RunOf(grant string) string {
	parts := strings.Split(grant, "-")
	if len(parts) != 4 {
		return ""
	}
	return parts[1]
}

// grant gives a host a grant of a rollout, which ends an idle one.
func (p *planner) grant(h *Host, r *rollout.Rollout, purpose host.Purpose, target digest.Digest, reason string) {
	if h.Grant.yields() {
		p.endGrant(h, "rollout "+r.Name+" goes first", 0)
	}
	ev := event.Granted{Rollout: r.Name, Target: target, Manifest: r.Manifest, Purpose: purpose, Reason: reason}
	var windows []clock.Window
	if i, ok := r.Plan.Leaf(h.Name); ok {
		ev.Wave = r.Plan.Leaves[i].Wave
		if purpose != host.Rollback {
			windows = r.Plan.Header.WindowsOf(&r.Plan.Leaves[i])
		}
	}
	p.issue(h, ev, windows, &r.Plan.Header.Policy)
}

// issue names a grant, and says by when it is to be claimed: no later than the first of
// some windows closes.
func (p *planner) issue(h *Host, ev event.Granted, windows []clock.Window, policy *fleet.Policy) {
	ev.Grant = grantName(p.s.Grants+1, p.s.run, ev.Manifest, ev.Purpose)
	ev.Expires = p.now.Add(policy.GrantExpiry)
	for i := range windows {
		ev.Expires = min(ev.Expires, windows[i].Closes(p.now, ev.Expires))
	}
	ev.Budgets = p.budgetWords(h)
	p.add(h.Name, ev)
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

// overlay returns why a rollout gives out no updates at all, or nil. A terminal
// rollout still serves hosts that return.
func (s *State) overlay(r *rollout.Rollout) *gate.Block {
	return gate.FirstCode(s.rolloutFacts(gate.ToUpdate, r, 0), gate.ToUpdate, gate.AtOffer, gate.Overlay)
}

// outdated reports whether a rollout was signed in a key epoch that has ended. Hosts
// take nothing of it any more, but those that acted on it go on.
func (s *State) outdated(r *rollout.Rollout) bool {
	return r != nil && r.Plan != nil && r.Plan.Header.Epoch < s.Root.Epoch
}
