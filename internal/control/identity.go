package control

import (
	"context"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/plan"
)

// RevokeHost ends the certificates that a host has now: its open requests and
// streams end at once, and the next one is refused. A new token enrols it again.
// Errors are *plan.VerbError.
func (c *Control) RevokeHost(ctx context.Context, host, reason, actor string) error {
	return c.operator(ctx, func(t *turn) error {
		return t.add(plan.Revoke(t.s, host, reason, actor, t.now))
	})
}

// DecommissionHost revokes a host and retires it: once what it may still be doing
// is over, it holds no slot of a budget any more. Errors are *plan.VerbError.
func (c *Control) DecommissionHost(ctx context.Context, host, reason, actor string) error {
	return c.operator(ctx, func(t *turn) error {
		return t.add(plan.Decommission(t.s, host, reason, actor, t.now))
	})
}

// HostAuthorityEnds is when the authority of the hosts' certificates expires.
func (c *Control) HostAuthorityEnds() clock.Instant {
	return clock.FromTime(c.cfg.HostCA.Certificate().NotAfter)
}
