package plan

import (
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// canary returns what keeps another member of a rollout from being tried, or nil.
// Earliest is for people who ask; the planner gives zero.
func (s *State) canary(r *rollout.Rollout, i int, earliest, now clock.Instant) *gate.Block {
	tried, most := r.Canaries(i, now)
	if most != 0 && r.SoakedAt > now {
		earliest = r.SoakedAt
	}
	return gate.CheckCanary(r.Name, tried, most, earliest)
}

// canaryLeft is canary for a host that claims what it was offered: what a restored
// log had forgotten may have been tried since the offer.
func (s *State) canaryLeft(r *rollout.Rollout, name string, now clock.Instant) *gate.Block {
	if r.Plan == nil {
		return nil
	}
	if i, ok := r.Plan.Leaf(name); ok {
		return s.canary(r, i, 0, now)
	}
	return nil
}

// canarySoaks is when time can bring the first of a rollout's hosts through its
// soak; zero when it cannot. It looks at every member.
func (s *State) canarySoaks(r *rollout.Rollout, now clock.Instant) clock.Instant {
	var at clock.Instant
	for i := range r.Members {
		if r.Members[i].Status == rollout.Claimed {
			at = clock.Earliest(at, s.soaked(s.Hosts[r.Plan.Leaves[i].Host], now))
		}
	}
	return at
}
