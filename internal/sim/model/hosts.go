package model

import (
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
)

// acts reports whether the host does something of a rollout by itself.
func (h *hostFacts) acts() bool {
	switch h.machine.Phase {
	case host.Activating, host.Soaking, host.Deferred:
		return true
	case host.Failed:
		return h.machine.Reverting
	}
	return h.grant != nil && h.grant.claimed && h.grant.purpose != host.Repair
}

// inFlight is what budgets count: an offer, a claim, or what has not ended well.
func (h *hostFacts) inFlight() bool {
	return !h.freed && (h.grant != nil || h.failed || h.machine.InFlight())
}

// actsFor is what the host acts on.
func (h *hostFacts) actsFor() digest.Digest {
	if h.grant != nil && h.grant.claimed {
		return h.grant.manifest
	}
	return h.machine.Manifest
}

func (f *facts) failedSilently(h *hostFacts) {
	h.failed = true
	if r := f.find(h.actsFor()); r != nil {
		r.mark(h.name).failed = true
	}
}

// deadline is when the patience with a silent host ends: its confirm window, or
// while it may be rebooting as long as an activation may take.
func (f *facts) deadline(h *hostFacts) clock.Instant {
	p := f.planOf(h.name, h.actsFor())
	if p == nil {
		return h.silentAt
	}
	patience := p.Policy.ConfirmWindow
	if h.machine.Rebooting() || h.grant != nil && h.grant.purpose == host.Reboot && h.grant.claimed {
		patience = max(patience, p.Policy.ActivationDeadline)
	}
	return h.silentAt.Add(patience)
}

// overdueAt is when the patience with a host that is there ends: all that its policy and
// its soak allow, and three minutes. Zero when it waits for a reboot that it may not do
// yet.
func (f *facts) overdueAt(h *hostFacts) clock.Instant {
	p := f.planOf(h.name, h.actsFor())
	waits := h.machine.Staged() && !(h.grant != nil && h.grant.claimed && h.grant.purpose != host.Repair)
	if p == nil || h.began == 0 || waits {
		return 0
	}
	return max(h.began.Add(p.Policy.ActivationDeadline+p.Policy.ConfirmWindow+p.Soak+3*clock.Minute), h.heardAgain.Add(p.Policy.ConfirmWindow+3*clock.Minute))
}

// soakEnds is when the soak of a host in a rollout has passed since its claim.
func (f *facts) soakEnds(h *hostFacts, r *rolloutFacts) clock.Instant {
	i, member := r.manifest.Leaf(h.name)
	if !member || h.claimed.manifest != r.manifest.Digest || h.claimed.at == 0 {
		return 0
	}
	return h.claimed.at.Add(r.manifest.Header.Waves[r.manifest.Leaves[i].Wave].Soak)
}

// stepped has the machine take what the host says that its own took. Where the
// two differ the host is followed as far as the move is one that machines make.
func (f *facts) stepped(h *hostFacts, e *Entry, ev event.HostStepped) {
	p := e.Plan
	if p == nil {
		p = &fleet.HostPlan{}
	}
	was := h.machine
	next, _, err := host.Step(h.machine, e.Input, e.At, p)
	switch {
	case err == nil && next.Phase == ev.To:
		h.machine = next
		if next.Phase == host.Failed {
			h.machine.Detail = ev.Detail
		}
	default:
		h.follow(next, err == nil, e.Input, ev, p)
	}
	m := &h.machine
	moves := was.Phase != m.Phase || was.SoakFrom != m.SoakFrom || was.Reboot != m.Reboot || was.RevertFailures != m.RevertFailures || was.Grant != m.Grant
	h.moved = h.moved || moves
	if moves || !h.overdue {
		h.failed, h.overdue = false, false
	}
	outran := h.grant != nil && h.grant.purpose == host.Reboot && h.grant.claimed && (m.Phase == host.Converged || m.Phase == host.Reverted)
	if h.grant != nil && (m.Grant == h.grant.id || m.Reboot == h.grant.id || outran) {
		h.grant = nil
	}
	r := f.find(m.Manifest)
	if r == nil {
		return
	}
	if c, claimed := e.Input.(host.Claimed); claimed && c.Manifest == m.Manifest {
		h.notBefore = 0
	}
	if _, reboots := e.Input.(host.RebootClaimed); reboots {
		h.notBefore = 0
	}
	if m.Phase == host.Converged {
		at := max(1, f.soakEnds(h, r))
		if r.soaked == 0 || at < r.soaked {
			r.soaked = at
		}
	}
	if m.Phase == host.Failed && ev.From != host.Failed && m.Cause != host.RevertOrdered {
		k := r.mark(h.name)
		k.failed, k.proven = true, true
	}
}

