package control

import (
	"context"
	"sync"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/wire"
)

// Renew issues a certificate for a new key. The one that was presented stays
// good, for the answer may be lost; the same key gets the same answer again.
func (c *Control) Renew(ctx context.Context, p *Peer, m wire.Renew) (wire.Certificate, error) {
	if err := c.takeLog(p, renewalWeight); err != nil {
		return wire.Certificate{}, err
	}
	req, err := identity.ParseCSR(m.CSR)
	if err != nil {
		return wire.Certificate{}, wire.Refuse(wire.ErrInvalid, "%v", err)
	}
	key, err := identity.PublicDigest(req.PublicKey)
	if err != nil {
		return wire.Certificate{}, wire.Refuse(wire.ErrInvalid, "%v", err)
	}
	if old, err := identity.PublicDigest(p.cert.PublicKey); err != nil || old == key {
		return wire.Certificate{}, wire.Refuse(wire.ErrInvalid, "a renewal needs a new key")
	}
	unlock := c.registrar.locks.lock("renew/" + p.Name)
	defer unlock()
	if err := p.check(); err != nil {
		return wire.Certificate{}, err
	}
	v := p.host.View()
	if answer, ok := c.registrar.renewals.find(p.Name, key, v); ok {
		return answer, nil
	}
	chain, cert, err := c.issue(m.CSR, p.Name, v.Incarnation)
	if err != nil {
		return wire.Certificate{}, err
	}
	ev := event.CertificateRenewed{Serial: identity.Serial(cert), Presented: p.is.Serial, NotAfter: clock.FromTime(cert.NotAfter), KeyDigest: key}
	err = c.recordChecked(ctx, p.Name, func(s *server.State) error { return s.Renews(p.Name, v.Incarnation) }, ev)
	if err != nil {
		return wire.Certificate{}, err
	}
	answer := wire.Certificate{Chain: chain, Incarnation: v.Incarnation}
	c.registrar.renewals.keep(p.Name, key, ev.Serial, answer)
	c.metrics.certificates.Inc()
	return answer, nil
}

// renewals keeps each host's last renewal for a retry.
type renewals struct {
	mu sync.Mutex
	m  map[string]renewal
}

type renewal struct {
	key    digest.Digest
	serial string
	answer wire.Certificate
}

const maxRenewals = 4096

func (r *renewals) find(host string, key digest.Digest, v *server.View) (wire.Certificate, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, ok := r.m[host]
	return last.answer, ok && last.key == key && last.serial == v.Serial
}

func (r *renewals) keep(host string, key digest.Digest, serial string, answer wire.Certificate) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.m == nil || len(r.m) >= maxRenewals {
		r.m = map[string]renewal{}
	}
	r.m[host] = renewal{key, serial, answer}
}

// renewalWeight is what a renewal takes of a host's share of the log: more than its
// record, for the server signs.
const renewalWeight = 16 << 10

// HostAuthorityEnds is when the authority of the hosts' certificates expires.
func (c *Control) HostAuthorityEnds() clock.Instant {
	return clock.FromTime(c.cfg.HostCA.Certificate().NotAfter)
}
