package fleet

import (
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
)

// selector checks the names in s and warns when it can pick nothing.
func (c *checker) selector(path []string, s *Selector) {
	if !s.hasBase() && s.Not == nil && len(s.And) == 0 {
		c.warnf(path, "the selector is empty and picks no host: expected tags, tagsAny, hosts, channel, all, not or and")
	}
	for i, h := range s.Hosts {
		known(c, at(path, "hosts", i), "host", h, c.d.Hosts)
	}
	if s.Channel != "" {
		known(c, at(path, "channel"), "channel", s.Channel, c.d.Channels)
	}
	if s.Not != nil {
		c.selector(at(path, "not"), s.Not)
	}
	for i := range s.And {
		c.selector(at(path, "and", i), &s.And[i])
	}
}

// waves checks every channel's hosts against the waves of its policy.
func (c *checker) waves() {
	for _, n := range keys(c.d.Channels) {
		policy := c.d.Channels[n].RolloutPolicy
		p, ok := c.d.RolloutPolicies[policy]
		if !ok || len(p.Waves) == 0 {
			continue
		}
		counts, hosts := make([]int, len(p.Waves)), 0
		for _, h := range keys(c.d.Hosts) {
			if c.d.Hosts[h].Channel != n {
				continue
			}
			hosts++
			if w := waveOf(p.Waves, h, c.d.Hosts[h]); w >= 0 {
				counts[w]++
			} else {
				c.errorf(at("hosts", h), "host %q of channel %q is in no wave of policy %q: expected a wave that selects it", h, n, policy)
			}
		}
		if hosts == 0 {
			continue
		}
		c.canaries(n, policy, counts)
		for i, w := range p.Waves {
			path := at("rolloutPolicies", policy, "waves", i)
			switch {
			case counts[i] == 0 && i < len(p.Waves)-1 && !w.AllowEmpty:
				c.errorf(path, "wave %q has no host of channel %q: expected at least one before the last wave, or allowEmpty: true", w.Name, n)
			case counts[i] > 0 && w.MinSoaked.Count > counts[i]:
				c.errorf(at(path, "minSoaked"), "minSoaked is %d in wave %q of channel %q: expected at most its number of hosts, %d", w.MinSoaked.Count, w.Name, n, counts[i])
			}
		}
	}
}

func waveOf(waves []WaveDecl, name string, h HostDecl) int {
	return slices.IndexFunc(waves, func(w WaveDecl) bool { return w.Selector.Matches(name, h.Channel, h.Tags) })
}

func (c *checker) hostEdges() {
	c.cycles("edges", "host", edges(c, "edges", "host", c.d.Edges, c.d.Hosts, func(i int, e Edge) bool {
		gated, gates := c.d.Hosts[e.Gated], c.d.Hosts[e.Gates]
		if gated.Channel != gates.Channel {
			c.errorf(at("edges", i), "host %q is in channel %q and %q in %q: expected an edge within one channel, or a channel edge", e.Gated, gated.Channel, e.Gates, gates.Channel)
			return false
		}
		p := c.d.RolloutPolicies[c.d.Channels[gated.Channel].RolloutPolicy]
		if a, b := waveOf(p.Waves, e.Gated, gated), waveOf(p.Waves, e.Gates, gates); a >= 0 && b > a {
			c.errorf(at("edges", i), "host %q of wave %q would wait for %q of the later wave %q for ever: expected both in one wave or %q in an earlier one", e.Gated, p.Waves[a].Name, e.Gates, p.Waves[b].Name, e.Gates)
		}
		return true
	}))
}

func (c *checker) channelEdges() {
	c.cycles("channelEdges", "channel", edges(c, "channelEdges", "channel", c.d.ChannelEdges, c.d.Channels, func(int, Edge) bool { return true }))
}

// edges returns those whose ends are declared and which fit.
func edges[V any](c *checker, section, what string, list []Edge, ends map[string]V, fits func(i int, e Edge) bool) (arcs []arc) {
	for i, e := range list {
		gated := known(c, at(section, i, "gated"), what, e.Gated, ends)
		if known(c, at(section, i, "gates"), what, e.Gates, ends) && gated && fits(i, e) {
			arcs = append(arcs, arc{from: e.Gated, to: e.Gates, index: i})
		}
	}
	return arcs
}

// arc says that from waits for to.
type arc struct {
	from, to string
	index    int // in the declared list
}

