package event

import (
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
)

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

// EventType name of operators' signed words.
func (OverrideAccepted) EventType() string { return "override.accepted" }

func init() { register(OverrideAccepted{}) }
