package fleet

import (
	"fmt"
	"slices"
)

// CriticalCanary is the critical name of a manifest that bounds its first wave: a
// server that does not know the bound would let more hosts go.
const CriticalCanary = "canaryMax"

// FirstWave returns the index of the first wave that has hosts, or -1.
func (m *Manifest) FirstWave() int {
	return slices.IndexFunc(m.Waves, func(w Wave) bool { return w.Hosts > 0 })
}

// CheckCanary refuses a manifest whose first wave has more hosts than its policy
// allows, or that does not name the bound critical.
func (m *Manifest) CheckCanary() error {
	most := m.CanaryMax
	switch {
	case most < 0:
		return fmt.Errorf("canaryMax is %d", most)
	case most == 0:
		return nil
	case !slices.Contains(m.Critical, CriticalCanary):
		return fmt.Errorf("it bounds its first wave and does not name that critical")
	}
	if i := m.FirstWave(); i >= 0 && m.Waves[i].Hosts > most {
		return fmt.Errorf("its first wave %q has %d hosts, at most %d may be (canaryMax)", m.Waves[i].Name, m.Waves[i].Hosts, most)
	}
	return nil
}

// canaries refuses a first wave with more hosts than the policy allows. Waves
// without hosts hold nobody back, so the first one with hosts counts.
func (c *checker) canaries(channel, policy string, counts []int) {
	p := c.d.RolloutPolicies[policy]
	first := slices.IndexFunc(counts, func(n int) bool { return n > 0 })
	if p.CanaryMax == nil || *p.CanaryMax < 1 || first < 0 || counts[first] <= *p.CanaryMax {
		return
	}
	c.errorf(at("rolloutPolicies", policy, "waves", first), "wave %q has %d hosts of channel %q and is the first with any: expected at most %d (canaryMax)",
		p.Waves[first].Name, counts[first], channel, *p.CanaryMax)
}
