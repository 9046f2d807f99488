package sim

import "slices"

// Shrink looks for less that violates the same invariant as cfg does: fewer
// releases and hosts, no chance of some kinds, and only those planned faults
// that it takes. It plays at most so many schedules. The result is cfg itself
// when that violates nothing.
func Shrink(cfg Config, schedules int) (Config, Result) {
	cfg.Trace = nil
	best := Run(cfg)
	if len(best.Violations) == 0 {
		return cfg, best
	}
	invariant := best.Violations[0].Invariant
	try := func(less Config) bool {
		if schedules--; schedules < 0 {
			return false
		}
		r := Run(less)
		if len(r.Violations) == 0 || r.Violations[0].Invariant != invariant {
			return false
		}
		cfg, best = less, r
		return true
	}
	if cfg.Drill == nil {
		for best.Releases > 1 {
			if less := cfg; !try(with(less, func(c *Config) { c.Hosts, c.Releases = best.Hosts, best.Releases-1 })) {
				break
			}
		}
		for hosts := 2; hosts < best.Hosts; hosts++ {
			if try(with(cfg, func(c *Config) { c.Hosts, c.Releases = hosts, best.Releases })) {
				break
			}
		}
	}
	for kind := FaultKind(1); kind <= Lies; kind <<= 1 {
		try(with(cfg, func(c *Config) { c.Disabled |= kind }))
	}
	// Delta debugging: halves first, single faults last.
	for size := len(best.Faults); size > 0; size /= 2 {
		for from := 0; from < len(best.Faults); from += size {
			try(with(cfg, func(c *Config) {
				for i := from; i < min(from+size, len(best.Faults)); i++ {
					if !slices.Contains(c.Without, i) {
						c.Without = append(c.Without, i)
					}
				}
			}))
		}
	}
	slices.Sort(cfg.Without)
	return cfg, best
}

func with(cfg Config, change func(*Config)) Config {
	cfg.Without = slices.Clone(cfg.Without)
	change(&cfg)
	return cfg
}

// Left lists the planned faults that a schedule was played with.
func (r *Result) Left(cfg Config) []string {
	var left []string
	for i, text := range r.Faults {
		if !slices.Contains(cfg.Without, i) {
			left = append(left, text)
		}
	}
	return left
}
