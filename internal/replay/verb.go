package replay

import (
	"cmp"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/plan"
)

// again decides what came from outside again: what an operator asked for, known by the
// first event that it left, and whether a host is there. All else is as it was.
func again(s *plan.State, r *event.Record, now clock.Instant) ([]event.Entry, error) {
	any, err := event.Decode(r.Entry)
	if err != nil {
		return nil, err
	}
	by, host := actor(r), r.Host()
	switch ev := any.(type) {
	case event.HostSilent:
		return plan.Presence(s, host, false, ev.LastSeen, now)
	case event.HostReturned:
		return plan.Presence(s, host, true, 0, now)
	case event.RolloutPaused:
		return plan.Operate(s, plan.Pause, cmp.Or(string(ev.Manifest), ev.Rollout), ev.Reason, by, now)
	case event.RolloutResumed:
		return plan.Operate(s, plan.Resume, cmp.Or(string(ev.Manifest), ev.Rollout), ev.Reason, by, now)
	case event.RolloutCancelled:
		return plan.Operate(s, plan.Cancel, cmp.Or(string(ev.Manifest), ev.Rollout), ev.Reason, by, now)
	case event.RolloutRetried:
		return plan.Retry(s, cmp.Or(string(ev.Manifest), ev.Rollout), ev.Reason, by, now)
	case event.RolloutMoved:
		if ev.Final {
			return plan.Operate(s, plan.Cancel, cmp.Or(string(ev.Manifest), ev.Rollout), strings.TrimPrefix(ev.Reason, "cancelled: "), by, now)
		}
	case event.WaveForced:
		return plan.Promote(s, cmp.Or(string(ev.Manifest), ev.Rollout), ev.WaveName, ev.Reason, by, now)
	case event.QuarantineAdded:
		return plan.AddQuarantine(s, ev.Channel, string(ev.Digest), ev.Reason, by, now)
	case event.QuarantineCleared:
		return plan.ClearQuarantine(s, ev.Channel, string(ev.Digest), ev.Reason, by, now)
	case event.HostFrozen:
		return plan.Freeze(s, host, ev.Until, ev.Reason, by, now)
	case event.HostUnfrozen:
		return plan.Unfreeze(s, host, ev.Reason, by, now)
	case event.HostDecommissioned:
		return plan.Decommission(s, host, ev.Reason, by, now)
	case event.OverrideAccepted:
		return plan.Override(s, gate.AcceptedOverride{Override: ev.Override, Digest: ev.Digest, Envelope: ev.Envelope}, by, now)
	case event.HostRevoked:
		if by != "" { // else a release did
			return plan.Revoke(s, host, ev.Reason, by, now)
		}
	}
	if event.IsDecision(r.Type) {
		return nil, nil // it followed from what was asked for
	}
	entries, err := plan.Record(s, host, now, any)
	if err != nil {
		return nil, &plan.VerbError{Reason: err.Error()}
	}
	return entries, nil
}
