package replay

import (
	"fmt"
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/forecast"
)

// script is how one activation went on one host, as far as the log tells.
type script struct {
	forecast.Behaviour
	granted, began, complete, failed clock.Instant
	hasClaim, hasEnd, hasRevert      bool
}

// scripted is a model that has hosts do again what they did, whenever they are
// granted; where the log does not tell, another model does.
type scripted struct {
	scripts map[string]map[digest.Digest]*script // by host and manifest
	rest    forecast.Model
}

// Behave implements forecast.Model.
func (m *scripted) Behave(name string, p *fleet.HostPlan) forecast.Behaviour {
	b := m.rest.Behave(name, p)
	s := m.scripts[name][p.Manifest]
	if s == nil {
		return b
	}
	if s.hasClaim {
		b.Claim = s.Claim
	}
	if s.hasEnd {
		b.Activation, b.Fails, b.Never, b.Probes, b.Cut = s.Activation, s.Fails, s.Never, s.Probes, s.Cut
	}
	if s.hasRevert {
		b.Revert = s.Behaviour.Revert
	}
	return b
}

// survey folds the log once as it was, and keeps what a run with something changed
// has to know of it.
type survey struct {
	state   *plan.State
	scripts map[string]map[digest.Digest]*script
	times   []clock.Duration // of activations
}

func (v *survey) script(name string, d digest.Digest) *script {
	if v.scripts[name] == nil {
		v.scripts[name] = map[digest.Digest]*script{}
	}
	if v.scripts[name][d] == nil {
		v.scripts[name][d] = &script{}
	}
	return v.scripts[name][d]
}

// look folds units, which must be as recorded. What is dropped tells nothing of a host.
func look(docs plan.Documents, records []event.Record, units []*unit, dropped []uint64) (*survey, error) {
	v := &survey{state: plan.New(docs), scripts: map[string]map[digest.Digest]*script{}}
	for _, u := range units {
		for i := u.first; i <= u.last; i++ {
			r := &records[i-1]
			err := v.state.Apply(r.Entry)
			if err == nil {
				err = v.take(u, r, slices.Contains(dropped, i))
			}
			if err != nil {
				return nil, fmt.Errorf("event %d: %w", i, err)
			}
		}
	}
	return v, nil
}

func (v *survey) take(u *unit, r *event.Record, dropped bool) error {
	switch r.Type {
	case event.Granted{}.EventType(), event.GrantClaimed{}.EventType(), event.HostStepped{}.EventType():
	default:
		return nil
	}
	ev, err := event.Decode(r.Entry)
	if err != nil {
		return err
	}
	switch ev := ev.(type) {
	case event.Granted:
		if ev.Purpose == host.Update {
			v.script(r.Host(), ev.Manifest).granted = u.at
		}
	case event.GrantClaimed:
		if g := v.state.Hosts[r.Host()].Grant; g != nil && g.Purpose == host.Update {
			if s := v.script(r.Host(), g.Manifest); s.granted != 0 {
				s.Claim, s.hasClaim = u.at.Sub(s.granted), true
			}
		}
	case event.HostStepped:
		if !dropped {
			return v.stepped(r, ev)
		}
	}
	return nil
}

// stepped notes what a host did; all instants are on its own clock.
func (v *survey) stepped(r *event.Record, ev event.HostStepped) error {
	in, err := ev.HostInput()
	if err != nil {
		return err
	}
	s := v.script(r.Host(), ev.Manifest)
	switch in := in.(type) {
	case host.Claimed:
		*s = script{granted: s.granted, hasClaim: s.hasClaim, began: r.At, Behaviour: forecast.Behaviour{Claim: s.Claim}}
	case host.Activated:
		s.Activation, s.hasEnd, s.complete = r.At.Sub(s.began), s.began != 0, r.At
		if s.hasEnd {
			v.times = append(v.times, s.Activation)
		}
	case host.ActivationFailed:
		s.Activation, s.hasEnd, s.Fails = r.At.Sub(s.began), s.began != 0, in.Code
	case host.ProbeObserved:
		if s.complete != 0 {
			s.Probes = append(s.Probes, forecast.Observation{After: r.At.Sub(s.complete), Name: in.Name, Pass: in.Pass, Reason: in.Reason, Results: in.Results})
		}
	case host.RevertCompleted:
		if s.failed != 0 {
			s.Behaviour.Revert, s.hasRevert = r.At.Sub(s.failed), true
		}
	}
	if ev.To == host.Failed && ev.From != host.Failed {
		s.failed = r.At
		switch ev.Cause {
		case host.DeadlinePassed:
			s.Never, s.hasEnd = true, s.began != 0
		case host.ContactLost:
			s.Cut = true
		}
	}
	return nil
}

// median of the recorded activations, or the default.
func (v *survey) median(or clock.Duration) clock.Duration {
	if len(v.times) == 0 {
		return or
	}
	times := slices.Sorted(slices.Values(v.times))
	return times[len(times)/2]
}
