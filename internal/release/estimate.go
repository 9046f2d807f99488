package release

import (
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// LongPlan is what a rollout may take at the least before a build warns.
const LongPlan = 7 * clock.Day

// Expected is when a channel's rollout ends at the earliest, were the release
// pushed as it is built.
type Expected struct {
	rollout.Estimate
	// Refresh says that freshness statements must be signed until Finish: the
	// release's own lasts for FreshnessWindow.
	Refresh         bool           `json:"refresh"`
	FreshnessWindow clock.Duration `json:"freshnessWindow"`
}

// estimate solves every channel's plan, those that go first before those that
// wait for them. A plan that cannot end is an error.
func (b *builder) estimate() []fleet.Finding {
	var out []fleet.Finding
	done := map[string]clock.Instant{}
	for len(done) < len(b.plan.Channels) {
		for i := range b.plan.Channels {
			cp := &b.plan.Channels[i]
			start, ready := b.opens(cp.Name, done)
			if _, solved := done[cp.Name]; solved || !ready {
				continue
			}
			e, err := rollout.EstimateOf(&cp.Header, cp.Leaves, start)
			done[cp.Name] = e.Finish
			if err != nil {
				out = append(out, fleet.Finding{Path: []string{"channels", cp.Name}, Severity: fleet.Error,
					Message: "the rollout of channel \"" + cp.Name + "\": " + err.Error() + ": expected windows that open while the tables of time zones last"})
				continue
			}
			if len(cp.Leaves) == 0 {
				continue
			}
			took := e.Finish.Sub(b.o.Now)
			if took > LongPlan {
				out = append(out, fleet.Finding{Path: []string{"channels", cp.Name}, Severity: fleet.Warning,
					Message: "the rollout of channel \"" + cp.Name + "\" ends at " + e.Finish.String() + " at the earliest, in " + took.String() + ": waves, soak, budgets and windows allow no less"})
			}
			b.rel.Expected = append(b.rel.Expected, Expected{Estimate: e, Refresh: took > cp.Settings.FreshnessWindow, FreshnessWindow: cp.Settings.FreshnessWindow})
		}
	}
	slices.SortFunc(b.rel.Expected, func(x, y Expected) int { return strings.Compare(x.Channel, y.Channel) })
	return out
}

// opens is when a channel's rollout may open: after those that go first.
func (b *builder) opens(channel string, done map[string]clock.Instant) (clock.Instant, bool) {
	at := b.o.Now
	for _, e := range b.plan.ChannelEdges {
		if e.Gated != channel {
			continue
		}
		finish, ok := done[e.Gates]
		if !ok {
			return 0, false
		}
		at = max(at, finish)
	}
	return at, true
}
