package control

import (
	"context"

	"github.com/steadyfleet/steady/internal/core/clock"
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

// Health counts the declared and enrolled hosts by how well they are, and the
// resources in Error by kind.
func (c *Control) Health(ctx context.Context) (health.Totals, error) {
	var out health.Totals
	err := c.View(ctx, func(s *plan.State) {
		now := c.now()
		out = health.Total(c.health, s.HostNames(), func(host string) health.Facts { return s.HealthFacts(host, now) }, now)
	})
	return out, err
}

// ViewHealth runs read with what says how each host is, under the rules of View.
func (c *Control) ViewHealth(ctx context.Context, read func(s *plan.State, assess func(host string) health.Assessment)) error {
	return c.View(ctx, func(s *plan.State) { read(s, c.assess(s, c.now())) })
}

func (c *Control) assess(s *plan.State, now clock.Instant) func(host string) health.Assessment {
	return func(host string) health.Assessment { return c.health.Hosts[host].Assess(s.HealthFacts(host, now), now) }
}
