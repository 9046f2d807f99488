package operator

import (
	"testing"

	"github.com/steadyfleet/steady/internal/core/rollout"
)

// TestStatusOfPhase: the log has one phase for a rollout that failures stopped and for one that a person cancelled.
func TestStatusOfPhase(t *testing.T) {
	for _, c := range []struct {
		phase rollout.Phase
		final bool
		want  string
	}{
		{rollout.Terminal, false, rollout.StatusDone},
		{rollout.Failed, false, rollout.StatusHalted},
		{rollout.Failed, true, rollout.StatusCancelled},
		{rollout.Active, false, string(rollout.Active)},
	} {
		if got := StatusOfPhase(string(c.phase), c.final); got != c.want {
			t.Errorf("%s, final %t: %s, want %s", c.phase, c.final, got, c.want)
		}
	}
}
