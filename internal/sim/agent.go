package sim

import (
	"errors"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/plan"
)

// agent drives the agent's reducer as the real agent does: state and events are
// durable together, then the effects are carried out. What the fields above
// "volatile" hold survives a crash.
type agent struct {
	w    *World
	name string
	skew clock.Instant // its clock is the world's and this

	core    host.Agent
	outbox  []event.Entry
	seq     uint64
	inc     uint64
	running digest.Digest   // what really runs
	acting  digest.Digest   // what is being activated, or empty
	drift   map[string]bool // what a repair has to stop: true once that has begun

	// volatile
	life        int // counts lives; what an earlier one planned is void
	up          bool
	partitioned bool
	sending     bool
	probing     int
	dueAt       clock.Instant
	working     map[string]bool // repairs that are timed to end
	gaveUp      []string        // repairs that failed in the present window
}

func newAgent(w *World, name string, skew clock.Instant) *agent {
	return &agent{w: w, name: name, skew: skew, drift: map[string]bool{}, working: map[string]bool{}}
}

func (a *agent) now() clock.Instant { return a.w.now + a.skew }

// cut reports whether no message passes: by partition, or because the bundle
// that runs took the network down.
func (a *agent) cut() bool {
	return !a.up || a.partitioned || a.w.now < a.w.calm && a.w.bundles[a.running].on(a.name) == cutsContact
}

// later has run called in d if the agent still lives its present life.
func (a *agent) later(d clock.Duration, run func()) {
	life := a.life
	a.w.after(d, func() {
		if a.up && a.life == life && len(a.w.found) == 0 {
			run()
		}
	})
}

// enrol gives the host its identity; the server has to be there for it.
func (a *agent) enrol() {
	if a.w.server.down {
		a.w.after(5*clock.Second, a.enrol)
		return
	}
	a.inc++
	ok := a.w.server.commit(plan.Record(a.w.server.state, a.name, a.w.now,
		event.HostEnrolled{Incarnation: a.inc, Token: a.name}))
	if !ok {
		a.inc--
		a.w.after(5*clock.Second, a.enrol)
		return
	}
	a.start()
}

func (a *agent) start() {
	a.up = true
	a.life++
	a.sending, a.dueAt = false, 0
	clear(a.working)
	a.gaveUp = nil
	a.w.trace("%s starts", a.name)
	a.step(host.Booted{BootID: "boot", Current: a.running})
	a.carry(a.core.Resume())
	a.look()
	a.poll()
	a.flush()
}

// crash ends the agent's process; it comes back after a while.
func (a *agent) crash() {
	if !a.up || a.w.now >= a.w.calm {
		return
	}
	a.stop(a.w.between(clock.Second, 5*clock.Minute))
}

func (a *agent) stop(back clock.Duration) {
	a.up = false
	a.w.trace("%s dies", a.name)
	a.w.after(back, a.start)
}

// step moves the machine, journals what is notable and carries out the effects.
func (a *agent) step(in host.Input) {
	before := a.core.Machine
	effects, report, err := a.core.Step(in, a.now())
	if illegal := (*host.IllegalError)(nil); errors.As(err, &illegal) {
		return
	}
	a.w.truth.stepped(a, &before, in)
	if report {
		ev, err := event.NewHostStepped(&before, &a.core.Machine, in)
		if err != nil {
			a.w.violate("core", "%v", err)
			return
		}
		a.record(ev)
	}
	if a.w.faulty(0.002) {
		a.w.trace("%s dies between its journal and its effects", a.name)
		a.stop(a.w.between(clock.Second, clock.Minute))
		return
	}
	a.carry(effects)
	a.rest()
}

// record puts an event into the outbox.
func (a *agent) record(ev event.Event) {
	e, err := event.NewEntry(a.now(), a.name, ev)
	if err != nil {
		a.w.violate("core", "%v", err)
		return
	}
	a.seq++
	e.Incarnation, e.HostSeq = a.inc, a.seq
	a.outbox = append(a.outbox, e)
	a.flush()
}

func (a *agent) carry(effects []host.Effect) {
	for _, e := range effects {
		if err := e.Run(a); err != nil {
			a.w.violate("core", "%v", err)
		}
	}
}

// rest sleeps until the reducer is due.
func (a *agent) rest() {
	due := a.core.Due()
	if due == 0 || due == a.dueAt {
		return
	}
	a.dueAt = due
	a.later(due.Sub(a.now()), func() {
		a.dueAt = 0
		a.carry(a.core.Expire(a.now()))
		if a.core.Repairs.Due().Reached(a.now()) {
			a.look()
		}
		a.step(host.Elapsed{})
	})
}

// flush sends the outbox until it is acknowledged.
func (a *agent) flush() {
	if a.sending || len(a.outbox) == 0 {
		return
	}
	a.sending = true
	batch := append([]event.Entry(nil), a.outbox...)
	sent := a.now()
	a.w.send(a, func() {
		s := a.w.server
		if s.down {
			return
		}
		s.seen(a.name)
		acked, ok := s.take(a, batch)
		if ok {
			a.w.send(a, func() { a.acked(acked, sent) })
		}
	})
	a.later(a.w.between(2*clock.Second, 8*clock.Second), func() {
		a.sending = false
		a.flush()
	})
}

