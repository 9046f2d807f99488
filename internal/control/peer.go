package control

import (
	"crypto/x509"
	"errors"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/wire"
)

// Peer is a host that proved its identity with a certificate in use.
type Peer struct {
	Name   string
	host   *contact
	cert   *x509.Certificate
	serial string
}

// Identify takes the verified certificate of a connection and returns its host.
// It refuses certificates that were revoked or replaced, with wire.ErrForbidden. It
// counts as hearing from the host.
func (c *Control) Identify(cert *x509.Certificate) (*Peer, error) {
	name, err := identity.HostOf(cert, c.cfg.Fleet)
	if err != nil {
		return nil, wire.Refuse(wire.ErrForbidden, "%v", err)
	}
	h := c.hosts.find(name)
	if h == nil {
		return nil, wire.Refuse(wire.ErrForbidden, "host %s never enrolled with this server; make a token with steady token create %s", name, name)
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
		return wire.Refuse(wire.ErrForbidden, "%v", err)
	}
	return nil
}

// maxActive is how many requests of one host are served at a time.
const maxActive = 16

// Begin counts a request of the host. It is refused when too many are under way;
// otherwise call what it returns at its end.
func (p *Peer) Begin() (end func(), ok bool) {
	if p.host.active.Add(1) > maxActive {
		p.host.active.Add(-1)
		return nil, false
	}
	return func() { p.host.active.Add(-1) }, true
}

// Revoked refuses a certificate at the handshake; see identity.ServerOptions.
func (c *Control) Revoked(host string, cert *x509.Certificate) error {
	h := c.hosts.find(host)
	if h == nil {
		return nil
	}
	return h.View().Revoked(identity.IssuedAt(cert))
}

// LastSeen is when a host was last seen since this process started, or
// zero.
func (c *Control) LastSeen(host string) clock.Instant {
	at, _ := c.hosts.LastSeen(host)
	return at
}

// seen notes that a host was heard from, and tells the reducer when that is news.
func (c *Control) seen(h *contact) {
	h.lastSeen.Store(int64(c.now()))
	if h.View().Online || !h.returning.CompareAndSwap(false, true) {
		return
	}
	c.tell(&input{Input: server.Connected{Host: h.name}, after: func(error) { h.returning.Store(false) }})
}

// tell hands the reducer an input that nobody waits for. One that finds no room is
// dropped: whoever sent it sends it again.
func (c *Control) tell(in *input) {
	select {
	case c.normal <- in:
	default:
		if in.after != nil {
			in.after(errDropped)
		}
	}
}

// errDropped is the outcome of an input that found no room.
var errDropped = errors.New("the reducer is too busy")
