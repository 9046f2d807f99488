package sim

import (
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
)

// durable carries out the part of an effect that is in the transaction of the
// state that caused it: what it reports.
type durable struct{ a *agent }

var _, _ host.Effects = durable{}, (*agent)(nil)

func (d durable) Activate(host.Activate) error       { return nil }
func (d durable) Revert(host.Revert) error           { return nil }
func (d durable) StartProbes(host.StartProbes) error { return nil }
func (d durable) Prepare(host.Prepare) error         { return nil }
func (d durable) Claim(host.Claim) error             { return nil }
func (d durable) OpenRepair(host.OpenRepair) error   { return nil }
func (d durable) BeginReboot(host.BeginReboot) error { return nil }

// Decline reports that a grant is not taken.
func (d durable) Decline(e host.Decline) error {
	d.a.record(event.GrantDeclined{Grant: e.Grant, Code: e.Code, Detail: e.Detail})
	return nil
}

// Quarantine reports what this host refuses from now on.
func (d durable) Quarantine(e host.Quarantine) error {
	d.a.record(event.BundleQuarantined{Rollout: d.a.core.Machine.Rollout, Digest: e.Digest, Reason: e.Reason})
	return nil
}

// NeedRepair reports what waits.
func (d durable) NeedRepair(e host.NeedRepair) error {
	d.a.record(event.RepairNeeded{RepairNeed: e.RepairNeed})
	return nil
}

// EndRepair reports that nothing waits any more, or that a window is closed.
func (d durable) EndRepair(e host.EndRepair) error {
	d.a.record(event.RepairOver{Grant: e.Grant, OK: e.OK, Detail: e.Detail})
	return nil
}

// The rest is carried out once that transaction is durable.

func (a *agent) Decline(host.Decline) error       { return nil }
func (a *agent) Quarantine(host.Quarantine) error { return nil }
func (a *agent) NeedRepair(host.NeedRepair) error { return nil }
func (a *agent) EndRepair(host.EndRepair) error   { return nil }

// Prepare fetches for a while, now and then for longer than the grant lasts.
func (a *agent) Prepare(e host.Prepare) error {
	d := a.w.between(100, 30*clock.Second)
	if a.w.faulty(SlowDownload, 0.08) {
		d = a.w.between(clock.Minute, 5*clock.Minute)
	}
	a.later(d, func() {
		broken := a.w.faulty(Breakage, 0.05)
		a.turn(func() []host.Effect {
			if broken {
				return a.core.PrepareFailed(e.Offer.Grant, "the download broke")
			}
			effects := a.core.Prepared(e.Offer.Grant, a.now())
			a.w.truth.obeys(a)
			return effects
		})
	})
	return nil
}

// Claim asks until it is answered.
func (a *agent) Claim(e host.Claim) error {
	if o := a.core.Offer; o == nil || o.Grant != e.Offer.Grant {
		return nil
	}
	if !a.mayClaim(&e.Offer) {
		a.turn(func() []host.Effect { return a.core.PrepareFailed(e.Offer.Grant, "refused") })
		return nil
	}
	acked := a.acked
	a.w.send(a, func() {
		s := a.w.choose()
		if s.down || !s.seen(a, acked) {
			return
		}
		if accepted, ok := s.claim(a, e.Offer.Grant, e.Offer.Term); ok {
			a.w.send(a, func() { a.answered(e.Offer, accepted) })
		}
	})
	a.later(a.w.between(clock.Second, 5*clock.Second), func() { _ = a.Claim(e) })
	return nil
}

func (a *agent) answered(offer host.Offer, accepted bool) {
	o := a.core.Offer
	if !a.up || o == nil || o.Grant != offer.Grant {
		return
	}
	if accepted && offer.Purpose == host.Forward && !a.fresh(offer.Plan.Channel) {
		a.turn(func() []host.Effect { return a.core.PrepareFailed(offer.Grant, "stale") })
		return
	}
	a.turn(func() []host.Effect {
		if o.Purpose == host.Repair {
			effects := a.core.RepairAnswered(offer.Grant, accepted, a.now())
			if a.core.Repairs.Grant == offer.Grant {
				a.w.truth.started(a, offer.Grant, accepted)
			}
			return effects
		}
		in := a.core.ClaimAnswered(offer.Grant, accepted, a.bootID())
		if in == nil {
			return nil
		}
		a.w.truth.started(a, offer.Grant, accepted)
		if offer.Purpose == host.Back {
			a.w.truth.sentBack(a, offer.Plan.Manifest)
		}
		return a.step(in)
	})
}

// Activate changes what runs, which takes its time and may fail.
func (a *agent) Activate(e host.Activate) error {
	a.acting = e.Target
	clear(a.drift) // the generation repairs all on its way
	a.w.truth.activates(a, e.Target)
	f := a.w.bundles[e.Target].on(a.name)
	a.later(a.w.between(100, 40*clock.Second), func() {
		if a.acting != e.Target || a.core.Machine.Phase != host.Activating {
			return
		}
		a.acting = ""
		if f != sound {
			a.w.truth.affects(a, e.Target)
		}
		if f == failsToActivate {
			a.input(host.ActivationFailed{Code: "exit-1", Detail: "the step failed"})
			return
		}
		if a.stage() {
			a.input(host.ActivationDeferred{Component: "kernel"})
			return
		}
		a.running = e.Target
		if f == kills && a.w.now < a.w.calm {
			a.stop(a.w.between(clock.Minute, 20*clock.Minute))
			return
		}
		a.input(host.Activated{Observed: e.Target})
	})
	return nil
}

// Revert goes back to what ran before.
func (a *agent) Revert(e host.Revert) error {
	a.acting = ""
	clear(a.drift)
	a.later(a.w.between(100, 20*clock.Second), func() {
		if m := &a.core.Machine; m.Phase != host.Failed || !m.Reverting {
			return
		}
		if a.w.faulty(Breakage, 0.05) {
			a.input(host.RevertFailed{Code: "exit-1", Detail: "the step failed"})
			return
		}
		if a.stage() {
			a.input(host.RevertDeferred{Component: "kernel"})
			return
		}
		a.running = e.To
		a.input(host.RevertCompleted{Observed: e.To})
	})
	return nil
}

// StartProbes looks at the bundle's health from now on.
func (a *agent) StartProbes(e host.StartProbes) error {
	a.probing++
	for _, p := range e.Probes {
		a.probe(p, a.probing, 1)
	}
	return nil
}

func (a *agent) probe(p fleet.Probe, round int, d clock.Duration) {
	a.later(d, func() {
		if a.probing != round {
			return
		}
		if p.Evidence != nil {
			a.evidence(p, round)
			return
		}
		f, pass := a.w.bundles[a.running].on(a.name), true
		switch f {
		case failsProbe:
			pass = false
		case flaps:
			pass = a.w.now%17 > 4 || a.w.now >= a.w.calm
		}
		// The soak counts from a healthy look; once converged nobody has to look.
		if a.core.Machine.Phase == host.Soaking {
			a.probe(p, round, p.Interval)
			a.input(host.ProbeObserved{Name: p.Name, Pass: pass, Reason: "unhealthy"})
		}
	})
}

// OpenRepair begins what waits.
func (a *agent) OpenRepair(host.OpenRepair) error {
	a.later(a.w.between(1, clock.Second), a.look)
	return nil
}