func (a *agent) acked(upTo uint64, sent clock.Instant) {
	for len(a.outbox) > 0 && a.outbox[0].HostSeq <= upTo {
		a.outbox = a.outbox[1:]
	}
	a.contact(sent)
}

// contact tells the machine of an answer to a request made since activation.
func (a *agent) contact(sent clock.Instant) {
	if a.up && sent >= a.core.Machine.CompletedAt {
		a.step(host.Contact{})
	}
}

// poll asks for a grant again and again.
func (a *agent) poll() {
	a.later(a.w.between(2*clock.Second, 10*clock.Second), a.poll)
	sent := a.now()
	a.w.send(a, func() {
		s := a.w.server
		if s.down {
			return
		}
		s.seen(a.name)
		h := s.state.Hosts[a.name]
		if h == nil || h.Grant == nil {
			a.w.send(a, func() { a.contact(sent) })
			return
		}
		g, term, at := *h.Grant, s.term, a.w.now
		a.w.send(a, func() {
			a.contact(sent)
			if a.up {
				a.granted(g, term, at)
			}
		})
	})
}

func (a *agent) granted(g plan.Grant, term uint64, at clock.Instant) {
	m, err := a.w.docs.Manifest(g.Manifest)
	if err != nil {
		a.w.violate("core", "%v", err)
		return
	}
	o := host.Offer{Grant: g.ID, Purpose: g.Purpose, Term: term, Plan: *m.HostPlan(a.name), Reason: g.Reason,
		Expires: a.now().Add(g.Expires.Sub(at))}
	a.carry(a.core.Granted(o, a.now()))
	a.rest()
}

// The effects.

// Prepare fetches for a while.
func (a *agent) Prepare(e host.Prepare) error {
	a.later(a.w.between(100, 30*clock.Second), func() {
		if a.w.faulty(0.05) {
			a.carry(a.core.PrepareFailed(e.Offer.Grant, "the download broke"))
			return
		}
		a.carry(a.core.Prepared(e.Offer.Grant, a.now()))
	})
	return nil
}

// Claim asks until it is answered.
func (a *agent) Claim(e host.Claim) error {
	if o := a.core.Offer; o == nil || o.Grant != e.Offer.Grant {
		return nil
	}
	a.w.send(a, func() {
		s := a.w.server
		if s.down {
			return
		}
		s.seen(a.name)
		entries, err := plan.Claim(s.state, a.name, e.Offer.Grant, a.w.now)
		accepted := err == nil
		if refused := (*plan.ClaimRefusedError)(nil); errors.As(err, &refused) {
			err = nil
		}
		if !s.commit(entries, err) {
			return
		}
		a.w.send(a, func() { a.answered(e.Offer.Grant, accepted) })
	})
	a.later(a.w.between(clock.Second, 5*clock.Second), func() { a.carry([]host.Effect{e}) })
	return nil
}

func (a *agent) answered(grant string, accepted bool) {
	if !a.up {
		return
	}
	if o := a.core.Offer; o != nil && o.Grant == grant && o.Purpose == host.Repair {
		effects := a.core.RepairAnswered(grant, accepted, a.now())
		if a.core.Repairs.Grant == grant {
			a.w.truth.started(a, grant, accepted)
		}
		a.carry(effects)
		a.rest()
		return
	}
	if in := a.core.ClaimAnswered(grant, accepted, "boot"); in != nil {
		a.w.truth.started(a, grant, accepted)
		a.step(in)
	}
}

// Decline reports that a grant is not taken.
func (a *agent) Decline(e host.Decline) error {
	a.record(event.GrantDeclined{Grant: e.Grant, Code: e.Code, Detail: e.Detail})
	return nil
}

// Quarantine reports what this host refuses from now on.
func (a *agent) Quarantine(e host.Quarantine) error {
	a.record(event.BundleQuarantined{Rollout: a.core.Machine.Rollout, Digest: e.Digest, Reason: e.Reason})
	return nil
}

// Activate changes what runs, which takes its time and may fail.
func (a *agent) Activate(e host.Activate) error {
	a.acting = e.Target
	clear(a.drift) // the generation repairs all on its way
	f := a.w.bundles[e.Target].on(a.name)
	a.later(a.w.between(100, 40*clock.Second), func() {
		if a.acting != e.Target || a.core.Machine.Phase != host.Activating {
			return
		}
		a.acting = ""
		if f == failsToActivate {
			a.step(host.ActivationFailed{Code: "exit-1", Detail: "the step failed"})
			return
		}
		a.running = e.Target
		if f == kills && a.w.now < a.w.calm {
			a.stop(a.w.between(clock.Minute, 20*clock.Minute))
			return
		}
		a.step(host.Activated{Observed: e.Target})
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
		if a.w.faulty(0.05) {
			a.step(host.RevertFailed{Code: "exit-1", Detail: "the step failed"})
			return
		}
		a.running = e.To
		a.step(host.RevertCompleted{Observed: e.To})
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
		f, pass := a.w.bundles[a.running].on(a.name), true
		switch f {
		case failsProbe:
			pass = false
		case flaps:
			pass = a.w.now%17 > 4 || a.w.now >= a.w.calm
		}
		// The soak counts from a healthy look; once converged nobody has to look.
		if a.core.Machine.Phase == host.Soaking {
			a.step(host.ProbeObserved{Name: p.Name, Pass: pass, Reason: "unhealthy"})
			a.probe(p, round, p.Interval)
		}
	})
}
