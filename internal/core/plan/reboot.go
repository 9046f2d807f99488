package plan

import (
	"cmp"
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// stagedIn reports whether a host waits for the reboot of what a rollout staged on
// it, and could be given the grant as far as it is concerned.
func (h *Host) stagedIn(r *rollout.Rollout) bool {
	return h.Machine.Staged() && h.Machine.Manifest == r.Manifest && h.Reachable() && h.Grant == nil
}

// idles reports whether the host is in flight and changes nothing: staged, with
// its reboot still to be granted.
func (h *Host) idles() bool { return h.Machine.Staged() && h.Grant == nil }

// countIdle brings the budgets of a host up to date.
func (s *State) countIdle(h *Host) {
	now := h.idles()
	if now == h.idle {
		return
	}
	h.idle = now
	for _, id := range h.budgets {
		if now {
			s.budgets[id].Idle++
		} else {
			s.budgets[id].Idle--
		}
	}
	if now {
		s.freed(h)
	}
}

// actsFor is the manifest that the host acts on: the one of a grant that it claimed,
// else the one of its machine.
func (h *Host) actsFor() digest.Digest {
	if h.Grant != nil && h.Grant.Claimed {
		return h.Grant.Manifest
	}
	return h.Machine.Manifest
}

// absence is how long an acting host may be silent once that is noticed; one that
// reboots has to be away for a while.
func (h *Host) absence(p *fleet.Policy) clock.Duration {
	if h.Machine.Rebooting() || h.Grant != nil && h.Grant.Purpose == host.Reboot && h.Grant.Claimed {
		return max(p.ConfirmWindow, p.ActivationDeadline)
	}
	return p.ConfirmWindow
}

// replaceable reports whether a rollout may take a host on that waits for the
// reboot of an older one. What is staged there never ran, so nothing is lost.
func (s *State) replaceable(h *Host, r *rollout.Rollout) bool {
	was := s.Rollouts[h.Machine.Manifest]
	return h.Machine.Staged() && (was == nil || was.Place < r.Place)
}

// reboots grants their reboots to the staged hosts of a rollout. A host may reboot
// in the slot that it holds since its activation was granted.
func (p *planner) reboots(c *Channel, r *rollout.Rollout) {
	if r == nil || r.Staged.Len() == 0 || p.err != nil || p.s.overlay(r) != nil || p.s.blocked(r.Name, r.Manifest) != nil ||
		p.s.stale(c, p.now) != nil {
		return
	}
	for i := r.Staged.Next(0); i >= 0 && p.err == nil; i = r.Staged.Next(i + 1) {
		leaf := &r.Plan.Leaves[i]
		h := p.s.host(leaf.Host)
		if h.NotBefore > p.now || h.frozen(p.now) != nil || p.s.quarantined(c, leaf.Target, h.Name) != "" || p.closed(r, leaf.Windows) ||
			len(unmet(r, leaf)) > 0 || p.s.restless(h.budgets) {
			continue
		}
		p.grant(h, r, host.Reboot, leaf.Target, r.Name+" is staged; "+cmp.Or(h.Machine.Detail, "it")+" needs a reboot")
	}
}

// restless reports whether as many hosts of any of the budgets as it allows change
// something now. It differs from full once a release has made a budget smaller.
func (s *State) restless(budgets []int) bool { return gate.CheckBudgets(s.active(budgets)) != nil }

// active lists how full budgets are without the hosts that wait for a reboot.
func (s *State) active(budgets []int) []gate.Use {
	uses := make([]gate.Use, 0, len(budgets))
	for _, id := range budgets {
		b := &s.budgets[id]
		uses = append(uses, gate.Use{Selector: b.Selector, Max: b.Max, InFlight: b.InFlight - b.Idle})
	}
	return uses
}

// rebootGates asks every gate about the reboot of a staged host.
func (s *State) rebootGates(h *Host, r *rollout.Rollout, leaf *fleet.Leaf, now clock.Instant) []Gate {
	c, unmet := s.Channels[r.Channel], unmet(r, leaf)
	return []Gate{
		{gate.Freshness, s.stale(c, now)},
		{gate.Overlay, s.overlay(r)},
		{gate.Freeze, h.frozen(now)},
		{gate.Quarantine, gate.CheckQuarantine(c.Name, leaf.Target.Short(), s.quarantined(c, leaf.Target, h.Name))},
		{gate.Window, gate.CheckWindow("host "+h.Name, r.Plan.Header.WindowsOf(leaf), now)},
		{gate.Identity, h.identityBlock()},
		{gate.Presence, s.presenceBlock(h, now)},
		{gate.HostEdge, gate.CheckHostEdges(h.Name, unmet, s.arrived(unmet, now))},
		{gate.Budget, gate.CheckBudgets(s.timedUses(h, s.active(h.budgets), now))},
		{gate.Compliance, s.blocked(r.Name, r.Manifest)},
		{gate.Backoff, gate.CheckBackoff(h.NotBefore, h.DeclineCode, h.DeclineWords, now)},
	}
}

// mayReboot refuses a claim of a Reboot grant that the host has overtaken.
func (s *State) mayReboot(h *Host, g *Grant) *gate.Block {
	if m := &h.Machine; !m.Staged() || m.Manifest != g.Manifest || m.Target != g.Target {
		return gate.Overtaken(h.Name, m.Rollout)
	}
	return nil
}

// outran reports whether a host booted by itself before it heard that its claim of
// a reboot was taken, and is at rest: it does not act on that grant any more. On its
// way it still may, when it has to wait for a reboot again.
func (h *Host) outran() bool {
	g, at := h.Grant, h.Machine.Phase
	return g.Purpose == host.Reboot && g.Claimed && (at == host.Converged || at == host.Reverted)
}

// overtaken ends a grant to reboot that nobody claimed and nobody needs any more.
func (d *decider) overtaken(h *Host) {
	if g := h.Grant; g.idle() && g.Purpose == host.Reboot && !h.Machine.Staged() {
		d.add(h.Name, event.GrantEnded{Grant: g.ID, Reason: "the host waits for no reboot any more"})
	}
}

// RebootAnswer says where a staged host stands with its reboot.
type RebootAnswer struct {
	// Component cannot be switched while it runs.
	Component string `json:"component"`
	// Words say where it stands, in a sentence.
	Words string `json:"words"`
	// Grant is offered or claimed.
	Grant string `json:"grant,omitempty"`
	// Block is the first gate that holds it back.
	Block *gate.Block `json:"block,omitempty"`
	Gates []Gate      `json:"gates,omitempty"`
}

// whyReboot answers for a host whose activation waits for a reboot, or is nil; server
// is the gate that is asked first.
func (s *State) whyReboot(h *Host, server []Gate, now clock.Instant) *RebootAnswer {
	m := &h.Machine
	if m.Phase != host.Deferred || h.Grant != nil && h.Grant.Purpose != host.Reboot {
		return nil // or another grant takes it on from what is staged
	}
	a := &RebootAnswer{Component: m.Detail}
	switch g := h.Grant; {
	case m.Reboot != "":
		a.Grant, a.Words = m.Reboot, "is rebooting into "+m.Rollout+" under grant "+m.Reboot
		return a
	case g != nil && g.Purpose == host.Reboot && g.Claimed:
		a.Grant, a.Words = g.ID, "claimed "+g.ID+" to reboot into "+m.Rollout
		return a
	case g.idle() && g.Purpose == host.Reboot:
		a.Grant, a.Words = g.ID, "is staged and was granted "+g.ID+" to reboot, which expires at "+g.Expires.String()
		a.Block = first(server)
		a.Words += unclaimed(a.Block)
		return a
	}
	a.Words = "is staged, waits for its reboot grant (" + m.Detail + " cannot be switched while it runs)"
	r := s.Rollouts[m.Manifest]
	if r == nil || r.Plan == nil {
		a.Block = gate.CheckOverlay(gate.Standing{Rollout: m.Rollout, Phase: "not served any more", Ended: true})
		a.Gates = []Gate{{gate.Overlay, a.Block}}
	} else if i, ok := r.Plan.Leaf(h.Name); ok {
		a.Gates = append(slices.Clip(server), s.rebootGates(h, r, &r.Plan.Leaves[i], now)...)
		a.Block = first(a.Gates)
	}
	if a.Block != nil {
		a.Words += ": " + a.Block.Words
	}
	return a
}
