package sim

import (
	core "github.com/steadyfleet/steady/internal/core/agent"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
)

var _ core.Effects = (*agent)(nil)

// Prepare fetches for a while, now and then for longer than the grant lasts.
func (a *agent) Prepare(e core.Prepare) error {
	d := a.w.between(100, 30*clock.Second)
	if a.w.faulty(SlowDownload, 0.08) {
		d = a.w.between(clock.Minute, 5*clock.Minute)
	}
	a.later(d, func() {
		if a.w.faulty(Breakage, 0.05) {
			a.step(core.PrepareFailed{Grant: e.Offer.Grant, Detail: "the download broke"})
			return
		}
		a.step(core.Prepared{Grant: e.Offer.Grant})
	})
	return nil
}

// Claim asks until it is answered.
func (a *agent) Claim(e core.Claim) error {
	if o := a.core.Offer; o == nil || o.Grant != e.Offer.Grant {
		return nil
	}
	if e.Verify && !a.mayClaim(&e.Offer) {
		a.step(core.PrepareFailed{Grant: e.Offer.Grant, Detail: "refused"})
		return nil
	}
	deliver := func() {
		s := a.w.choose()
		if s.away() || !s.seen(a) {
			return
		}
		if accepted, ok := s.claim(a, e.Offer.Grant, e.Offer.Term); ok {
			a.w.send(a, func() {
				a.step(core.ClaimAnswered{Grant: e.Offer.Grant, Accepted: accepted, Stale: a.stale(&e.Offer)})
			})
		}
	}
	if e.Offer.Purpose == host.Reboot && a.w.faulty(HostCrash, 0.1) { // it boots by itself, and then the claim comes
		a.w.carry(a, a.w.between(15*clock.Second, 40*clock.Second), deliver)
		a.crash(a.w.between(clock.Second, 5*clock.Second), true)
		return nil
	}
	a.w.send(a, deliver)
	a.later(a.w.between(clock.Second, 5*clock.Second), func() { _ = a.Claim(e) })
	return nil
}

// Activate changes what runs, which takes its time and may fail.
func (a *agent) Activate(e core.Activate) error {
	a.w.checks.mayAct(a, "activates "+e.Bundle.Short())
	a.acting = e.Bundle
	clear(a.drift) // the generation repairs all on its way
	clear(a.restaged)
	a.w.checks.activates(a, e.Bundle)
	a.later(a.w.between(100, 40*clock.Second), func() {
		if a.acting != e.Bundle || a.core.Machine.Phase != host.Activating {
			return
		}
		a.w.checks.mayAct(a, "goes on activating "+e.Bundle.Short())
		a.acting = ""
		f := a.suffers(e.Bundle)
		if f != sound {
			a.w.checks.affects(a, e.Bundle)
		}
		if f == failsToActivate {
			a.observed(e.Generation, core.Broken, "the step failed")
			return
		}
		if a.stage() {
			a.observed(e.Generation, core.Staged, "kernel")
			return
		}
		a.running = e.Bundle
		if f == kills {
			a.stop(a.w.between(clock.Minute, 20*clock.Minute))
			return
		}
		a.observed(e.Generation, core.Complete, "")
	})
	return nil
}

// Revert goes back to what ran before.
func (a *agent) Revert(e core.Revert) error {
	a.w.checks.mayAct(a, "goes back")
	a.acting, a.leaving = "", true
	clear(a.drift)
	clear(a.restaged)
	a.later(a.w.between(100, 20*clock.Second), func() {
		if m := &a.core.Machine; m.Phase != host.Failed || !m.Reverting || !a.leaving {
			return
		}
		a.w.checks.mayAct(a, "goes on going back")
		if a.w.faulty(Breakage, 0.05) {
			a.observed(e.Generation, core.Broken, "the step failed")
			return
		}
		if a.stage() {
			a.observed(e.Generation, core.Staged, "kernel")
			return
		}
		a.running = e.Bundle
		a.observed(e.Generation, core.Complete, "")
	})
	return nil
}

// Leave takes away what runs, as an operator signed it.
func (a *agent) Leave(e core.Leave) error {
	a.w.checks.leaves(a, &e)
	a.acting, a.leaving, a.staged = "", false, 0
	clear(a.drift)
	clear(a.restaged)
	a.later(a.w.between(100, 20*clock.Second), func() {
		if a.core.Parked == nil && a.core.Generation.Run == e.Generation.Run {
			a.running = ""
			a.observed(e.Generation, core.Complete, "")
		}
	})
	return nil
}

// StartProbes looks at the bundle's health from now on.
func (a *agent) StartProbes(e core.StartProbes) error {
	a.probing = e.Round
	for _, p := range e.Probes {
		a.probe(p, e.Round, 1)
	}
	return nil
}

func (a *agent) probe(p fleet.Probe, round int64, d clock.Duration) {
	a.later(d, func() {
		if a.probing != round {
			return
		}
		if p.Evidence != nil {
			a.evidence(p, round)
			return
		}
		f, pass := a.w.bundles[a.running].on(a.name), a.running == a.core.Machine.Current // else the probe of resources fails
		switch f {
		case failsProbe:
			pass = false
		case flaps:
			pass = a.w.now%17 > 4 || a.w.now >= a.w.faultsEnd
		}
		// The soak counts from a healthy look; once converged nobody has to look.
		if a.core.Machine.Phase == host.Soaking {
			a.probe(p, round, p.Interval)
			a.step(core.ProbeObserved{Round: round, ProbeObserved: host.ProbeObserved{Name: p.Name, Pass: pass, Reason: "unhealthy"}})
		}
	})
}

// observed tells how far a generation has come.
func (a *agent) observed(g core.Generation, o core.Outcome, detail string) {
	a.step(core.GenerationObserved{Generation: g, Outcome: o, Code: "exit-1", Detail: detail})
}

// Observe says soon what is to be seen of repairs; begin starts those that may begin.
func (a *agent) Observe(core.Observe) error {
	a.later(a.w.between(1, clock.Second), a.observeRepairs)
	return nil
}

func (a *agent) BeginRepairs(core.BeginRepairs) error { return nil }
func (a *agent) CloseRepairs(core.CloseRepairs) error { return nil }
func (a *agent) Sweep(core.Sweep) error               { return nil } // all content stays

func (a *agent) RunResources(core.RunResources) error { return nil }

// StopResources ends what is under way.
func (a *agent) StopResources(core.StopResources) error {
	a.w.trace("%s is parked: %s", a.name, a.core.Parked.Code)
	a.acting, a.leaving, a.probing = "", false, 0
	clear(a.working)
	return nil
}
