package control

import (
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/health"
	"github.com/steadyfleet/steady/internal/core/plan"
)

// judgeHealth decides which hosts became degraded or recovered, ahead of the
// planner, which reads it.
func (c *Control) judgeHealth(t *turn) error {
	facts := func(host string) health.Facts { return t.s.HealthFacts(host, t.now) }
	for _, ch := range health.Next(c.health, facts, t.now) {
		if ev, ok := ch.Event.(event.HostDegraded); ok {
			c.cfg.Log.Warn("a host is degraded", "host", ch.Host, "resources", len(ev.Resources)+ev.More, "probes", len(ev.Probes))
		} else {
			c.cfg.Log.Info("a host has recovered", "host", ch.Host)
		}
		if err := t.add(plan.Record(t.s, ch.Host, t.now, ch.Event)); err != nil {
			return err
		}
	}
	return nil
}

// Totals counts the declared and enrolled hosts of a state that View gave by how well
// they are, and the resources in Error by kind.
func (c *Control) Totals(s *plan.State) health.Totals {
	now := c.now()
	return health.Total(c.health, s.HostNames(), func(host string) health.Facts { return s.HealthFacts(host, now) }, now)
}

// Assess says how a host of a state is that View gave.
func (c *Control) Assess(s *plan.State, host string) health.Assessment {
	now := c.now()
	return c.health.Hosts[host].Assess(s.HealthFacts(host, now), now)
}

// Unfinished are the resources of a host that are not as they should be, and how
// many more than are listed.
func (c *Control) Unfinished(host string) (list []event.DegradedResource, more int) {
	return c.health.Hosts[host].Unfinished()
}
