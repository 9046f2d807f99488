package plan

import (
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// HostState is where a host stands, in one word: why it cannot be counted on, or else what it
// does of its rollout.
type HostState string

// The states. Those that a presence has too are of the same name.
const (
	StateFailed     HostState = "failed"
	StateRefused    HostState = "refused"
	StateReverting  HostState = "reverting"
	StateDegraded   HostState = "degraded"
	StateReverted   HostState = "reverted"
	StateFrozen     HostState = "frozen"
	StateDeferred   HostState = "deferred"
	StateActivating HostState = "activating"
	StateSoaking    HostState = "soaking"
	StateOffered    HostState = "offered"
	StateWaiting    HostState = "waiting"
	StatePending    HostState = "pending"
	StateConverged  HostState = "converged"
)

// HostStateRow is what a state means, and what to do about it. Code stands for it where every
// host has one letter.
type HostStateRow struct {
	State HostState
	Code  byte
	Means string
	Next  string
}

const (
	askWhy  = "`steady why HOST` says why, and what clears it"
	enrol   = "`steady token create HOST`, and enrol it again"
	nothing = "nothing: it goes on by itself"
)

// HostStates lists every state, the worst first.
var HostStates = []HostStateRow{
	{StateFailed, 'f', "its activation failed, or nothing came of its claim in time, and it does not go on by itself", askWhy},
	{gate.Forked, 'k', "two agents run on its identity", "stop all but one agent; then " + enrol},
	{gate.Parked, 'p', "the host found that its state was set back, and does nothing until it enrols again", "check its disk; then " + enrol},
	{gate.Revoked, 'v', "its certificates were ended", enrol + "; or `steady host decommission HOST`"},
	{StateRefused, 'n', "it will not take what the newest rollout of its channel brings; nothing changed there", askWhy},
	{HostState(gate.Silent), 's', "no contact while it acts on a claim", "start its agent; else it is given up at the instant that `steady why HOST` names"},
	{StateReverting, 'b', "its activation failed, and it is on its way back", nothing},
	{StateDegraded, 'd', "it does not run its bundle as it should", "`steady host show HOST` names the resources and probes"},
	{HostState(gate.Offline), 'o', "enrolled, no contact, and at rest", "start its agent, and check its log and its network"},
	{StateReverted, 'r', "it runs its earlier bundle again after a failure", "release a fix: what failed is quarantined on it"},
	{StateFrozen, 'z', "an operator keeps it from grants", "`steady host unfreeze HOST`, or wait until the freeze ends"},
	{StateDeferred, 't', "the target is staged and waits for a reboot", "nothing, or reboot it: it is granted a reboot as the gates allow"},
	{StateActivating, 'a', "it acts on its claim, until every resource was seen converged", nothing},
	{StateSoaking, 'g', "the target runs, and its probes are watched", nothing},
	{StateOffered, 'q', "it was offered a grant and did not claim it yet", nothing},
	{StateWaiting, 'w', "the newest rollout of its channel has still to reach it", askWhy},
	{StatePending, 'e', "enrolled, and it was given nothing yet", askWhy},
	{HostState(gate.NeverEnrolled), 'u', "declared, and no agent enrolled as it yet", "`steady token create HOST`, and start its agent with it"},
	{gate.Leaving, 'l', "a signed override took it out of the fleet", "`steady host decommission HOST` once its workloads are gone"},
	{HostState(gate.Removed), 'm', "enrolled, and the newest release does not declare it", "`steady host decommission HOST` if it is meant to go"},
	{StateConverged, 'c', "it runs what it should", "nothing"},
	{gate.Decommissioned, 'x', "retired by an operator", "nothing"},
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

// HostState says where a host stands, and since when, which is zero where that is not known.
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
	now, newest := s.inNewest(h)
	switch {
	case m.Phase == host.Failed && m.Reverting && p == gate.Online:
		return StateReverting, h.Clock.onServer(m.FailedAt)
	case m.Phase == host.Failed && !m.Reverting:
		return StateFailed, h.Clock.onServer(m.FailedAt)
	case h.SilentFailure, h.Overdue:
		return StateFailed, h.SilentSince
	case now == rollout.Refused:
		return StateRefused, 0
	case p == gate.Silent:
		return HostState(gate.Silent), h.SilentSince
	case p == gate.Offline:
		return HostState(gate.Offline), h.LastSeen
	case h.Degraded != nil:
		return StateDegraded, h.Degraded.Since
	case m.Phase == host.Deferred:
		return StateDeferred, h.Work.Since
	case m.Phase == host.Activating:
		return StateActivating, h.Work.Since
	case m.Phase == host.Soaking:
		return StateSoaking, h.Clock.onServer(m.SoakFrom)
	case h.Freeze != nil:
		return StateFrozen, 0
	case m.Phase == host.Reverted:
		return StateReverted, h.Clock.onServer(m.RevertedAt)
	case h.offered():
		return StateOffered, 0
	case now == rollout.Waiting || now == rollout.Busy:
		return StateWaiting, newest.OpenedAt
	case m.Current == "":
		return StatePending, 0
	}
	return StateConverged, h.Clock.onServer(m.ConvergedAt)
}

// inNewest is what a host stands at in the newest rollout of its channel; zero when that has
// nothing more to say to it.
func (s *State) inNewest(h *Host) (rollout.Status, *rollout.Rollout) {
	for _, at := range h.memberships {
		r := at.r
		if c := s.Channels[r.Channel]; c == nil || c.Latest != r.Manifest || r.Reverting || r.Final {
			continue
		}
		switch r.Phase {
		case rollout.Reverted, rollout.Superseded, rollout.Pruned:
			continue
		}
		return r.Members[at.i].Status, r
	}
	return 0, nil
}
