package operator

import (
	"github.com/steadyfleet/steady/internal/core/drift"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/health"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/core/rollout"
	"github.com/steadyfleet/steady/internal/core/session"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/replay"
)

// Reference is what every word means that a status has, and what to do about it.
type Reference struct {
	Rollouts  []prose.Meaning `json:"rollouts"`
	Waves     []prose.Meaning `json:"waves"`
	Hosts     []prose.Meaning `json:"hosts"`   // where they stand, the worst first
	Members   []prose.Meaning `json:"members"` // hosts in a rollout
	Presences []prose.Meaning `json:"presences"`
	Health    []prose.Meaning `json:"health"`
	Resources []prose.Meaning `json:"resources"`
	Nodes     []prose.Meaning `json:"nodes"` // the ones that need somebody first
	Legs      []prose.Meaning `json:"legs"`  // how far the parts of flows, tunnels and documents are pushed
	Drift     []prose.Meaning `json:"drift"` // of nodes, by kind
	Sessions  []prose.Meaning `json:"sessions"`
	Parts     []prose.Meaning `json:"parts"`  // of sessions, and their pods
	Phases    []prose.Meaning `json:"phases"` // of parts of sessions
	// Gates are in the order in which they are asked. Means says when one blocks, Next who
	// clears it.
	Gates []prose.Meaning `json:"gates"`
	// Remedies spell the steps of a status.Summary.
	Remedies []RemedyCommand `json:"remedies"`
	// Kinds are those of the objects that nodes have.
	Kinds []nodeconfig.Kind `json:"kinds"`
	// EventTypes are those of the log's records, in order.
	EventTypes []string `json:"eventTypes"`
	// PolicyFields are what a rerun can have otherwise in a policy.
	PolicyFields []string `json:"policyFields"`
}

// NewReference is of this version.
func NewReference() Reference {
	r := Reference{Rollouts: rollout.StatusMeanings, Waves: rollout.WaveMeanings, Members: rollout.MemberMeanings, Health: health.Meanings, Resources: spec.Meanings,
		Nodes: drift.NodeMeanings, Legs: drift.LegMeanings, Drift: drift.DriftMeanings,
		Sessions: session.StateMeanings, Parts: session.RowMeanings, Phases: session.PhaseMeanings, Gates: gate.Meanings(), Remedies: Remedies, Kinds: nodeconfig.Kinds, EventTypes: event.Types(), PolicyFields: replay.PolicyFields()}
	for _, p := range plan.Presences {
		r.Presences = append(r.Presences, prose.Meaning{Word: string(p.Presence), Means: p.Means, Next: p.Waves})
	}
	for _, s := range plan.HostStates {
		r.Hosts = append(r.Hosts, prose.Meaning{Word: string(s.State), Means: s.Means, Next: s.Next})
	}
	return r
}
