package plan

import (
	"cmp"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/core/status"
)

// HostSummary is how a host is: the worst of its identity, presence, activation, health and place
// behind its channel. Declared is whether the newest release names it. What a waiting host waits
// for takes gates: Explainer.HostSummary adds it.
func (s *State) HostSummary(name string, declared bool) status.Summary {
	state, since := s.HostState(name, declared)
	out := status.Summary{Word: string(state), Level: levelOf(state), Since: since}
	h := s.Hosts[name]
	if h == nil {
		out.Reason, out.Who, out.Next = "no agent enrolled as it yet", status.HostOwner, []status.Remedy{status.Do(status.HostEnrol, name)}
		return out
	}
	out.Reason, out.Who = s.hostReason(h, state), status.HostOwner
	if !declared && out.Level.NeedsPerson() { // it is on its way out of the fleet
		out.Level = status.Waiting
	}
	switch state {
	case StateFailed, StateReverted:
		out.Who, out.Next = status.Releaser, []status.Remedy{status.Do(status.HostWhy, name), status.Do(status.ReleasePublish)}
	case gate.Forked, gate.Parked, gate.Revoked, HostState(gate.NeverEnrolled):
		out.Next = []status.Remedy{status.Do(status.HostEnrol, name)}
	case HostState(gate.Silent), HostState(gate.Offline):
		out.Next = []status.Remedy{status.Do(status.HostStart, name), status.Do(status.HostWhy, name)}
	case StateDegraded:
		out.Next = []status.Remedy{status.Do(status.HostResources, name), status.Do(status.HostRetry, name)}
	case StateBehind:
		out.Who, out.Next = s.behindRemedy(h)
	case StateFrozen:
		out.Who, out.Next = status.Operator, []status.Remedy{status.Do(status.HostUnfreeze, name)}
	case HostState(gate.Removed), gate.Leaving:
		out.Who, out.Next = status.Operator, []status.Remedy{status.Do(status.HostDecommission, name)}
	default:
		out.Who = ""
	}
	return out
}

// behindRemedy is who gets a host on with its channel again, and how.
func (s *State) behindRemedy(h *Host) (status.Actor, []status.Remedy) {
	b := s.Behind(h)
	switch b.Code {
	case BehindQuarantined:
		return status.Releaser, []status.Remedy{status.Do(status.ReleasePublish), status.Do(status.RolloutRetrySign, b.Rollout)}
	case BehindOverride:
		return status.KeyHolder, []status.Remedy{status.Do(status.RolloutRetrySign, b.Rollout)}
	case BehindCancelled:
		return status.Releaser, []status.Remedy{status.Do(status.ReleasePublish)}
	case BehindHalted, BehindPaused:
		return status.Operator, []status.Remedy{status.Do(status.RolloutResume, b.Rollout), status.Do(status.RolloutCancel, b.Rollout)}
	case BehindFrozen:
		return status.Operator, []status.Remedy{status.Do(status.HostUnfreeze, h.Name)}
	}
	return status.HostOwner, []status.Remedy{status.Do(status.HostWhy, h.Name)}
}

func levelOf(state HostState) status.Level {
	for i := range HostStates {
		if HostStates[i].State == state {
			return HostStates[i].Level
		}
	}
	return status.Critical // a state without a row hides nothing
}

// hostReason is why a host is in a state, without its name; empty where the word is enough.
func (s *State) hostReason(h *Host, state HostState) string {
	m := &h.Machine
	switch state {
	case StateFailed, StateReverting, StateReverted:
		switch {
		case h.Overdue:
			return "did not report in time what came of its claim"
		case h.SilentFailure:
			return "went silent after it claimed a grant"
		}
		return cmp.Or(prose.Failure(string(m.Cause), m.Detail), "its activation failed")
	case gate.Forked:
		return "two agents run on its identity"
	case gate.Parked:
		return "its state was set back: " + prose.Reason(h.Parked)
	case gate.Revoked:
		return "its certificates were revoked: " + h.Ended.Reason
	case HostState(gate.Silent):
		return "no contact while it acts on a claim"
	case HostState(gate.Offline):
		if h.LastSeen == 0 {
			return "no contact since it enrolled"
		}
		return "no contact since " + prose.Date(h.LastSeen)
	case StateDegraded:
		return h.Degraded.Summary()
	case StateBehind:
		return s.Behind(h).Reason
	case StateFailing, StateSoaking:
		if failing := m.FailingProbes(); len(failing) > 0 {
			return "probe " + failing[0].Name + " fails: " + failing[0].Reason
		}
	case StateFrozen:
		return "frozen until " + prose.Date(h.Freeze.Until) + ": " + h.Freeze.Reason
	case StateDeferred:
		return "the new bundle is staged and takes effect with a reboot"
	case StateWaiting:
		if h.Declines > 0 && h.LastDecline != "" {
			return "the host " + h.LastDecline
		}
	}
	if h.NeedsReboot() && levelOf(state) == status.OK { // for who looks: NixOS and Debian wait for nobody either
		return "needs a reboot: " + strings.Join(h.Facts.NeedsReboot, ", ")
	}
	return ""
}

