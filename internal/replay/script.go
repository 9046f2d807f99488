package replay

import (
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/forecast"
)

type activation struct {
	host     string
	manifest digest.Digest
}

// script is how the last activation of a manifest went on a host, as far as the log tells.
type script struct {
	began, complete, failed clock.Instant // on the host's own clock
	claim, rest             []func(*forecast.Behaviour)
}

func (s *script) tell(f func(*forecast.Behaviour)) { s.rest = append(s.rest, f) }

// ended is the end of the activation; what follows is told after it.
func (s *script) ended(at clock.Instant, why string) {
	took := at.Sub(s.began)
	s.tell(func(b *forecast.Behaviour) {
		b.Activation, b.Fails, b.Never, b.Probes, b.Cut = took, why, false, nil, false
	})
}

// offer is a grant and when it was offered.
type offer struct {
	event.Granted
	at clock.Instant
}

// scripted is a model that has hosts do again what they did, whenever they are
// granted; where the log does not tell, another model does.
type scripted struct {
	scripts map[activation]*script
	offers  map[string]offer // by grant
	times   []clock.Duration // of activations
	rest    forecast.Model
}

// Behave implements forecast.Model.
func (m *scripted) Behave(name string, p *fleet.HostPlan) forecast.Behaviour {
	b := m.rest.Behave(name, p)
	if s := m.scripts[activation{name, p.Manifest}]; s != nil {
		for _, tell := range slices.Concat(s.claim, s.rest) {
			tell(&b)
		}
	}
	return b
}

func (m *scripted) script(name string, d digest.Digest) *script {
	k := activation{name, d}
	if m.scripts[k] == nil {
		m.scripts[k] = &script{}
	}
	return m.scripts[k]
}

// survey folds the log as it was, and reads what hosts did. What is dropped tells nothing
// of them.
func survey(h *History, dropped []uint64) (*scripted, *plan.State, error) {
	m := &scripted{scripts: map[activation]*script{}, offers: map[string]offer{}}
	s, err := h.start(h)
	if err != nil {
		return nil, nil, err
	}
	seq := h.Base()
	s.Watch(func(e event.Entry, ev event.Event) {
		seq++
		switch ev := ev.(type) {
		case event.Granted:
			m.offers[ev.Grant] = offer{ev, e.At}
		case event.GrantClaimed:
			if o := m.offers[ev.Grant]; o.Purpose == host.Update {
				took := e.At.Sub(o.at)
				m.script(e.Host(), o.Manifest).claim = []func(*forecast.Behaviour){func(b *forecast.Behaviour) { b.Claim = took }}
			}
		case event.HostStepped:
			if in, err := ev.HostInput(); err == nil && !slices.Contains(dropped, seq) { // the fold refuses what is none
				m.stepped(&e, &ev, in)
			}
		}
	})
	return m, s, fold(s, h.Records)
}

// stepped notes what a host did.
func (m *scripted) stepped(r *event.Entry, ev *event.HostStepped, in host.Input) {
	s := m.script(r.Host(), ev.Manifest)
	if s.began == 0 {
		if _, begins := in.(host.Claimed); !begins {
			return
		}
	}
	switch in := in.(type) {
	case host.Claimed:
		*s = script{claim: s.claim, began: r.At}
	case host.Activated:
		s.complete = r.At
		s.ended(r.At, "")
		m.times = append(m.times, r.At.Sub(s.began))
	case host.ActivationFailed:
		s.ended(r.At, in.Code)
	case host.ProbeObserved:
		if s.complete != 0 {
			o := forecast.Observation{After: r.At.Sub(s.complete), Name: in.Name, Pass: in.Pass, Reason: in.Reason, Results: in.Results}
			s.tell(func(b *forecast.Behaviour) { b.Probes = append(b.Probes, o) })
		}
	case host.RevertCompleted:
		if s.failed != 0 {
			took := r.At.Sub(s.failed)
			s.tell(func(b *forecast.Behaviour) { b.Revert = took })
		}
	}
	if ev.To == host.Failed && ev.From != host.Failed {
		s.failed = r.At
		switch ev.Cause {
		case host.DeadlinePassed:
			s.ended(r.At, "")
			s.tell(func(b *forecast.Behaviour) { b.Never = true })
		case host.ContactLost:
			s.tell(func(b *forecast.Behaviour) { b.Cut = true })
		}
	}
}
