package rollout

import "github.com/steadyfleet/steady/internal/core/clock"

// tried reports whether the member was given the target. An offer counts as long
// as it stands, a claim for good.
func (m *Member) tried() bool {
	switch m.Status {
	case Offered, Claimed, Broken, RolledBack:
		return true
	}
	return m.Claimed
}

// Canaries returns how many other members were tried before member i and how many
// may be until one has converged; most is zero when nothing bounds them (any more).
func (r *Rollout) Canaries(i int, now clock.Instant) (tried, most int) {
	if r.SoakedAt.Reached(now) || r.BreakGlass != "" {
		return 0, 0
	}
	tried = r.total.Tried
	if r.Members[i].tried() {
		tried--
	}
	return tried, r.Plan.Header.CanaryMax
}
