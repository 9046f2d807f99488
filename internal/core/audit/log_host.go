package audit

import (
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
)

// hostEvent takes presence and the reports of the host machine.
func (l *Log) hostEvent(e event.Entry, ev event.Event) bool {
	h := l.host(e.Host)
	switch ev := ev.(type) {
	case event.HostSilent:
		l.must(h.online, "S10", "host %s went silent and was not there", h.name)
		h.online = false
	case event.HostReturned:
		h.online = true
	case event.HostFailedSilently:
		l.must((!h.online || ev.Overdue) && (h.moving() || h.permit() != nil && h.open.claimed), "S10", "host %s failed silently while it is %s", h.name, h.phase)
		l.must(!ev.Overdue || ev.Deadline <= e.At && ev.Deadline >= l.earliestOverdue(h), "S10", "host %s was given up at %s, and what it claimed may take until %s", h.name, ev.Deadline, l.earliestOverdue(h))
		h.silent, h.overdue = true, ev.Overdue
		if r := l.actingFor(h); r != nil {
			r.failed[h.name] = true
		}
	case event.HostSlotFreed:
		l.must(ev.Reason != "", "S28", "the slot of host %s was freed without a reason", h.name)
		l.must(h.slotUntil != 0 && h.slotUntil <= e.At && (h.silent || !h.moving() && (h.permit() == nil || !h.open.claimed)), "S1",
			"the slot of host %s, %s, was freed before what it was granted is over", h.name, h.phase)
		h.open, h.freed = nil, true
	case event.RepairNeeded:
		l.consistent(ev.Reason != "" && len(ev.Resources) > 0, h, "S28", "host %s waits for a repair without a reason", h.name)
		h.need = &ev.RepairNeed
	case event.RepairOver:
		l.repaired(h, ev)
	case event.HostStepped:
		l.stepped(h, e.At, ev)
	default:
		return false
	}
	return true
}

// earliestOverdue is when at the soonest a host that is there may be given up: all that
// its claim may take has passed.
func (l *Log) earliestOverdue(h *hostFacts) clock.Instant {
	g := l.grants[h.grant]
	if p := h.permit(); p != nil && p.claimed {
		g = p
	}
	if g == nil || g.claimedAt == 0 || g.setBack != l.setBack {
		return 0
	}
	m, err := l.docs.Manifest(g.manifest)
	if err != nil {
		return 0
	}
	p := m.HostPlan(h.name)
	if p == nil {
		return 0
	}
	return g.claimedAt.Add(p.Policy.ActivationDeadline + p.Policy.ConfirmWindow + p.Soak)
}

// actingFor returns the rollout that a host acts for.
func (l *Log) actingFor(h *hostFacts) *rolloutFacts {
	d := h.manifest
	if g := h.permit(); g != nil && g.claimed {
		d = h.open.manifest
	}
	r, _ := l.of(d)
	return r
}

// stepped follows the machine by what the host reports, and checks the report
// against what the machine may do.
func (l *Log) stepped(h *hostFacts, at clock.Instant, ev event.HostStepped) {
	was := *h
	defer func() { // what was given up while it was there goes on by progress alone
		moved := was.phase != h.phase || was.soakFrom != h.soakFrom || was.reboot != h.reboot || was.reverts != h.reverts || was.grant != h.grant
		if moved || !h.overdue {
			h.silent, h.overdue = false, false
		}
	}()
	in, err := ev.Taken()
	if err != nil {
		l.consistent(false, h, "S25", "host %s: %v", h.name, err)
		return
	}
	booted, isBoot := in.(host.Booted)
	if h.phase == "" && isBoot { // a host may come with a past
		h.phase, h.manifest, h.current = ev.To, ev.Manifest, booted.Current
		h.unseen = ev.Manifest != ""
		l.arrived(h)
		return
	}
	if ev.From != h.phase {
		l.consistent(false, h, "S19", "host %s reports a step from %q and was %q", h.name, ev.From, h.phase)
	}
	if !host.Legal(h.phase, ev.To) {
		l.consistent(false, h, "S19", "host %s went from %q to %q", h.name, h.phase, ev.To)
		return
	}
	l.input(h, at, in)
	before := h.phase
	l.afterReboot(h, in, ev.To)
	h.phase = ev.To
	if g := h.open; g != nil && g.Purpose == host.Reboot && g.claimed && (ev.To == host.Converged || ev.To == host.Reverted) {
		h.open = nil // it booted by itself before it heard that it may
	}
	if before == ev.To {
		return
	}
	l.arrived(h)
	switch ev.To {
	case host.Failed:
		l.failed(h, ev)
	case host.Reverted:
		h.reverting = false
		l.consistent(h.unseen || h.current == h.from, h, "S21", "host %s went back to %s, it came from %s", h.name, h.current.Short(), h.from.Short())
		l.outcome(h, host.Reverted)
	case host.Converged:
		l.soaked(h, at)
		l.outcome(h, host.Converged)
	}
}

// arrived notes that a host of a rollout converged.
func (l *Log) arrived(h *hostFacts) {
	if h.phase != host.Converged {
		return
	}
	if r, _ := l.of(h.manifest); r != nil {
		r.soaked = true
	}
}

