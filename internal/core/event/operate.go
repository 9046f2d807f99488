package event

import (
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
)

// Events of what operators decide beside the planner, and of what time ends.

// WaveForced says that an operator let a held wave pass: Held is what held it.
// The counts are those of WavePromoted; Waiting are hosts that could still be
// granted. The last wave is followed by a RolloutMoved.
type WaveForced struct {
	Rollout  string        `json:"rollout"`
	Manifest digest.Digest `json:"manifest"`
	Wave     int           `json:"wave"`
	Evidence int           `json:"evidence"`
	AtTarget int           `json:"atTarget"`
	Failed   int           `json:"failed"`
	Skipped  int           `json:"skipped"`
	Waiting  int           `json:"waiting"`
	Held     []string      `json:"held"`
	// Outstanding are the hosts up to this wave with required evidence that does
	// not pass and was not accepted before, sorted; Failing says for each which
	// controls did not. What else comes to fail there is not accepted.
	Outstanding []string          `json:"outstanding,omitempty"`
	Failing     []FailingEvidence `json:"failing,omitempty"`
	Reason      string            `json:"reason"`
	Actor       string            `json:"actor"`
	// Override names the signed word that it rests on, if it does.
	Override digest.Digest `json:"override,omitempty"`
}

// FailingEvidence names what of a host's required evidence does not pass, sorted,
// in the words of the host's machine.
type FailingEvidence struct {
	Host     string   `json:"host"`
	Controls []string `json:"controls"`
}

// GlassBroken says that two operators opened every wave of a rollout up to Wave,
// the last one, without the evidence that waves wait for. Override names what they
// signed.
type GlassBroken struct {
	Rollout  string        `json:"rollout"`
	Manifest digest.Digest `json:"manifest"`
	Wave     int           `json:"wave"`
	Override digest.Digest `json:"override"`
	Reason   string        `json:"reason"`
	Actor    string        `json:"actor"`
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

// RolloutPruned says that an ended rollout is kept as a row alone. Phase is where
// it ended.
type RolloutPruned struct {
	Rollout  string        `json:"rollout"`
	Channel  string        `json:"channel"`
	Manifest digest.Digest `json:"manifest"`
	Phase    string        `json:"phase"`
	Reason   string        `json:"reason"`
}

// EventType names of operators' decisions.
func (WaveForced) EventType() string    { return "wave.forced" }
func (GlassBroken) EventType() string   { return "glass.broken" }
func (HostFrozen) EventType() string    { return "host.frozen" }
func (HostUnfrozen) EventType() string  { return "host.unfrozen" }
func (RolloutPruned) EventType() string { return "rollout.pruned" }

func init() { register(WaveForced{}, GlassBroken{}, HostFrozen{}, HostUnfrozen{}, RolloutPruned{}) }
