package event

import (
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
)

// ComplianceEvaluated says what the static controls that a release signs found of
// one manifest before its rollout opens. Without failures everything passed.
type ComplianceEvaluated struct {
	Channel  string        `json:"channel"`
	Rollout  string        `json:"rollout"`
	Manifest digest.Digest `json:"manifest"`
	// Controls says how many were asked.
	Controls int                    `json:"controls"`
	Failures []fleet.ControlFailure `json:"failures"`
}

// EventType name of what controls found.
func (ComplianceEvaluated) EventType() string { return "compliance.evaluated" }

func init() { register(ComplianceEvaluated{}) }
