package plan

import (
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/gate"
)

// HostPresence says whether a host is there, in one word.
type HostPresence string

// The presences. Silent is offline with work of a rollout in flight; overdue is there,
// and its work was given up. The last five say why nobody waits for the host, or why it
// is not listened to.
const (
	Online         HostPresence = gate.Online
	Offline        HostPresence = gate.Offline
	Silent         HostPresence = gate.Silent
	Overdue        HostPresence = gate.Overdue
	Forked         HostPresence = gate.Forked
	Revoked        HostPresence = gate.Revoked
	NeverEnrolled  HostPresence = gate.NeverEnrolled
	Decommissioned HostPresence = gate.Decommissioned
	Removed        HostPresence = "removed"
)

// PresenceRow is what a presence means for the waves that name the host.
type PresenceRow struct {
	Presence HostPresence
	Means    string
	Waves    string
}

// Presences lists every presence in the order in which Presence asks for them.
var Presences = []PresenceRow{
	{NeverEnrolled, "declared, and no agent enrolled as it yet", "holds nothing and counts for nothing: not for its wave, nor `minSoaked`, nor a channel behind; when it enrols it gets the newest"},
	{Decommissioned, "retired by an operator", "holds nothing and counts for nothing, once what it was granted is over"},
	{Revoked, "its certificates were ended", "as offline: skipped, or failed if it had claimed"},
	{Forked, "two agents run on its identity", "as offline: skipped, or failed if it had claimed"},
	{Removed, "enrolled, and the newest release does not declare it", "in no wave of the newest release; what it claimed before it finishes"},
	{Overdue, "heard, but it did not report in time what came of its claim", "failed; it keeps its slot until it reports, and later rollouts skip it"},
	{Online, "heard within three heartbeats", "granted, and waited for"},
	{Silent, "not heard while it acts on a claim", "its wave waits until it is given up, at the instant that `steady why` names: then it has failed, and keeps its slot until it reports"},
	{Offline, "enrolled, not heard, and at rest", "skipped: its wave does not wait for it, but it counts for a `minSoaked` in per cent"},
}

// Presence says whether the host is there; declared is whether the newest release
// names it.
func (h *Host) Presence(declared bool) HostPresence {
	switch standing := h.Standing(); {
	case h.Incarnation == 0:
		return NeverEnrolled
	case standing != "":
		return HostPresence(standing)
	case !declared:
		return Removed
	case h.Online && h.Overdue:
		return Overdue
	case h.Online:
		return Online
	case h.Acting() && !h.SilentFailure:
		return Silent
	}
	return Offline
}

// absence is what the gate of presence reads of a host.
func (s *State) presence(h *Host, now clock.Instant) gate.Absence {
	at, _ := s.givenUp(h)
	return gate.Absence{Presence: string(h.Presence(true)), LastSeen: h.LastSeen, GivenUp: upcoming(at, now)}
}

// presenceBlock is the gate of a host's presence.
func (s *State) presenceBlock(h *Host, now clock.Instant) *gate.Block {
	return gate.CheckPresence(h.Name, s.presence(h, now), now)
}
