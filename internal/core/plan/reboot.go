package plan

import (
	"cmp"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
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
	if now || h.Grant == nil { // what it needs no slot for any more may be granted
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

// grantReboots grants their reboots to the staged hosts of a rollout. A host may reboot
// in the slot that it holds since its activation was granted.
func (p *planner) grantReboots(r *rollout.Rollout) {
	if r == nil || r.Staged.Len() == 0 || p.err != nil {
		return
	}
	f := p.about(gate.ToReboot, r)
	if p.blocked(f, gate.PerRollout) {
		return
	}
	for i := r.Staged.Next(0); i >= 0 && p.err == nil; i = r.Staged.Next(i + 1) {
		if h := f.at(i).h; p.passes(f, gate.PerGrant, gate.PerHost, gate.PerClass) {
			p.grant(h, r, host.Reboot, f.bundle, r.Name+" is staged and waits for a reboot: "+cmp.Or(h.Machine.Detail, "init"))
		}
	}
}

// rebootSuperseded reports whether a host booted by itself before it heard that its claim of
// a reboot was taken, and is at rest: it does not act on that grant any more. On its
// way it still may, when it has to wait for a reboot again.
func (h *Host) rebootSuperseded() bool {
	g, at := h.Grant, h.Machine.Phase
	return g.Purpose == host.Reboot && g.Claimed && (at == host.Converged || at == host.Reverted)
}

// RebootAnswer says where a staged host stands with its reboot.
type RebootAnswer struct {
	// Component cannot be switched while it runs.
	Component string `json:"component"`
	GrantAnswer
}

// whyReboot answers for a host whose activation waits for a reboot, or is nil.
func (q *Explainer) whyReboot(h *Host) *RebootAnswer {
	m := &h.Machine
	if m.Phase != host.Deferred || h.Grant != nil && h.Grant.Purpose != host.Reboot {
		return nil // or another grant takes it on from what is staged
	}
	a := &RebootAnswer{Component: m.Detail}
	switch g := h.Grant; {
	case m.Reboot != "":
		a.Grant, a.Message = m.Reboot, "is rebooting into "+m.Rollout+" under grant "+m.Reboot
		return a
	case g != nil && g.Purpose == host.Reboot && g.Claimed:
		a.Grant, a.Message = g.ID, "claimed "+g.ID+" to reboot into "+m.Rollout
		return a
	case g.yields() && g.Purpose == host.Reboot:
		a.GrantAnswer = q.offeredAnswer(h, "is staged and ", "reboot")
		return a
	}
	f := &facts{s: q.s, q: q, now: q.now, purpose: gate.ToReboot, h: h, i: -1}
	if r := q.s.Rollouts[m.Manifest]; r != nil && r.Plan != nil {
		if i, ok := r.Plan.Leaf(h.Name); ok {
			f.r, f.c = r, q.s.Channels[r.Channel]
			f.at(i)
		}
	}
	a.GrantAnswer = q.waitingAnswer(f, "is staged, waits for its reboot grant ("+m.Detail+" takes effect with a reboot)", "")
	return a
}
