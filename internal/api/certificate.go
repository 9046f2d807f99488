package api

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"slices"
	"sync"
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/warning"
	"github.com/steadyfleet/steady/internal/identity"
)

// certificates issues the server's own certificate and renews it at two thirds
// of its life. The key lives as long as the process.
type certificates struct {
	authority *identity.Authority
	names     []string

	mu    sync.Mutex
	cert  *tls.Certificate
	renew time.Time
}

func newCertificates(a *identity.Authority, names []string) (*certificates, error) {
	names = append([]string{"localhost", "127.0.0.1", "::1"}, names...)
	slices.Sort(names)
	c := &certificates{authority: a, names: slices.Compact(names)}
	_, err := c.current()
	return c, err
}

// edgeExpiries is what ends of the server's certificate and of the authority behind
// it. Asking renews a certificate that is due, also where nobody connects.
func edgeExpiries(authority *identity.Authority, c *certificates) []warning.Fact {
	ca := authority.Certificate()
	out := []warning.Fact{{Kind: warning.ServerAuthority, Since: clock.FromTime(ca.NotBefore), Ends: clock.FromTime(ca.NotAfter)}}
	if c == nil {
		return out
	}
	_, _ = c.current() // what cannot be renewed shows in the end of the old one
	c.mu.Lock()
	defer c.mu.Unlock()
	leaf := c.cert.Leaf
	return append(out, warning.Fact{Kind: warning.ServerCertificate, Since: clock.FromTime(leaf.NotBefore), Ends: clock.FromTime(leaf.NotAfter)})
}

func (c *certificates) current() (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if c.cert != nil && now.Before(c.renew) {
		return c.cert, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	pem, err := c.authority.IssueServer(c.names, key.Public(), now, 0)
	if err != nil {
		return nil, err
	}
	cert, err := identity.Pair(pem, key)
	if err != nil {
		return nil, err
	}
	c.cert, c.renew = cert, now.Add(cert.Leaf.NotAfter.Sub(now)*2/3)
	return cert, nil
}
