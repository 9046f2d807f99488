package rollout

import (
	"cmp"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
)

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
	return tried, r.CanaryMax()
}

// CanaryMax is how many members may be tried until one has converged: as the policy
// signs, or as many as the first wave has if that one had nobody to try it. Zero is no bound.
func (r *Rollout) CanaryMax() int { return cmp.Or(r.Plan.Header.CanaryMax, r.StandIns) }

// Promoted opens the wave after the one that an event says is proven.
func (r *Rollout) Promoted(ev event.WavePromoted, at clock.Instant) {
	r.Cursor = ev.Wave + 1
	r.SetBlocked("", at)
	if nobody := ev.Evidence+ev.AtTarget+ev.Failed+ev.Skipped == 0; nobody && r.StandIns == 0 && r.SoakedAt == 0 {
		r.StandIns = ev.Absent
	}
}
