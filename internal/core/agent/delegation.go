package agent

import (
	"slices"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
)

// NewestPlan is what the newest manifest of the host's channel delegates, and what it
// wants the host to run.
type NewestPlan struct {
	Channel    string            `json:"channel"`
	Target     digest.Digest     `json:"target"`
	Delegation *fleet.Delegation `json:"delegation,omitempty"`
}

// Delegation is what the server may do unsigned on this host now; newest is nil while it
// is not known. What a newer declaration withdraws ends at once. What it adds counts when
// the host runs its target: no grant comes to a host that runs it already.
func (s *State) Delegation(newest *NewestPlan) *fleet.Delegation {
	now := s.Plan.Delegation
	switch {
	case s.Removal.begun():
		return nil
	case newest == nil || newest.Channel != s.Plan.Channel:
		return now
	case newest.Target == s.Machine.Current:
		return newest.Delegation
	case newest.Delegation == nil || now == nil:
		return nil
	}
	both := func(a, b []string) []string {
		return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return !slices.Contains(b, s) })
	}
	bounds := now.Bounds
	bounds.Owners = both(bounds.Owners, newest.Delegation.Bounds.Owners)
	return &fleet.Delegation{Kinds: both(now.Kinds, newest.Delegation.Kinds), Allow: both(now.Allow, newest.Delegation.Allow), Bounds: bounds}
}
