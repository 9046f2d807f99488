package sim

import (
	core "github.com/steadyfleet/steady/internal/core/agent"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/host"
)

// stepped checks what one input caused.
func (t *checker) stepped(a *agent, old *core.State, in core.Input, turn *core.Turn) {
	before, m := &old.Machine, &a.core.Machine
	a.w.touched = a.w.touched || len(turn.Events) > 0
	switch in := in.(type) {
	case core.Granted:
		t.offered(a, old)
	case core.Prepared:
		t.obeys(a)
	case core.ClaimAnswered:
		t.answered(a, old, in, turn)
	case core.OverridesReceived:
		t.received(a, in.Overrides)
		if o := a.core.Offer; o != nil && !o.Prepared {
			t.obeys(a)
		}
	case core.RepairsObserved:
		if grant := old.Repairs.Grant; grant != "" && a.core.Repairs.Grant == "" && a.repairing() {
			a.w.violate("S1", "%s closes window %s while a repair runs", a.name, grant)
		}
	}
	if !host.Legal(before.Phase, m.Phase) {
		a.w.violate("S19", "%s went from %s to %s on %T", a.name, before.Phase, m.Phase, in)
	}
	if m.Phase == host.Converged && before.Phase != host.Converged {
		if m.Current != m.Target || a.running != m.Target {
			a.w.violate("S20", "%s converged on %s while %s runs", a.name, m.Target.Short(), a.running.Short())
		}
		if a.now().Sub(m.SoakFrom) < a.core.Plan.Soak || !m.Healthy(&a.core.Plan) {
			a.w.violate("S9", "%s converged without its soak", a.name)
		}
		if got := a.w.now.Sub(a.witnessed.since[host.Soaking]); got < a.core.Plan.Soak {
			a.w.violate("S38", "%s converged %s after its activation, by a clock that does not jump, and has to soak %s", a.name, got, a.core.Plan.Soak)
		}
	}
	if m.Phase == host.Reverted && before.Phase == host.Failed && (m.Current != before.From || a.running != before.From) {
		a.w.violate("S21", "%s reverted to %s instead of %s", a.name, m.Current.Short(), before.From.Short())
	}
	if m.Phase == host.Reverted && before.Phase == host.Failed && m.Current != "" && a.core.Quarantined(m.Current) {
		a.w.violate("S21", "%s reverted to %s, which it quarantined", a.name, m.Current.Short())
	}
	if m.Phase == host.Failed && before.Phase != host.Failed {
		t.failed(a, before.Phase)
	}
	if m.Phase != before.Phase {
		if a.witnessed.since == nil {
			a.witnessed.since = map[host.Phase]clock.Instant{}
		}
		a.witnessed.since[m.Phase] = a.w.now
	}
}

// failed checks that time alone fails no host before its time, by a clock that
// does not jump.
func (t *checker) failed(a *agent, was host.Phase) {
	if a.core.Machine.Cause != host.RevertOrdered {
		t.failures[hostOf{a.core.Machine.Manifest, a.name}] = true
	}
	p := &a.core.Plan.Policy
	least := map[host.Cause]clock.Duration{host.DeadlinePassed: p.ActivationDeadline, host.ContactLost: p.ConfirmWindow,
		host.ProbeFailing: p.SustainedFailure}[a.core.Machine.Cause]
	if got := a.w.now.Sub(a.witnessed.since[was]); got < least {
		a.w.violate("S38", "%s failed with %s after %s %s, and may have %s", a.name, a.core.Machine.Cause, got, was, least)
	}
}

// offered checks that a host takes no offer of a server that was replaced, as far
// as it can know, and none that an override forbids.
func (t *checker) offered(a *agent, before *core.State) {
	if a.core.MaxTerm < before.MaxTerm {
		a.w.violate("S31", "%s has seen term %d and forgets it for term %d", a.name, before.MaxTerm, a.core.MaxTerm)
	}
	o := a.core.Offer
	if o == nil || before.Offer != nil && before.Offer.Grant == o.Grant {
		return
	}
	t.obeys(a)
	if o.Term < a.witnessed.floor {
		a.w.violate("S31", "%s takes grant %s of term %d and has seen term %d", a.name, o.Grant, o.Term, a.witnessed.floor)
	}
	a.witnessed.floor = o.Term
}

// answered checks what a host does once a claim of it is answered.
func (t *checker) answered(a *agent, before *core.State, in core.ClaimAnswered, turn *core.Turn) {
	o := before.Offer
	if o == nil || o.Grant != in.Grant {
		return
	}
	if m, p := &a.core.Machine, &a.core.Plan; m.Manifest != p.Manifest {
		a.w.violate("S24", "%s is in %s and goes by the plan of %s", a.name, m.Rollout, p.Rollout)
	}
	acts := o.Purpose == host.Repair && a.core.Repairs.Grant == o.Grant
	for _, ev := range turn.Events {
		if e, ok := ev.(event.HostStepped); ok {
			acts = true
			if e.Input == (host.RevertClaimed{}).Kind() {
				t.sentBack(a, o.Plan.Manifest)
			}
		}
	}
	if acts {
		t.started(a, o.Grant, in.Accepted)
	}
}
