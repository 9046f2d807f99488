package uplink

import (
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/wire"
)

const eventKeyFile = "event.key"

// EventKey loads the key that signs the host's events.
func EventKey(keys Keys) (crypto.Signer, error) {
	key, err := identity.LoadKey(keys(eventKeyFile))
	if err != nil {
		return nil, fmt.Errorf("the key that signs this host's events: %w; enrol the host again", err)
	}
	return key, nil
}

// MakeEventKey makes the key that signs the host's events, or loads the one that
// was made.
func MakeEventKey(keys Keys) (crypto.Signer, error) { return identity.KeyFile(keys(eventKeyFile)) }

// Certificate is the host's present certificate, replaced as it is renewed. It may
// be used from any goroutine.
type Certificate struct {
	mu      sync.Mutex
	pair    *tls.Certificate
	renewAt time.Time // at a random point of its life, so that a fleet spreads out
}

// LoadCertificate loads the certificate of an identity.
func LoadCertificate(id *Identity, keys Keys) (*Certificate, error) {
	key, err := identity.LoadKey(keys(id.Key))
	if err != nil {
		return nil, err
	}
	pair, err := identity.Pair(id.Chain, key)
	if err != nil {
		return nil, err
	}
	c := &Certificate{}
	c.set(pair)
	return c, nil
}

func (c *Certificate) set(pair *tls.Certificate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pair = pair
	c.renewAt = identity.RenewAt(pair.Leaf, 0.5+0.3*rand.Float64())
}

// Get returns the certificate to present.
func (c *Certificate) Get() (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pair, nil
}

// Due is when it is to be renewed.
func (c *Certificate) Due() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.renewAt
}

// TLSConfig is the configuration of connections to a server; cert is nil before there is
// one.
func TLSConfig(server string, caPEM []byte, cert func() (*tls.Certificate, error), now func() time.Time) (*tls.Config, error) {
	u, err := url.Parse(server)
	if err != nil || u.Hostname() == "" {
		return nil, fmt.Errorf("server %q is not an https URL", server)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(caPEM) {
		return nil, errors.New("the servers' authority is no certificate; enrol the host again")
	}
	return identity.AgentTLS(identity.AgentOptions{Certificate: cert, ServerCA: pool, ServerName: u.Hostname(), Now: now})
}

// pairFor joins the certificate that a server gave with its key, if it is one for
// the host.
func pairFor(id *Identity, key crypto.Signer) (*tls.Certificate, error) {
	pair, err := identity.Pair(id.Chain, key)
	if err == nil {
		var name string
		if name, err = identity.HostOf(pair.Leaf, id.Fleet); err == nil && name != id.Host {
			err = fmt.Errorf("it names %s", name)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("the server's certificate is not one for host %s: %w", id.Host, err)
	}
	return pair, nil
}

// Issuer is the server as renewals need it.
type Issuer interface {
	RenewCertificate(ctx context.Context, m wire.Renew) (wire.Certificate, error)
	// Renew has the connections opened anew, with the certificate of now.
	Renew()
	// Try has one request accepted.
	Try(ctx context.Context) error
}

// Renew gets a certificate for a new key and goes over to it once the server has
// accepted a request with it. Save makes the identity that it returns durable:
// until then the old one is good, and afterwards the old key is removed.
func (c *Certificate) Renew(ctx context.Context, id Identity, keys Keys, from Issuer, save func(Identity) error) (Identity, error) {
	next := id
	next.Renewals++
	next.Key = fmt.Sprintf("client-%d.key", next.Renewals)
	key, err := identity.KeyFile(keys(next.Key))
	if err != nil {
		return id, err
	}
	csr, err := identity.NewCSR(key)
	if err != nil {
		return id, err
	}
	answer, err := from.RenewCertificate(ctx, wire.Renew{CSR: csr})
	if err != nil {
		return id, err
	}
	next.Chain = answer.Chain
	pair, err := pairFor(&next, key)
	if err != nil {
		return id, err
	}
	old, err := c.Get()
	if err != nil {
		return id, err
	}
	c.set(pair)
	from.Renew()
	if err := from.Try(ctx); err != nil {
		c.set(old)
		from.Renew()
		return id, fmt.Errorf("the new certificate was not accepted: %w", err)
	}
	if err := save(next); err != nil {
		return id, err
	}
	if err := os.Remove(keys(id.Key)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return next, err
	}
	return next, nil
}
