package plan

import (
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
)

// mirror steps the server's copy of a host's machine, and follows the host where it took another
// step that machines can take; it returns the difference, if any. A step that no machine takes
// is recorded and not followed: also where the log was restored and lacks the grants of a host,
// it has all of its steps.
func (s *State) mirror(h *Host, in host.Input, at clock.Instant, ev event.HostStepped) *event.MirrorDiverged {
	plan := s.hostPlan(h, ev.Manifest)
	if plan == nil {
		plan = unknownPlan(in)
	}
	m := &h.Machine
	next, _, err := host.Step(*m, in, at, plan)
	_, booted := in.(host.Booted)
	comes := m.Phase == "" && booted && slices.Contains(host.Phases, ev.To) // with a past that the server did not see
	told := h.Replayed.Acting || h.Seq <= h.Replayed.To
	possible := comes || accepts(m, in, &ev) && h.mayBegin(in)
	if possible && err == nil && next.Phase == ev.To {
		*m = next
		if next.Phase == host.Failed {
			m.Detail = ev.Detail // the agent saw more of the probe than it reported
		}
		return nil
	}
	d := &event.MirrorDiverged{Rollout: ev.Rollout, Expected: next.Phase, Reported: ev.To, Input: ev.Input}
	if !possible {
		return d
	}
	if comes && err == nil {
		*m = next
	}
	if _, looked := in.(host.ProbeObserved); looked { // its look is as it says, also where it should have failed by it
		m.SoakFrom, m.Probes = next.SoakFrom, next.Probes
	}
	follow(m, in, at, &ev, plan)
	if told {
		return nil // the server lacks what it would have expected it by
	}
	return d
}

// mayBegin reports whether a host that begins something was acknowledged the claim of it, by the
// log or by the part that a restored log lacks: by its own word alone it goes nowhere. One at rest
// that answers the grant of a reboot begins nothing.
func (h *Host) mayBegin(in host.Input) bool {
	grant, purpose := actsOn(in)
	return purpose == "" || h.hasClaim(grant) || h.Seq <= h.Replayed.To || purpose == host.Reboot && h.Machine.AtRest()
}

// accepts reports whether a machine can take a step: by its phases, and in the rollout that it
// is in.
func accepts(m *host.State, in host.Input, ev *event.HostStepped) bool {
	manifest := m.Manifest
	if claim, claims := in.(host.Claimed); claims {
		manifest = claim.Manifest
	}
	return ev.Manifest == manifest && host.Accepts(in, m.Phase, ev.To)
}

// follow has a machine go where its host says that it went.
func follow(m *host.State, in host.Input, at clock.Instant, ev *event.HostStepped, plan *fleet.HostPlan) {
	was := m.Phase
	switch in := in.(type) {
	case host.Claimed:
		*m = host.State{Release: in.Release, Grant: in.Grant, From: in.From, Target: in.Target, Wave: in.Wave, Current: m.Current, BootID: in.BootID,
			ClaimedAt: at, Deadline: at.Add(plan.Policy.ActivationDeadline)}
	case host.Activated:
		m.Current = in.Observed
		m.CompletedAt, m.SoakFrom, m.ConfirmBy, m.Probes = at, at, 0, nil
	case host.RevertCompleted:
		m.Current, m.Reverting = in.Observed, false
	case host.Booted:
		if was == "" {
			m.Current, m.Target = in.Current, plan.Target
		}
	}
	m.Phase, m.Manifest, m.Rollout = ev.To, ev.Manifest, ev.Rollout
	m.Cause, m.Detail = ev.Cause, ev.Detail
	if ev.To == host.Failed && was != host.Failed {
		m.FailedAt, m.ConfirmBy, m.Deadline, m.Rebooted = at, 0, 0, false
		m.Reverting = ev.Cause == host.ContactLost || plan.Policy.OnHealthFailure == fleet.RollbackAndHalt
	}
}
