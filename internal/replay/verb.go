package replay

import (
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/plan"
)

// decide is a function by which the server decides what an operator asks for.
type decide func(s *plan.State, now clock.Instant) ([]event.Entry, error)

// operation returns what an operator asked for, known by the first event that it left;
// nil for an event that no operator asked for.
func operation(r *event.Record) decide {
	ev, err := event.Decode(r.Entry)
	if err != nil {
		return nil // the fold refuses it
	}
	operate := func(v plan.Verb, manifest digest.Digest, name, reason, actor string) decide {
		return func(s *plan.State, now clock.Instant) ([]event.Entry, error) {
			return plan.Operate(s, v, rolloutID(manifest, name), reason, actor, now)
		}
	}
	of := func(end func(s *plan.State, host, reason, actor string, now clock.Instant) ([]event.Entry, error), reason, actor string) decide {
		if actor == "" || actor == "release" {
			return nil
		}
		return func(s *plan.State, now clock.Instant) ([]event.Entry, error) {
			return end(s, r.Host(), reason, actor, now)
		}
	}
	switch ev := ev.(type) {
	case event.RolloutPaused:
		return operate(plan.Pause, ev.Manifest, ev.Rollout, ev.Reason, ev.Actor)
	case event.RolloutResumed:
		return operate(plan.Resume, ev.Manifest, ev.Rollout, ev.Reason, ev.Actor)
	case event.RolloutCancelled:
		return operate(plan.Cancel, ev.Manifest, ev.Rollout, ev.Reason, ev.Actor)
	case event.RolloutMoved:
		if ev.Final && ev.Actor != "" {
			return operate(plan.Cancel, ev.Manifest, ev.Rollout, strings.TrimPrefix(ev.Reason, "cancelled: "), ev.Actor)
		}
	case event.WaveForced:
		return func(s *plan.State, now clock.Instant) ([]event.Entry, error) {
			return plan.Promote(s, rolloutID(ev.Manifest, ev.Rollout), waveName(s, ev), ev.Reason, ev.Actor, now)
		}
	case event.QuarantineAdded:
		return func(s *plan.State, now clock.Instant) ([]event.Entry, error) {
			return plan.AddQuarantine(s, ev.Channel, string(ev.Digest), ev.Reason, ev.Actor, now)
		}
	case event.QuarantineCleared:
		return func(s *plan.State, now clock.Instant) ([]event.Entry, error) {
			return plan.ClearQuarantine(s, ev.Channel, string(ev.Digest), ev.Reason, ev.Actor, now)
		}
	case event.HostFrozen:
		return func(s *plan.State, now clock.Instant) ([]event.Entry, error) {
			return plan.Freeze(s, r.Host(), ev.Until, ev.Reason, ev.Actor, now)
		}
	case event.HostUnfrozen:
		return of(plan.Unfreeze, ev.Reason, ev.Actor)
	case event.HostRevoked:
		return of(plan.Revoke, ev.Reason, ev.Actor)
	case event.HostDecommissioned:
		return of(plan.Decommission, ev.Reason, ev.Actor)
	case event.OverrideAccepted:
		return func(s *plan.State, now clock.Instant) ([]event.Entry, error) {
			return plan.Override(s, gate.AcceptedOverride{Override: ev.Override, Digest: ev.Digest, Envelope: ev.Envelope}, ev.Actor, now)
		}
	}
	return nil
}

func rolloutID(d digest.Digest, name string) string {
	if d != "" {
		return string(d)
	}
	return name
}

// waveName is empty for a wave that there is not, which no rollout is at.
func waveName(s *plan.State, ev event.WaveForced) string {
	r := s.Find(rolloutID(ev.Manifest, ev.Rollout))
	if r == nil || r.Plan == nil || ev.Wave < 0 || ev.Wave >= len(r.Plan.Header.Waves) {
		return ""
	}
	return r.Plan.Header.Waves[ev.Wave].Name
}
