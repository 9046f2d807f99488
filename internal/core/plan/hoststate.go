package plan

import (
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/rollout"
	"github.com/steadyfleet/steady/internal/core/status"
)

// HostState is where a host stands, in one word: why it cannot be counted on, or else what it
// does of its rollout.
type HostState string

// The states. Those that a presence has too are of the same name.
const (
	StateFailed     HostState = "failed"
	StateReverting  HostState = "reverting"
	StateDegraded   HostState = "degraded"
	StateBehind     HostState = "behind"
	StateReverted   HostState = "reverted"
	StateFrozen     HostState = "frozen"
	StateDeferred   HostState = "deferred"
	StateActivating HostState = "activating"
	StateSoaking    HostState = "soaking"
	StateOffered    HostState = "offered"
	StateFailing    HostState = "failing"
	StateWaiting    HostState = "waiting"
	StatePending    HostState = "pending"
	StateConverged  HostState = "converged"
)

// HostStateRow is what a state means, how bad it is, and what to do about it. Code stands for it
// where every host has one letter.
type HostStateRow struct {
	State HostState
	Code  byte
	Level status.Level
	Means string
	Next  string
}

const (
	askWhy  = "`steady why HOST` tells the reason and what clears it"
	enrol   = "`steady token create HOST`, and enrol it again"
	nothing = "nothing: it continues by itself"
)

// HostStates lists every state, the worst first.
var HostStates = []HostStateRow{
	{StateFailed, 'f', status.Critical, "its activation failed, or nothing came of its claim in time, and it does not continue by itself", askWhy},
	{gate.Forked, 'k', status.Critical, "two agents run on its identity", "stop all but one agent; then " + enrol},
	{gate.Parked, 'p', status.Critical, "the host found that its state was set back, and does nothing until it enrols again", "check its disk; then " + enrol},
	{gate.Revoked, 'v', status.Critical, "its certificates were ended", enrol + "; or `steady host decommission HOST`"},
	{HostState(gate.Silent), 's', status.Critical, "no contact while it acts on a claim", "start its agent; else it is given up at the instant that `steady why HOST` names"},
	{StateDegraded, 'd', status.Critical, "it does not run its bundle as it should", "`steady host show HOST` names the resources and probes"},
	{StateReverting, 'b', status.Warning, "its activation failed, and it is on its way back", nothing},
	{StateBehind, 'n', status.Warning, "it is in contact and runs another bundle than the newest that its channel gives it, and its turn does not come by itself", askWhy},
	{StateReverted, 'r', status.Warning, "it runs its earlier bundle again after a failure", "release a fix: what failed is quarantined on it"},
	{HostState(gate.Offline), 'o', status.Away, "enrolled, no contact, and at rest", "start its agent, and check its log and its network"},
	{StateFailing, 'y', status.Busy, "a probe fails, for a shorter time than its policy calls a failure", "nothing: it passes again, or the host becomes degraded"},
	{StateFrozen, 'z', status.Waiting, "an operator keeps it from grants", "`steady host unfreeze HOST`, or wait until the freeze ends"},
	{StateDeferred, 't', status.Waiting, "the target is staged and waits for a reboot", "nothing, or reboot it: it is granted a reboot as the gates allow"},
	{StateActivating, 'a', status.Busy, "it acts on its claim, until every resource was seen converged", nothing},
	{StateSoaking, 'g', status.Busy, "the target runs, and its probes are watched", nothing},
	{StateOffered, 'q', status.Busy, "it was offered a grant and did not claim it yet", nothing},
	{StateWaiting, 'w', status.Waiting, "the newest rollout of its channel has still to reach it", askWhy},
	{StatePending, 'e', status.Waiting, "enrolled, and it was given nothing yet", askWhy},
	{HostState(gate.NeverEnrolled), 'u', status.Waiting, "declared, and no agent enrolled as it yet", "`steady token create HOST`, and start its agent with it"},
	{gate.Leaving, 'l', status.Waiting, "a signed override took it out of the fleet", "`steady host decommission HOST` once its workloads are gone"},
	{HostState(gate.Removed), 'm', status.Waiting, "enrolled, and the newest release does not declare it", "`steady host decommission HOST` if it is meant to go"},
	{StateConverged, 'c', status.OK, "it runs what it should", "nothing"},
	{gate.Decommissioned, 'x', status.Waiting, "retired by an operator", "nothing"},
}

