package agent

import (
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/host"
)

// Input is a fact that the reducer takes. The sum is sealed.
type Input interface{ apply(*turn) error }

// Started says that the agent's process started, and is the first input of every
// run. BootID changes with the machine's boots alone; Current is the bundle that a
// host which never activated anything runs.
type Started struct {
	BootID  string
	Current digest.Digest
	// SetBack says that the stored state is older than the anchor beside it; its Since is
	// not read.
	SetBack *Parked
	// Confirm says that a server is there to be asked before anything is resumed.
	Confirm bool
}

func (in Started) apply(t *turn) error {
	s := t.s
	s.LastRefusal, s.refused, s.probing, s.observing = "", nil, false, false
	s.askUntil, s.held, s.unconfirmed, s.rebooting = 0, nil, false, false
	switch {
	case s.Parked != nil:
		t.stayParked()
		return nil
	case in.SetBack != nil:
		t.park(in.SetBack.Code, in.SetBack.Detail)
		return nil
	case in.Confirm && t.ask(in):
		t.Save = true
		return nil
	}
	return in.resume(t)
}

// resume goes on with all that was there when the process ended.
func (in Started) resume(t *turn) error {
	t.Save, t.started = true, true
	t.emit(RunResources{})
	if t.s.Removal.begun() {
		t.goOnLeaving()
	} else if err := t.machine(host.Booted{BootID: in.BootID, Current: in.Current}); err != nil {
		return err
	}
	t.resume()
	t.observe()
	if !t.s.Unconfirmed() { // else once it is known that nothing newer needs it
		t.sweep()
	}
	return nil
}

// resume goes on with an offer or a window that was there when the process ended.
func (t *turn) resume() {
	s := t.s
	switch {
	case s.Repairs.Grant != "":
		t.beginRepairs(s.Repairs.Names)
	case s.Offer == nil:
	case s.Offer.Prepared:
		t.claim()
	default:
		t.emit(Prepare{Offer: *s.Offer})
	}
}

// Elapsed says that an instant named by Due has come.
type Elapsed struct{}

func (Elapsed) apply(t *turn) error {
	s := t.s
	if s.Unconfirmed() && s.askUntil.Reached(t.now) {
		return t.unanswered()
	}
	if s.held != nil {
		return nil
	}
	if o := s.Offer; o != nil && !o.Prepared && o.Expires.Reached(t.now) {
		t.giveBack(host.DeclineExpired, "the grant expired before it was claimed")
	}
	if s.Repairs.due().Reached(t.now) {
		t.observe()
	}
	if !s.machineDue().Reached(t.now) {
		return nil
	}
	return t.machine(host.Elapsed{})
}

// observe asks once for what is to be seen.
func (t *turn) observe() {
	if !t.s.observing {
		t.s.observing = true
		t.emit(Observe{})
	}
}

// Contact says that the server accepted a request which began in an Era. Served is as in
// host.Contact.
type Contact struct {
	Era    clock.Instant
	Served clock.Duration
}

func (in Contact) apply(t *turn) error {
	if in.Era != t.s.Era() || !t.s.AwaitsContact() {
		return nil
	}
	return t.machine(host.Contact{Served: in.Served})
}

// ProbeObserved is what one run of a probe of a round found. One of an earlier
// round says nothing any more.
type ProbeObserved struct {
	Round int64
	host.ProbeObserved
}

func (in ProbeObserved) apply(t *turn) error {
	if in.Round != t.s.round {
		return nil
	}
	return t.machine(in.ProbeObserved)
}

// RebootFailed says that the reboot could not be started although it was tried
// again and again.
type RebootFailed struct{ Detail string }

func (in RebootFailed) apply(t *turn) error {
	if !t.s.Machine.Rebooting() && t.s.Rebooting() {
		t.repairRebootFailed(in.Detail)
		return nil
	}
	return t.machine(host.RebootFailed(in))
}

// Refused says that something which the server gave was not accepted: by which
// check, and with which code of package trust. It is reported once for each cause,
// which the detail is no part of, and again once something else was accepted.
type Refused struct{ Rollout, Check, Code, Detail string }

func (in Refused) apply(t *turn) error {
	s := t.s
	s.LastRefusal = in.Detail
	cause := in.Check + " " + in.Code + " " + in.Rollout
	if s.refused[cause] {
		return nil
	}
	if s.refused == nil {
		s.refused = map[string]bool{}
	}
	s.refused[cause] = true
	t.report(event.TrustRefused{Check: in.Check, Detail: in.Detail, Rollout: in.Rollout})
	return nil
}

// cured forgets refusals: what came since was accepted.
func (t *turn) cured() {
	clear(t.s.refused)
	if t.s.LastRefusal != "" {
		t.s.LastRefusal, t.Save = "", true
	}
}