// cycles reports the cycles that a depth-first search closes, each at the
// last of its edges in the declaration.
func (c *checker) cycles(section, what string, arcs []arc) {
	next := map[string][]arc{}
	for _, a := range arcs {
		next[a.from] = append(next[a.from], a)
	}
	const active, done = 1, 2
	state := map[string]int{}
	var stack []arc
	var visit func(string)
	visit = func(n string) {
		state[n] = active
		for _, a := range next[n] {
			stack = append(stack, a)
			switch state[a.to] {
			case active:
				c.cycle(section, what, stack)
			case 0:
				visit(a.to)
			}
			stack = stack[:len(stack)-1]
		}
		state[n] = done
	}
	for _, n := range keys(next) {
		if state[n] == 0 {
			visit(n)
		}
	}
}

// cycle reports the part of the stack from where its last arc leads back to.
func (c *checker) cycle(section, what string, stack []arc) {
	start := len(stack) - 1
	for stack[start].from != stack[len(stack)-1].to {
		start--
	}
	names, last := []string{stack[start].from}, 0
	for _, a := range stack[start:] {
		names = append(names, a.to)
		last = max(last, a.index)
	}
	c.errorf(at(section, last), "%s edges form a cycle: %s: expected no %s to wait for itself", what, strings.Join(names, " -> "), what)
}

func (c *checker) budgets() {
	for i, b := range c.d.DisruptionBudgets {
		path := at("disruptionBudgets", i)
		if b.MaxInFlight == nil && b.MaxInFlightPct == nil {
			c.errorf(path, "the budget has no limit: expected maxInFlight, maxInFlightPct or both")
		}
		c.selector(at(path, "selector"), &b.Selector)
		members := selected(c.d, &b.Selector)
		if len(members) == 0 {
			c.warnf(at(path, "selector"), "the budget's selector %q picks no host: it limits nothing", b.Selector.String())
			continue
		}
		c.longBudget(path, b, members)
		c.fullBudget(path, b, members)
	}
}

// longBudget warns when soaking the members in turn takes more than a day.
func (c *checker) longBudget(path []string, b BudgetDecl, members []string) {
	limit := clock.Duration(budgetMax(b, len(members)))
	for _, n := range keys(c.d.Channels) {
		p := c.d.RolloutPolicies[c.d.Channels[n].RolloutPolicy]
		counts := make([]clock.Duration, len(p.Waves))
		for _, m := range members {
			if h := c.d.Hosts[m]; h.Channel == n {
				if w := waveOf(p.Waves, m, h); w >= 0 {
					counts[w]++
				}
			}
		}
		var total clock.Duration
		for i, w := range p.Waves {
			total += (counts[i] + limit - 1) / limit * w.Soak.Duration
		}
		if total > longRollout {
			c.warnf(path, "a rollout of channel %q needs at least %s under this budget: %d at a time of %d hosts, each soaking", n, total, limit, len(members))
		}
	}
}

// fullBudget warns when failed hosts, which keep their slots under the policy halt,
// can use the whole budget up before there are enough of them to halt: then the
// rollout neither goes on nor stops.
func (c *checker) fullBudget(path []string, b BudgetDecl, members []string) {
	limit := budgetMax(b, len(members))
	for _, n := range keys(c.d.Channels) {
		p := c.d.RolloutPolicies[c.d.Channels[n].RolloutPolicy]
		if p.OnHealthFailure != Halt || limit > p.HealthGate.MaxFailures {
			continue
		}
		own := 0
		for _, m := range members {
			if c.d.Hosts[m].Channel == n {
				own++
			}
		}
		if own > limit {
			c.warnf(path, "a rollout of channel %q can use this budget up and never halt: %d at a time, failed hosts keep their place under %s, and %d failures are allowed: expected more at a time than maxFailures", n, limit, Halt, p.HealthGate.MaxFailures)
		}
	}
}

func selected(d *Declaration, s *Selector) []string {
	var out []string
	for _, h := range keys(d.Hosts) {
		if s.Matches(h, d.Hosts[h].Channel, d.Hosts[h].Tags) {
			out = append(out, h)
		}
	}
	return out
}

// budgetMax is the smaller of the count and the percentage, which rounds down,
// and at least 1.
func budgetMax(b BudgetDecl, members int) int {
	limit := members
	if b.MaxInFlight != nil {
		limit = min(limit, *b.MaxInFlight)
	}
	if b.MaxInFlightPct != nil {
		limit = min(limit, members**b.MaxInFlightPct/100)
	}
	return max(limit, 1)
}
