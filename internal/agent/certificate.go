package agent

import (
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/steadyfleet/steady/internal/agent/state"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/wire"
)

// identityDoc is who this host is, as it was told at enrolment.
type identityDoc struct {
	Fleet       string `json:"fleet"`
	Host        string `json:"host"`
	Incarnation uint64 `json:"incarnation"`
	Server      string `json:"server"`
	ServerCA    []byte `json:"serverCA"` // PEM
	// Key names the file of the client key that Chain (PEM) is for.
	Key   string `json:"key"`
	Chain []byte `json:"chain"`
	// Renewals counts keys, so that each has a file of its own.
	Renewals int `json:"renewals"`
}

const eventKeyFile = "event.key"

func loadEventKey(s *state.Store) (crypto.Signer, error) {
	key, err := identity.LoadKey(s.KeyPath(eventKeyFile))
	if err != nil {
		return nil, fmt.Errorf("the key that signs this host's events: %w; enrol the host again", err)
	}
	return key, nil
}

// certificate is the host's present certificate, replaced as it is renewed.
type certificate struct {
	mu      sync.Mutex
	pair    *tls.Certificate
	renewAt time.Time // at a random point of its life, so that a fleet spreads out
}

func loadCertificate(s *state.Store, id *identityDoc) (*certificate, error) {
	key, err := identity.LoadKey(s.KeyPath(id.Key))
	if err != nil {
		return nil, err
	}
	pair, err := identity.Pair(id.Chain, key)
	if err != nil {
		return nil, err
	}
	c := &certificate{}
	c.set(pair)
	return c, nil
}

func (c *certificate) set(pair *tls.Certificate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pair = pair
	c.renewAt = identity.RenewAt(pair.Leaf, 0.5+0.3*rand.Float64())
}

func (c *certificate) get() (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pair, nil
}

func (c *certificate) due() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.renewAt
}

// agentTLS is the configuration of connections to a server.
func agentTLS(server string, caPEM []byte, cert func() (*tls.Certificate, error), now func() time.Time) (*tls.Config, error) {
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

// renew gets a certificate for a new key and goes over to it once the server
// has accepted a request with it. Until then the old one stays in the database.
func (a *Agent) renew(ctx context.Context) error {
	next := a.id
	next.Renewals++
	next.Key = fmt.Sprintf("client-%d.key", next.Renewals)
	key, err := identity.KeyFile(a.store.KeyPath(next.Key))
	if err != nil {
		return err
	}
	csr, err := identity.NewCSR(key)
	if err != nil {
		return err
	}
	answer, err := a.client.RenewCertificate(ctx, wire.Renew{CSR: csr})
	if err != nil {
		return err
	}
	next.Chain = answer.Chain
	pair, err := identity.Pair(next.Chain, key)
	if err != nil {
		return fmt.Errorf("the server's certificate is of no use: %w", err)
	}
	if name, err := identity.HostOf(pair.Leaf, a.id.Fleet); err != nil || name != a.id.Host {
		return fmt.Errorf("the server's certificate names %q (%w), not host %s", name, err, a.id.Host)
	}
	old, err := a.cert.get()
	if err != nil {
		return err
	}
	a.cert.set(pair)
	a.client.Renew()
	if _, err := a.beat(ctx); err != nil {
		a.cert.set(old)
		a.client.Renew()
		return fmt.Errorf("the new certificate was not accepted: %w", err)
	}
	if err := a.store.Tx(ctx, func(tx *sql.Tx) error { return state.Put(ctx, tx, keyIdentity, next) }); err != nil {
		a.die(err)
		return err
	}
	oldKey := a.store.KeyPath(a.id.Key)
	a.id.Key, a.id.Chain, a.id.Renewals = next.Key, next.Chain, next.Renewals
	a.cfg.Log.Info("certificate renewed", "until", pair.Leaf.NotAfter)
	if err := os.Remove(oldKey); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
