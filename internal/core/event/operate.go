package event

import (
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
)

// Events of what operators decide, and of what ends with time.

// WaveForced says that an operator let a held wave pass: Blocks are why it was blocked.
// The counts are those of WavePromoted; Waiting are hosts that could still be
// granted. The last wave is followed by a RolloutMoved.
type WaveForced struct {
	Rollout  string        `json:"rollout"`
	Manifest digest.Digest `json:"manifest"`
	Wave     int           `json:"wave"`
	WaveName string        `json:"waveName,omitempty"`
	Evidence int           `json:"evidence"`
	AtTarget int           `json:"atTarget"`
	Failed   int           `json:"failed"`
	Skipped  int           `json:"skipped"`
	Waiting  int           `json:"waiting"`
	Blocks   []string      `json:"blocks"`
	// Outstanding are the hosts up to this wave with required evidence that does
	// not pass and was not accepted before, sorted; Failing says for each which
	// controls did not. What else comes to fail there is not accepted.
	Outstanding []string          `json:"outstanding,omitempty"`
	Failing     []FailingEvidence `json:"failing,omitempty"`
	Reason      string            `json:"reason"`
	Actor       string            `json:"actor"`
	// Override names the signed override behind it, if there is one.
	Override digest.Digest `json:"override,omitempty"`
}

// FailingEvidence names what of a host's required evidence does not pass, sorted,
// as the host's machine names them.
type FailingEvidence struct {
	Host     string   `json:"host"`
	Controls []string `json:"controls"`
}

// BreakGlassUsed says that two operators opened every wave of a rollout up to Wave,
// the last one, without the evidence that waves wait for. Override names what they
// signed.
type BreakGlassUsed struct {
	Rollout  string        `json:"rollout"`
	Manifest digest.Digest `json:"manifest"`
	Wave     int           `json:"wave"`
	Override digest.Digest `json:"override"`
	Reason   string        `json:"reason"`
	Actor    string        `json:"actor"`
}

// RolloutRetried says that an operator had a rollout tried again that failed: Hosts, which
// failed, went back or refused it, may be given the target again; Refusing ones, which
// quarantined it themselves, may not until a retry is signed. Waves open again from
// Wave on. Failures so far count no more.
type RolloutRetried struct {
	Rollout  string        `json:"rollout"`
	Channel  string        `json:"channel"`
	Manifest digest.Digest `json:"manifest"`
	Wave     int           `json:"wave"`
	WaveName string        `json:"waveName,omitempty"`
	Hosts    []string      `json:"hosts,omitempty"`
	Refusing []string      `json:"refusing,omitempty"`
	Reason   string        `json:"reason"`
	Actor    string        `json:"actor"`
	// Override names the signed override behind it, if there is one.
	Override digest.Digest `json:"override,omitempty"`
}

// HostFrozen says that the entry's host is given no grant but one to go back,
// until an instant. It replaces an earlier freeze.
type HostFrozen struct {
	Until  clock.Instant `json:"until"`
	Reason string        `json:"reason"`
	Actor  string        `json:"actor"`
}

// HostUnfrozen ends a freeze; without an Actor its time has come.
type HostUnfrozen struct {
	Reason string `json:"reason"`
	Actor  string `json:"actor"`
}

// RolloutPruned says that of an ended rollout only a summary is kept. Phase is where
// it ended.
type RolloutPruned struct {
	Rollout  string        `json:"rollout"`
	Channel  string        `json:"channel"`
	Manifest digest.Digest `json:"manifest"`
	Phase    string        `json:"phase"`
	Reason   string        `json:"reason"`
}

// EventType names of operators' decisions.
func (WaveForced) EventType() string     { return "wave.forced" }
func (BreakGlassUsed) EventType() string { return "break_glass.used" }
func (RolloutRetried) EventType() string { return "rollout.retried" }
func (HostFrozen) EventType() string     { return "host.frozen" }
func (HostUnfrozen) EventType() string   { return "host.unfrozen" }
func (RolloutPruned) EventType() string  { return "rollout.pruned" }

// OverrideAccepted says that an operator's signed override verified and counts
// from here on, also for rollouts that open later. Digest names its payload,
// Envelope the blob that hosts are shown. Actor is who sent it; who signed it is
// in the envelope.
type OverrideAccepted struct {
	fleet.Override
	Digest   digest.Digest `json:"digest"`
	Envelope digest.Digest `json:"envelope"`
	Actor    string        `json:"actor"`
}

// EventType name of operators' signed overrides.
func (OverrideAccepted) EventType() string { return "override.accepted" }

// ComplianceEvaluated says what the static controls that a release signs found of
// one manifest before its rollout opens. Without failures everything passed.
type ComplianceEvaluated struct {
	Channel  string        `json:"channel"`
	Rollout  string        `json:"rollout"`
	Manifest digest.Digest `json:"manifest"`
	// Controls says how many were evaluated.
	Controls int                    `json:"controls"`
	Failures []fleet.ControlFailure `json:"failures"`
}

// EventType name of what controls found.
func (ComplianceEvaluated) EventType() string { return "compliance.evaluated" }

// HostDecommissioned retires a host: its certificates issued before NotBefore
// end, and it is given nothing more. What it may still be doing under a grant
// keeps its slot until SlotUntil. Enrolling it again brings it back.
type HostDecommissioned struct {
	NotBefore clock.Instant `json:"notBefore"`
	SlotUntil clock.Instant `json:"slotUntil"`
	Reason    string        `json:"reason"`
	Actor     string        `json:"actor"`
}

// HostSlotFreed gives the slot of a decommissioned host back to its budgets.
type HostSlotFreed struct {
	Grant   string `json:"grant,omitempty"`
	Rollout string `json:"rollout,omitempty"`
	Reason  string `json:"reason"`
}

// EventType names of what ends a host's identity.
func (HostDecommissioned) EventType() string { return "host.decommissioned" }
func (HostSlotFreed) EventType() string      { return "host.slot_freed" }

func init() {
	add(WaveForced{}, about(rollout, manifest, signed), decision(warn, "wave promoted by an operator", "rollout wave blocks actor reason"), mark(2))
	add(BreakGlassUsed{}, about(rollout, manifest, signed), decision(warn, "every wave is open", "rollout actor reason"), mark(3))
	add(RolloutRetried{}, about(rollout, channel, manifest, signed), decision(warn, "rollout tried again", "rollout wave hosts refusing actor reason"), mark(2))
	add(RolloutPruned{}, about(rollout, channel, manifest))
	add(HostFrozen{}, ofHost, mark(1))
	add(HostUnfrozen{}, ofHost, decision(info, "host unfrozen", "reason actor"))
	add(OverrideAccepted{}, about(channel, rollout, manifest, bundle, named, accepted), mark(2))
	add(ComplianceEvaluated{}, about(channel, rollout, manifest))
	add(HostDecommissioned{}, ofHost, mark(1))
	add(HostSlotFreed{}, ofHost, about(rollout), decision(info, "the slot of a decommissioned host is free", "grant reason"))
}
