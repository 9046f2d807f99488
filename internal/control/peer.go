package control

import (
	"crypto/x509"

	"github.com/steadyfleet/steady/internal/control/hosts"
	"github.com/steadyfleet/steady/internal/control/refusal"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/identity"
)

// Peer is a host that proved its identity with a certificate in use.
type Peer struct {
	Name   string
	host   *hosts.Host
	cert   *x509.Certificate
	serial string
}

// Identify takes the verified certificate of a connection and returns its host.
// It refuses certificates that were revoked or replaced, with refusal.ErrForbidden. It
// counts as hearing from the host.
func (c *Control) Identify(cert *x509.Certificate) (*Peer, error) {
	name, err := identity.HostOf(cert, c.cfg.Fleet)
	if err != nil {
		return nil, refusal.Newf(refusal.ErrForbidden, "%v", err)
	}
	h := c.hosts.Find(name)
	if h == nil {
		return nil, refusal.Newf(refusal.ErrForbidden, "host %s never enrolled with this server; make a token with steady token create %s", name, name)
	}
	p := &Peer{Name: name, host: h, cert: cert, serial: identity.Serial(cert)}
	if err := p.check(); err != nil {
		return nil, err
	}
	c.seen(h)
	return p, nil
}

// check refuses a certificate that is not in use any more.
func (p *Peer) check() error {
	if err := p.host.View().InUse(p.Name, p.serial, identity.IssuedAt(p.cert)); err != nil {
		return refusal.Newf(refusal.ErrForbidden, "%v", err)
	}
	return nil
}

// Begin counts a request of the host. It is refused when too many are under way;
// otherwise call what it returns at its end.
func (p *Peer) Begin() (end func(), ok bool) { return p.host.Begin() }

// Revoked refuses a certificate at the handshake; see identity.ServerOptions.
func (c *Control) Revoked(host string, cert *x509.Certificate) error {
	h := c.hosts.Find(host)
	if h == nil {
		return nil
	}
	return h.View().Revoked(identity.IssuedAt(cert))
}

// LastSeen is when a host was last heard from since this process started, or
// zero.
func (c *Control) LastSeen(host string) clock.Instant {
	if h := c.hosts.Find(host); h != nil {
		return h.LastSeen()
	}
	return 0
}

// seen notes that a host was heard from, and tells the reducer when that is news.
func (c *Control) seen(h *hosts.Host) {
	h.Seen(c.now())
	if !h.Returns() {
		return
	}
	in := &input{
		apply: func(t *turn) error {
			return t.add(plan.Presence(t.s, h.Name, true, 0, t.now))
		},
		after: func(error) { h.Returned() },
	}
	select {
	case c.normal <- in:
	default: // the next request tells it
		h.Returned()
	}
}

// checkPresence records every host that fell silent.
func (t *turn) checkPresence() error {
	for _, s := range t.c.watch.Silent(t.now) {
		if err := t.add(plan.Presence(t.s, s.Host, false, s.Last, t.now)); err != nil {
			return err
		}
	}
	return nil
}
