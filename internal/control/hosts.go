package control

import (
	"crypto/ed25519"
	"crypto/x509"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/identity"
)

// hostView is what requests of a host are answered from without the reducer: a
// projection of committed state, never changed once published.
type hostView struct {
	incarnation        uint64 // zero before enrolment
	eventKey           ed25519.PublicKey
	serial, prevSerial string
	revokedBefore      clock.Instant
	seq                uint64
	chain              []byte
	online             bool
	grant              *plan.Grant // a copy; nil when there is nothing to offer
}

// hostEntry is a host in the directory. It is never removed.
type hostEntry struct {
	name     string
	view     atomic.Pointer[hostView]
	lastSeen atomic.Int64 // clock.Instant
	polls    atomic.Int32 // open long-polls
	active   atomic.Int32 // requests under way
	// returning says that the reducer has been told that the host is back.
	returning atomic.Bool
	watched   bool // by the presence heap; the reducer's

	mu      sync.Mutex
	changed chan struct{} // closed when the view changes; nil without waiters
	// given is the grant that was handed out last, how often, and when, so that
	// a host which is busy with it is not given it over and over.
	given      string
	givenTimes int
	givenAt    clock.Instant
}

// directory finds hosts by name.
type directory struct {
	mu sync.RWMutex
	m  map[string]*hostEntry
}

func (d *directory) find(name string) *hostEntry {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.m[name]
}

// publish makes the committed state of a host visible and wakes its long-poll
// if that matters to it. Only the reducer calls it.
func (d *directory) publish(h *plan.Host) *hostEntry {
	e := d.find(h.Name)
	if e == nil {
		e = &hostEntry{name: h.Name}
		d.mu.Lock()
		d.m[h.Name] = e
		d.mu.Unlock()
	}
	v := &hostView{incarnation: h.Incarnation, eventKey: h.EventKey, serial: h.Serial, prevSerial: h.PrevSerial,
		revokedBefore: h.RevokedBefore, seq: h.Seq, chain: h.ChainHash, online: h.Online}
	old := e.view.Load()
	if h.Grant != nil {
		if old != nil && old.grant != nil && *old.grant == *h.Grant {
			v.grant = old.grant
		} else {
			g := *h.Grant
			v.grant = &g
		}
	}
	e.view.Store(v)
	if old == nil || v.grant != old.grant || v.revokedBefore != old.revokedBefore || v.serial != old.serial {
		e.wake()
	}
	return e
}

// wait returns a channel that is closed at the next change. Take it before
// reading the view.
func (e *hostEntry) wait() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.changed == nil {
		e.changed = make(chan struct{})
	}
	return e.changed
}

func (e *hostEntry) wake() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.changed != nil {
		close(e.changed)
		e.changed = nil
	}
}

// Peer is a host that proved its identity with a certificate in use.
type Peer struct {
	Name   string
	entry  *hostEntry
	cert   *x509.Certificate
	serial string
}

// Serial names a certificate in events and states.
func Serial(cert *x509.Certificate) string { return cert.SerialNumber.Text(16) }

// Identify takes the verified certificate of a connection and returns its host.
// It refuses certificates that were revoked or replaced, with ErrForbidden. It
// counts as hearing from the host.
func (c *Control) Identify(cert *x509.Certificate) (*Peer, error) {
	name, err := identity.HostOf(cert, c.cfg.Fleet)
	if err != nil {
		return nil, refusef(ErrForbidden, "%v", err)
	}
	e := c.hosts.find(name)
	if e == nil {
		return nil, refusef(ErrForbidden, "host %s never enrolled with this server; make a token with steady token create %s", name, name)
	}
	p := &Peer{Name: name, entry: e, cert: cert, serial: Serial(cert)}
	if err := p.check(); err != nil {
		return nil, err
	}
	c.seen(e)
	return p, nil
}

// check refuses a certificate that is not in use any more.
func (p *Peer) check() error {
	v := p.entry.view.Load()
	if identity.IssuedAt(p.cert) < v.revokedBefore {
		return refusef(ErrForbidden, "the certificates of host %s issued before %s are revoked; enrol it again", p.Name, v.revokedBefore)
	}
	if v.incarnation == 0 || (p.serial != v.serial && (p.serial != v.prevSerial || v.prevSerial == "")) {
		return refusef(ErrForbidden, "certificate %s of host %s is not in use: it was replaced by a newer one, or this server never issued it; enrol the host again", p.serial, p.Name)
	}
	return nil
}

// Revoked refuses a certificate at the handshake; see identity.ServerOptions.
func (c *Control) Revoked(host string, cert *x509.Certificate) error {
	if e := c.hosts.find(host); e != nil {
		if v := e.view.Load(); identity.IssuedAt(cert) < v.revokedBefore {
			return fmt.Errorf("its certificates issued before %s are revoked", v.revokedBefore)
		}
	}
	return nil
}

// maxActive is how many requests of one host are served at a time.
const maxActive = 16

// Begin counts a request of the host. It is refused when too many are under way;
// otherwise call what it returns at its end.
func (p *Peer) Begin() (end func(), ok bool) {
	if p.entry.active.Add(1) > maxActive {
		p.entry.active.Add(-1)
		return nil, false
	}
	return func() { p.entry.active.Add(-1) }, true
}
