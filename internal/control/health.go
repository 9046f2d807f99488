package control

import (
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/health"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/server"
)

// Totals counts the declared and enrolled hosts of a state that View gave by how well
// they are, and the resources in Error by kind.
func (c *Control) Totals(s *plan.State) health.Totals {
	return totals(c.state, s, c.now())
}

func totals(all *server.State, s *plan.State, now clock.Instant) health.Totals {
	return health.Total(all.Health, s.HostNames(), func(host string) health.Facts { return s.HealthFacts(host, now) }, now)
}

// Assess says how a host of a state is that View gave.
func (c *Control) Assess(s *plan.State, host string) health.Assessment {
	return assess(c.state, s, host, c.now())
}

func assess(all *server.State, s *plan.State, host string, now clock.Instant) health.Assessment {
	return all.Health.Hosts[host].Assess(s.HealthFacts(host, now), now)
}

// Unfinished are the resources of a host that are not as they should be, and how
// many more than are listed.
func (c *Control) Unfinished(host string) (list []event.DegradedResource, more int) {
	return c.state.Health.Hosts[host].Unfinished()
}
