package control

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/wire"
)

// Peer is a host that proved its identity with a certificate in use.
type Peer struct {
	Name string
	host *contact
	cert *x509.Certificate
	is   server.Certificate // what cert says
}

// Identify takes the verified certificate of a connection and returns its host.
// It refuses certificates that were revoked or replaced, with wire.ErrForbidden; one that
// a restored log lacks is recorded first. It counts as hearing from the host. A refusal is
// logged once an hour for each host and cause.
func (c *Control) Identify(ctx context.Context, cert *x509.Certificate) (*Peer, error) {
	name, err := identity.HostOf(cert, c.cfg.Fleet)
	if err != nil {
		return nil, wire.Refuse(wire.ErrForbidden, "%v", err)
	}
	p, err := c.identify(ctx, name, cert)
	if errors.Is(err, wire.ErrForbidden) {
		c.logRefused(name, cert, err)
	}
	return p, err
}

// logRefused says once an hour for each cause that a host was refused.
func (c *Control) logRefused(host string, cert *x509.Certificate, err error) {
	if c.refused.first(fmt.Sprintf("host/%s/%d/%v", host, c.now()/clock.Instant(clock.Hour), err)) {
		c.cfg.Log.Warn("a host was refused", "host", host, "certificate", identity.Serial(cert), "err", err)
	}
}

func (c *Control) identify(ctx context.Context, name string, cert *x509.Certificate) (*Peer, error) {
	key, err := identity.PublicDigest(cert.PublicKey)
	if err != nil {
		return nil, wire.Refuse(wire.ErrForbidden, "%v", err)
	}
	p := &Peer{Name: name, host: c.hosts.find(name), cert: cert, is: server.Certificate{Serial: identity.Serial(cert),
		Incarnation: identity.IncarnationOf(cert), Issued: identity.IssuedAt(cert), NotAfter: clock.FromTime(cert.NotAfter), Key: key}}
	lacked, err := p.admit(p.host.View())
	if err == nil && lacked != nil {
		err = c.recordLacked(ctx, p)
	}
	if err != nil {
		return nil, err
	}
	c.seen(p.host)
	return p, nil
}

// recordLacked records a certificate that the log lacks, unless another request did.
func (c *Control) recordLacked(ctx context.Context, p *Peer) error {
	err := c.record(ctx, c.normal, p.Name, func(s *server.State, _ clock.Instant) ([]event.Event, error) {
		lacked, err := p.admit(s.View(p.Name, nil))
		if err != nil || lacked == nil {
			return nil, err
		}
		return []event.Event{*lacked}, nil
	})
	if err == nil {
		err = p.check()
	}
	c.cfg.Log.Warn("a host presented a certificate that the log lacks, which this server issued: the log was restored from a backup", "host", p.Name, "certificate", p.is.Serial, "err", err)
	return err
}

func (p *Peer) admit(v *server.View) (lacked *event.CertificateRenewed, err error) {
	if v == nil {
		v = &server.View{}
	}
	if lacked, err = v.Admit(p.Name, p.is); err != nil {
		return nil, wire.Refuse(wire.ErrForbidden, "%v", err)
	}
	return lacked, nil
}

// check refuses a certificate that is not in use any more.
func (p *Peer) check() error {
	lacked, err := p.admit(p.host.View())
	if lacked != nil {
		err = wire.Refuse(wire.ErrUnavailable, "the log of this server does not have certificate %s of host %s any more; try again", p.is.Serial, p.Name)
	}
	return err
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
	err := h.View().Revoked(identity.IssuedAt(cert))
	if err != nil {
		c.logRefused(host, cert, err)
	}
	return err
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
