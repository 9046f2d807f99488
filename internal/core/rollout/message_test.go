package rollout_test

import (
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

func TestEstimateMessage(t *testing.T) {
	in := func(d clock.Duration) clock.Instant { return start.Add(d) }
	for _, c := range []struct {
		e    rollout.Estimate
		want string
	}{
		{rollout.Estimate{Earliest: in(36*clock.Minute + 50*clock.Second), Likely: in(40*clock.Minute + 15*clock.Second), Latest: in(42 * clock.Minute)},
			"likely at 2026-01-05 12:40 UTC (in 40m), in 36m at the earliest, in 42m at the latest"},
		{rollout.Estimate{Earliest: in(0), Likely: in(75 * clock.Second), Latest: in(140 * clock.Second)},
			"likely at 2026-01-05 12:01 UTC (in 1m15s), in 2m20s at the latest"},
		{rollout.Estimate{Earliest: in(9 * clock.Minute), Likely: in(9 * clock.Minute), Latest: in(9*clock.Minute + 3*clock.Second)}, "at 2026-01-05 12:09 UTC (in 9m)"},
		{rollout.At(start), "at any moment"},
		{rollout.Estimate{Earliest: in(12 * clock.Minute), Hangs: "rollout c@1 is paused: lunch"},
			"at an open date: rollout c@1 is paused: lunch; 12m after that at the earliest"},
		{rollout.Estimate{Earliest: start, Hangs: "host h is frozen"}, "at an open date: host h is frozen"},
	} {
		if got := c.e.Message(start); got != c.want {
			t.Errorf("%+v is told as %q, expected %q", c.e, got, c.want)
		}
	}
}