// NeedsReboot reports whether the machine runs something otherwise than its system has it until it
// is rebooted.
func (h *Host) NeedsReboot() bool { return h.Facts != nil && len(h.Facts.NeedsReboot) > 0 }

// HostSummary is State.HostSummary with what a host that waits is waiting for.
func (q *Explainer) HostSummary(name string, declared bool) status.Summary {
	out := q.s.HostSummary(name, declared)
	switch HostState(out.Word) {
	case StateWaiting, StatePending, StateDeferred:
	default:
		return out
	}
	a, err := q.Why(name)
	if err != nil {
		return out
	}
	b := cmp.Or(a.Block, a.PendingBlock)
	if a.Reboot != nil && a.Reboot.Block != nil {
		b = a.Reboot.Block
	}
	if b != nil && out.Reason == "" {
		out.Reason = b.Message
	}
	return out
}

// RolloutOf is the newest rollout that names a host; empty where none does.
func (s *State) RolloutOf(name string) string {
	if h := s.Hosts[name]; h != nil {
		if at := s.newest(h, false); at.r != nil {
			return at.r.Name
		}
	}
	return ""
}

// AwayFor is how long a host that is at rest may be out of contact before a person is needed.
const AwayFor = clock.Hour

// KindHost and KindRollout are the kinds of this package's items.
const (
	KindHost    = event.KindHost
	KindRollout = event.KindRollout
)

// HostItem is what a host needs a person for; nil where it needs none, or where that is told of with
// its rollout.
func (s *State) HostItem(name string) *status.Item {
	item := &status.Item{Kind: KindHost, Name: name}
	state, since := s.HostState(name, true)
	switch h := s.Hosts[name]; state {
	case HostState(gate.Offline):
		item.From = cmp.Or(since, s.Hosts[name].IssuedAt).Add(AwayFor)
	case StateBehind:
		b := s.Behind(h)
		switch b.Code {
		case BehindQuarantined, BehindDeclined, BehindOverride:
		default: // a stop of the whole rollout is told of there, and a freeze is meant
			return nil
		}
		item.Cause = string(b.Code) + " " + b.Rollout
	case StateFailed, StateReverted:
		r := s.Rollouts[h.Machine.Manifest]
		if r != nil && s.inTrouble(r) {
			return nil
		}
		item.Cause = h.Machine.Rollout
	case StateDegraded:
		if h.degradedBySessions() { // told of with them
			return nil
		}
		item.Cause = h.Degraded.Cause()
	case gate.Forked, gate.Parked, gate.Revoked, HostState(gate.Silent):
	default:
		return nil
	}
	item.Summary = s.HostSummary(name, true)
	return item
}

// degradedBySessions reports whether a host is degraded for nothing but what sessions have on it.
func (h *Host) degradedBySessions() bool {
	d := h.Degraded
	return !d.Bundle && len(d.Probes) == 0 && d.More == 0 && !slices.ContainsFunc(d.Resources, func(r event.DegradedResource) bool {
		_, of := h.Occupied[r.Resource]
		return !of
	})
}

// RolloutItem is what the newest rollout of a channel needs a person for, or nil.
func (s *State) RolloutItem(channel string, now clock.Instant) *status.Item {
	c := s.Channels[channel]
	if c == nil {
		return nil
	}
	r := s.Rollouts[c.Latest]
	if r == nil || r.Final {
		return nil
	}
	item := &status.Item{Kind: KindRollout, Name: r.Name}
	if !s.inTrouble(r) && (!r.Paused || r.Phase.Ended()) {
		if r.BlockedSince == 0 || r.Phase.Ended() {
			return nil
		}
		item.Cause, item.From = "blocked "+r.Blocked, blockedFrom(r, FirstBlock(s, r, now))
		switch {
		case item.From == 0:
			return nil
		case !item.Due(now): // a rollout that proceeds comes by often
			return item
		}
	}
	item.Summary = s.RolloutSummary(r, now)
	return item
}
