package control

import (
	"context"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/plan"
)

// Promote lets the held wave of a rollout pass. Errors are *plan.VerbError, as
// are those of all verbs below.
func (c *Control) Promote(ctx context.Context, rollout, wave, reason, actor string) error {
	return c.operator(ctx, func(t *turn) error {
		return t.add(plan.Promote(t.s, rollout, wave, reason, actor, t.now))
	})
}

// AddQuarantine refuses a bundle on a channel.
func (c *Control) AddQuarantine(ctx context.Context, channel, bundle, reason, actor string) error {
	return c.operator(ctx, func(t *turn) error {
		return t.add(plan.AddQuarantine(t.s, channel, strings.TrimSpace(bundle), reason, actor, t.now))
	})
}

// Freeze keeps a host from grants for a while, and returns until when.
func (c *Control) Freeze(ctx context.Context, host string, d clock.Duration, reason, actor string) (until clock.Instant, err error) {
	err = c.operator(ctx, func(t *turn) error {
		until = t.now.Add(d)
		return t.add(plan.Freeze(t.s, host, until, reason, actor, t.now))
	})
	return until, err
}

// Unfreeze ends a host's freeze.
func (c *Control) Unfreeze(ctx context.Context, host, reason, actor string) error {
	return c.operator(ctx, func(t *turn) error {
		return t.add(plan.Unfreeze(t.s, host, reason, actor, t.now))
	})
}

// pruneEvery is how often ended rollouts are looked at.
const pruneEvery = clock.Minute

// prune ends the retention of rollouts.
func (c *Control) prune(t *turn) error {
	if c.pruneAt > t.now {
		return nil
	}
	c.pruneAt = t.now.Add(pruneEvery)
	return t.add(plan.Prune(t.s, c.cfg.Retention, t.now))
}