var codes = func() map[HostState]byte {
	m := make(map[HostState]byte, len(HostStates))
	for _, row := range HostStates {
		m[row.State] = row.Code
	}
	return m
}()

// StateOf is the row of a code; nil of none.
func StateOf(code byte) *HostStateRow {
	if i := slices.IndexFunc(HostStates, func(r HostStateRow) bool { return r.Code == code }); i >= 0 {
		return &HostStates[i]
	}
	return nil
}

// HostState is the state of a host, and since when, which is zero where that is not known.
// Declared is whether the newest release names it.
func (s *State) HostState(name string, declared bool) (HostState, clock.Instant) {
	h := s.Hosts[name]
	if h == nil {
		return HostState(gate.NeverEnrolled), 0
	}
	m, p := &h.Machine, h.Presence(declared)
	switch p {
	case gate.NeverEnrolled, gate.Forked, gate.Parked, gate.Revoked, gate.Leaving, gate.Removed, gate.Decommissioned:
		return HostState(p), 0
	}
	switch {
	case m.Phase == host.Failed && m.Reverting && p == gate.Online:
		return StateReverting, h.Clock.onServer(m.FailedAt)
	case m.Phase == host.Failed && !m.Reverting:
		return StateFailed, h.Clock.onServer(m.FailedAt)
	case h.SilentFailure, h.Overdue:
		return StateFailed, h.SilentSince
	case p == gate.Silent:
		return HostState(gate.Silent), h.SilentSince
	case p == gate.Offline:
		return HostState(gate.Offline), h.LastSeen
	case m.Phase == host.Activating:
		return StateActivating, h.Work.Since
	case m.Phase == host.Soaking:
		return StateSoaking, h.Clock.onServer(m.SoakFrom)
	case h.Degraded != nil && !h.moving():
		return StateDegraded, h.Degraded.Since
	case m.Phase == host.Deferred:
		return StateDeferred, h.Work.Since
	}
	return s.atRest(h)
}

// atRest is the state of a host that is in contact and acts on nothing.
func (s *State) atRest(h *Host) (HostState, clock.Instant) {
	m := &h.Machine
	b, newest := s.Behind(h), s.newest(h, false)
	switch {
	case h.Freeze != nil && (b == nil || b.Code == BehindFrozen):
		return StateFrozen, 0
	case b != nil:
		return StateBehind, b.Since
	case m.Phase == host.Reverted && (newest.r == nil || newest.r.Manifest == m.Manifest):
		return StateReverted, h.Clock.onServer(m.RevertedAt)
	case h.offered():
		return StateOffered, 0
	case h.Grant != nil: // claimed, and no report of what comes of it yet
		return StateActivating, 0
	}
	if at := s.newest(h, true); at.r != nil {
		switch at.r.Members[at.i].Status {
		case rollout.Waiting, rollout.Busy:
			return StateWaiting, at.r.OpenedAt
		}
	}
	if m.Current == "" {
		return StatePending, 0
	}
	if since := h.failingSince(); since != 0 {
		return StateFailing, since
	}
	return StateConverged, h.Clock.onServer(m.ConvergedAt)
}

// failingSince is since when an enforce probe of a converged host fails; zero where none does.
// Evidence of compliance has a gate of its own.
func (h *Host) failingSince() (at clock.Instant) {
	if h.Machine.Phase != host.Converged {
		return 0
	}
	for i := range h.Machine.Probes {
		if p := &h.Machine.Probes[i]; p.Mode == fleet.Enforce && !p.Evidence && p.Seen && !p.Passing {
			at = clock.Earliest(at, h.Clock.onServer(p.FailingSince))
		}
	}
	return at
}

// newest is a host's place in the rollout that opened last of those that name it; with giving, of
// those that give their target to hosts which lack it, or would if no person kept them from that.
func (s *State) newest(h *Host, giving bool) (at membership) {
	for _, m := range h.memberships {
		if (at.r == nil || m.r.Place > at.r.Place) && (!giving || gives(m.r)) {
			at = m
		}
	}
	return at
}

func gives(r *rollout.Rollout) bool {
	switch r.Phase {
	case rollout.Reverted, rollout.Superseded, rollout.Pruned:
		return false
	}
	return !r.Reverting
}