// input keeps what an input says by itself.
func (l *Log) input(h *hostFacts, at clock.Instant, in host.Input) {
	switch in := in.(type) {
	case host.Claimed:
		g := h.open
		l.must(g != nil && g.Grant == in.Grant && g.claimed && g.Purpose == host.Forward, "S23", "host %s activates on grant %s, which it did not claim", h.name, in.Grant)
		if g != nil && g.Grant == in.Grant {
			l.must(g.manifest == in.Manifest && g.Target == in.Target, "S3", "host %s activates something else than grant %s says", h.name, in.Grant)
			h.open = nil
		}
		h.grant, h.manifest, h.from, h.target, h.outcome = in.Grant, in.Manifest, in.From, in.Target, ""
		h.reverting, h.reverts, h.probes, h.unseen, h.reboot, h.boot = false, 0, nil, false, "", in.BootID
	case host.RebootClaimed:
		l.rebootClaimed(h, in)
	case host.Activated:
		h.current, h.completed, h.soakFrom, h.probes = in.Observed, at, at, map[string]look{}
	case host.ProbeObserved:
		if was, seen := h.probes[in.Name]; seen && was.passing != in.Pass && h.phase == host.Soaking && l.enforced(h, in.Name) {
			h.soakFrom = at
		}
		if h.probes != nil {
			h.probes[in.Name] = looked(in)
		}
	case host.RevertClaimed:
		g := h.open
		l.must(g != nil && g.Grant == in.Grant && g.claimed && g.Purpose == host.Back, "S23", "host %s goes back on grant %s, which it did not claim", h.name, in.Grant)
		if g != nil && g.Grant == in.Grant {
			h.open = nil
		}
		if h.phase != host.Failed || !h.reverting {
			h.rebooted = false
		}
		h.grant, h.reverting, h.reverts, h.outcome = in.Grant, h.phase != host.Reverted, 0, ""
	case host.RevertCompleted:
		h.current, h.probes = in.Observed, nil
	case host.RevertFailed:
		h.stayed()
	case host.RebootFailed, host.Elapsed:
		if h.phase == host.Failed && h.reverting { // the reboot of the way back did not come
			h.stayed()
		}
	case host.RevertDeferred:
		if h.rebooted {
			h.stayed()
		}
	case host.Booted:
		h.rebooted, h.boot = h.rebooted || h.boot != in.BootID, in.BootID
		if h.phase == host.Soaking { // each probe is to be seen again
			h.soakFrom, h.probes = at, map[string]look{}
		}
	}
}

func (l *Log) planOf(h *hostFacts) *fleet.HostPlan {
	if h.plan != nil && h.plan.Manifest == h.manifest {
		return h.plan
	}
	m, err := l.docs.Manifest(h.manifest)
	if err != nil {
		return nil
	}
	h.plan = m.HostPlan(h.name)
	return h.plan
}

func (l *Log) enforced(h *hostFacts, probe string) bool {
	if p := l.planOf(h); p != nil {
		for i := range p.Probes {
			if p.Probes[i].Name == probe {
				return p.Probes[i].Mode == fleet.Enforce
			}
		}
	}
	return false
}

func (l *Log) failed(h *hostFacts, ev event.HostStepped) {
	p := l.planOf(h)
	if p != nil && (p.Policy.OnHealthFailure == fleet.RollbackAndHalt || ev.Cause == host.ContactLost) {
		h.reverting, h.rebooted = true, false
	}
	if r, _ := l.of(h.manifest); r != nil && ev.Cause != host.RevertOrdered {
		r.failed[h.name] = true
	}
	l.consistent(ev.Cause != "", h, "S28", "host %s failed without a cause", h.name)
}

// soaked checks that a host was healthy for as long as its plan asks. A plan is known by
// the digest that the host itself names; that there is none, or another, is no proof.
func (l *Log) soaked(h *hostFacts, at clock.Instant) {
	if h.current != h.target {
		l.consistent(false, h, "S20", "host %s converged on %s and should run %s", h.name, h.current.Short(), h.target.Short())
	}
	p := l.planOf(h)
	if p == nil {
		l.addf("S3", "host %s converged on a plan that does not name it", h.name)
		return
	}
	l.consistent(at.Sub(h.soakFrom) >= p.Soak, h, "S9", "host %s converged after %s of a soak of %s", h.name, at.Sub(h.soakFrom), p.Soak)
	for i := range p.Probes {
		if p.Probes[i].Mode != fleet.Enforce {
			continue
		}
		last, seen := h.probes[p.Probes[i].Name]
		l.consistent(seen && last.passing, h, "S9", "host %s converged and its probe %s was seen %t, passing %t", h.name, p.Probes[i].Name, seen, last.passing)
	}
}

// outcome closes the permit that the machine acts on, exactly once.
func (l *Log) outcome(h *hostFacts, to host.Phase) {
	again := h.outcome
	l.consistent(again == "", h, "S24", "grant %s of host %s ended %s and then %s", h.grant, h.name, again, to)
	h.outcome = to
	g := l.grants[h.grant]
	if g == nil {
		l.consistent(h.grant != "", h, "S24", "host %s is %s and acts on no grant", h.name, to)
		l.must(h.grant == "", "S24", "host %s is %s by grant %q, which was never given", h.name, to, h.grant)
		return
	}
	l.must(again != "" || g.outcome == "", "S24", "grant %s of host %s ended %s and then %s", g.Grant, h.name, g.outcome, to)
	l.must(g.host == h.name, "S24", "grant %s of host %s was taken by host %s", g.Grant, g.host, h.name)
	g.outcome = to
}
