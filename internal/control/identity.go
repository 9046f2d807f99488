package control

import (
	"context"

	"github.com/steadyfleet/steady/internal/control/enrolment"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/wire"
)

// recorder is the log as enrolment sees it.
type recorder struct{ *Control }

var _ enrolment.Log = recorder{}

// Record implements enrolment.Log.
func (c recorder) Record(ctx context.Context, host string, check func(*plan.State) error, ev event.Event) error {
	return c.submit(ctx, c.normal, func(t *turn) error {
		if check != nil {
			if err := check(t.s); err != nil {
				return err
			}
		}
		return t.record(host, ev)
	})
}

func (c *Control) newRegistrar() *enrolment.Registrar {
	return enrolment.New(enrolment.Config{Log: recorder{c}, Blobs: c.cfg.Store, Authority: c.cfg.HostCA, Life: c.cfg.HostLife,
		Trusted: c.public.Load, Now: c.now, Issued: c.metrics.certificates.Inc, Logger: c.cfg.Log})
}

// Enrol trades a token for an identity; see enrolment.Registrar, as for
// BootstrapReport and Renew.
func (c *Control) Enrol(ctx context.Context, m wire.Enrol) (wire.Certificate, error) {
	return c.registrar.Enrol(ctx, m)
}

// BootstrapReport records why a host could not enrol.
func (c *Control) BootstrapReport(ctx context.Context, m wire.BootstrapReport) error {
	return c.registrar.BootstrapReport(ctx, m)
}

// Renew issues a certificate for a new key.
func (c *Control) Renew(ctx context.Context, p *Peer, csr []byte) (wire.Certificate, error) {
	if err := c.takeLog(p, renewalWeight); err != nil {
		return wire.Certificate{}, err
	}
	return c.registrar.Renew(ctx, enrolment.Holder{Name: p.Name, Serial: p.serial, Key: p.cert.PublicKey, Host: p.host, InUse: p.check}, csr)
}

// renewalWeight is what a renewal takes of a host's share of the log: more than its
// record, for the server signs.
const renewalWeight = 16 << 10

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
