package agent

import (
	"errors"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/host"
)

// Turn is what one input causes.
type Turn struct {
	// Events are reported to the server, in order. They are durable together with
	// the state or not at all.
	Events []event.Event
	// Desired, when set, is what the host is to run from now on. It becomes durable
	// with the state; the effect that carries it out is among Effects.
	Desired *Generation
	// Effects are carried out in order once state and events are durable.
	Effects []Effect
	// Save says that the state changed in a way that must be durable.
	Save bool
	// Accepted says that an offer was taken: its documents are needed later.
	Accepted bool
	// Moved says that the machine is in another phase or rollout.
	Moved bool
	// Dropped says why the machine did not take an input that was true when it was
	// made and is not legal any more.
	Dropped error
}

// turn carries one Step; it implements host.Effects.
type turn struct {
	Turn
	s       *State
	now     clock.Instant
	started bool // the process did
}

var _ host.Effects = (*turn)(nil)

// Step takes one input. It is pure but for the state, which it changes in place;
// now is on the agent's clock and must not be before any earlier now. An error
// means that an event cannot be written: the state is then to be discarded.
func (s *State) Step(in Input, now clock.Instant) (Turn, error) {
	t := &turn{s: s, now: now}
	if t.Dropped = s.admits(in); t.Dropped != nil {
		return t.Turn, nil
	}
	phase, manifest := s.Machine.Phase, s.Machine.Manifest
	if err := in.apply(t); err != nil {
		return t.Turn, err
	}
	t.leave()
	m := &s.Machine
	if s.probing && (len(m.Probes) == 0 || m.Reverting) {
		_ = t.StartProbes(host.StartProbes{}) // never fails
	}
	t.Moved = m.Phase != phase || m.Manifest != manifest
	if m.Phase != phase && m.AtRest() {
		t.sweep()
	}
	t.Save = t.Save || len(t.Events) > 0 || len(t.Effects) > 0
	return t.Turn, nil
}

func (t *turn) report(e event.Event) { t.Events = append(t.Events, e) }

func (t *turn) emit(e Effect) { t.Effects = append(t.Effects, e) }

// machine moves the machine by one input, reports it if it is notable, and takes
// in what it asks for.
func (t *turn) machine(in host.Input) error {
	if t.s.Removal.begun() {
		t.Dropped = errRemoved
		return nil
	}
	before := t.s.Machine
	next, effects, err := host.Step(before, in, t.now, &t.s.Plan)
	if errors.As(err, new(*host.IllegalError)) {
		t.Dropped = err
		return nil
	}
	if err != nil {
		return err
	}
	t.s.Machine = next
	if host.Notable(&before, &next, in) {
		e, err := event.NewHostStepped(&before, &next, in)
		if err != nil {
			return err
		}
		e.Unconfirmed, t.s.unconfirmed = t.s.unconfirmed, false
		t.report(e)
	}
	for _, e := range effects {
		if err := e.Run(t); err != nil {
			return err
		}
	}
	if !next.AtRest() {
		t.dropRepairs()
	}
	return nil
}

// Activate implements host.Effects, as do the methods below.
func (t *turn) Activate(e host.Activate) error {
	t.emit(Activate{Generation: t.desire(), Deadline: e.Deadline})
	return nil
}

func (t *turn) Revert(host.Revert) error {
	t.emit(Revert{t.desire()})
	return nil
}

// desire changes what the host is to run. What goes on after a restart is the same run,
// also when its order came while the host was on its way already.
func (t *turn) desire() Generation {
	next := GenerationOf(&t.s.Machine)
	if now := &t.s.Generation; !t.started || now.Bundle != next.Bundle || now.Revert != next.Revert {
		*now = next
	}
	next = t.s.Generation
	t.Desired = &next
	return next
}

func (t *turn) StartProbes(e host.StartProbes) error {
	t.s.round++
	t.s.probing = len(e.Probes) > 0
	t.emit(StartProbes{Round: t.s.round, Probes: e.Probes, Bundle: t.s.Bundle()})
	return nil
}

// Quarantine also gives back an offer of what is refused from now on, even one
// whose claim is under way.
func (t *turn) Quarantine(e host.Quarantine) error {
	s := t.s
	if !s.Quarantined(e.Digest) {
		s.Quarantine = append(s.Quarantine[:len(s.Quarantine):len(s.Quarantine)], QuarantineEntry{Digest: e.Digest, Reason: e.Reason, At: t.now})
	}
	t.report(event.BundleQuarantined{Rollout: s.Machine.Rollout, Digest: e.Digest, Reason: e.Reason})
	if o := s.Offer; o != nil && o.Purpose == host.Update && o.Plan.Target == e.Digest {
		t.giveBack(host.DeclineGivenBack, "this host quarantined "+e.Digest.Short()+" since")
	}
	return nil
}

func (t *turn) BeginReboot(e host.BeginReboot) error {
	t.emit(BeginReboot{Reason: e.Reason})
	return nil
}

// sweep has content removed that neither what runs, nor a revert, nor an offer needs.
func (t *turn) sweep() {
	if m := &t.s.Machine; t.s.Offer == nil {
		t.emit(Sweep{Keep: []digest.Digest{m.Current, m.From, m.Target}})
	}
}