func (h *hostFacts) follow(next host.State, took bool, in host.Input, ev event.HostStepped, p *fleet.HostPlan) {
	m := &h.machine
	boot, booted := in.(host.Booted)
	withPast := booted && m.Phase == "" && slices.Contains(host.Phases, ev.To)
	if !withPast && (!host.Legal(m.Phase, ev.To) || m.Phase == "" && ev.To == "") {
		return
	}
	if took {
		*m = next
	}
	m.Phase, m.Manifest, m.Rollout, m.Cause, m.Detail = ev.To, ev.Manifest, ev.Rollout, ev.Cause, ev.Detail
	switch in := in.(type) {
	case host.Claimed:
		m.Grant, m.From, m.Target, m.Wave = in.Grant, in.From, in.Target, in.Wave
	case host.Activated:
		m.Current = in.Observed
	case host.RevertCompleted:
		m.Current, m.Reverting = in.Observed, false
	case host.Booted:
		m.Current, m.Target = boot.Current, p.Target
	}
}

// granted reads the life of a grant, and of the drift that asks for one.
func (f *facts) granted(h *hostFacts, at clock.Instant, ev event.Event) {
	g := h.grant
	switch ev := ev.(type) {
	case event.Granted:
		h.grant = &grantFacts{id: ev.Grant, manifest: ev.Manifest, purpose: ev.Purpose, target: ev.Target, expires: ev.Expires}
		if ev.Purpose != host.Repair {
			h.notBefore = 0
		}
		if r := f.find(ev.Manifest); r != nil && ev.Purpose == host.Forward {
			r.granted = true
		}
	case event.GrantClaimed:
		if g == nil || g.id != ev.Grant {
			return
		}
		g.claimed = true
		if g.purpose == host.Forward {
			h.claimed = claimFacts{g.manifest, at}
		}
		if g.purpose != host.Repair {
			h.began, h.moved = at, false
		}
		if r := f.find(g.manifest); r != nil && g.purpose != host.Repair {
			r.mark(h.name).claimed = true
		}
	case event.GrantDeclined:
		f.declined(h, ev)
	case event.GrantEnded:
		if g == nil || g.id != ev.Grant {
			return
		}
		h.grant = nil
		if r := f.find(g.manifest); r != nil && g.claimed && h.machine.Manifest != g.manifest {
			r.mark(h.name).claimed = false // it gave the grant back and never acted
		}
		switch {
		case ev.NotBefore == 0:
		case g.purpose != host.Repair:
			h.notBefore = ev.NotBefore
		case h.need != nil:
			h.needBefore = ev.NotBefore
		}
	case event.RepairNeeded:
		if h.need == nil {
			f.asked++
			h.place, h.needBefore = f.asked, 0
		}
		n := ev.RepairNeed
		h.need = &n
	case event.RepairOver:
		h.need = nil
		if g != nil && g.purpose == host.Repair && g.claimed && ev.Grant == g.id {
			h.grant = nil
		}
	}
}

func (f *facts) declined(h *hostFacts, ev event.GrantDeclined) {
	g := h.grant
	if g == nil || g.id != ev.Grant || g.claimed && !host.GivesBack(ev.Code) || g.purpose == host.Repair || g.purpose == host.Reboot {
		return
	}
	switch ev.Code {
	case host.DeclineAtTarget:
		h.machine.Current = g.target
	case host.DeclineQuarantined:
		if r := f.find(g.manifest); r != nil {
			r.mark(h.name).refused = true
		}
	}
}
