package sim

import "testing"

// TestHonestHostsConvergeBesideLiars is L7: hosts that are taken over send whatever they can
// sign, alone and together, and every invariant of the others holds.
func TestHonestHostsConvergeBesideLiars(t *testing.T) {
	play(t, seeds(t)/4, func(seed uint64) Config {
		cfg := played(seed)
		cfg.Liars = Always
		return cfg
	})
}
