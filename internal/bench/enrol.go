package bench

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"

	"golang.org/x/sync/errgroup"

	"github.com/steadyfleet/steady/internal/agent/preparation"
	"github.com/steadyfleet/steady/internal/agent/uplink"
	core "github.com/steadyfleet/steady/internal/core/agent"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/trust"
	"github.com/steadyfleet/steady/internal/wire"
)

// enrolAtOnce is how many hosts enrol at the same time.
const enrolAtOnce = 64

// invitation is a host with its signed token, before it has an identity.
type invitation struct {
	host  string
	token []byte
}

// invite signs one token per host.
func invite(f *fleetDir, enrol trust.Signer) ([]invitation, error) {
	root, err := trust.ParseEnvelope(f.roots[0])
	if err != nil {
		return nil, err
	}
	issued := now()
	out := make([]invitation, f.hosts)
	for i := range out {
		id := make([]byte, 16)
		if _, err := rand.Read(id); err != nil {
			return nil, err
		}
		out[i].host = hostName(i)
		out[i].token, err = identity.SignToken(identity.Token{
			Document: fleet.Document{Fleet: fleetName, Epoch: 1, IssuedAt: issued},
			ID:       hex.EncodeToString(id), Host: out[i].host, Expires: issued.Add(identity.MaxTokenLife),
			RootDigest: digest.Of(root.Payload),
		}, enrol)
		if err != nil {
			return nil, fmt.Errorf("token for %s: %w", out[i].host, err)
		}
	}
	return out, nil
}

// door is how agents reach the server.
type door struct {
	url  string
	name string
	ca   *x509.CertPool
	// traffic counts what all connections carry.
	traffic *traffic
}

func newDoor(server string, caPEM []byte, t *traffic) (door, error) {
	u, err := url.Parse(server)
	if err != nil {
		return door{}, err
	}
	d := door{url: server, name: u.Hostname(), ca: x509.NewCertPool(), traffic: t}
	if !d.ca.AppendCertsFromPEM(caPEM) {
		return door{}, errors.New("the server gave no certificate of its authority")
	}
	return d, nil
}

// hostsPerAddress keeps the connections from one local address below the number
// of ports that the kernel gives out, enrolments in TIME_WAIT included.
const hostsPerAddress = 8000

// client makes a client with a connection of its own. cert may be nil.
func (d door) client(index int, cert *tls.Certificate) (*uplink.Client, error) {
	conf, err := identity.AgentTLS(identity.AgentOptions{
		Certificate: func() (*tls.Certificate, error) { return cert, nil },
		ServerCA:    d.ca, ServerName: d.name,
	})
	if err != nil {
		return nil, err
	}
	return uplink.NewClient(uplink.ClientOptions{Servers: []string{d.url}, TLS: conf, Dial: d.traffic.dial(dialer(index))})
}

// enrol gives every invited host its identity and connects it: a host counts
// when the server has accepted a heartbeat over mutual TLS.
func (c *crowd) enrol(ctx context.Context, d door, invited []invitation, f *fleetDir, verifying bool) error {
	begin, err := trust.Begin(fleetName, f.roots[0], "")
	if err != nil {
		return err
	}
	c.agents = make([]*agent, len(invited))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(enrolAtOnce)
	for i := range invited {
		g.Go(func() error {
			a, err := c.enrolOne(ctx, d, i, invited[i], begin, verifying)
			if err != nil {
				return fmt.Errorf("enrol host %s: %w", invited[i].host, err)
			}
			c.agents[i] = a
			return nil
		})
	}
	return g.Wait()
}

func (c *crowd) enrolOne(ctx context.Context, d door, index int, in invitation, begin trust.State, verifying bool) (*agent, error) {
	key, err := identity.NewKey()
	if err != nil {
		return nil, err
	}
	eventKey, err := identity.NewKey()
	if err != nil {
		return nil, err
	}
	a := &agent{
		name: in.host, fleet: fleetName, key: eventKey, crowd: c, offers: make(chan core.Granted, offersKept),
		have: map[digest.Digest]bool{}, interval: wire.DefaultHeartbeat.Std(),
	}
	cert, err := a.identify(ctx, d, index, in.token, key, eventKey)
	if err != nil {
		return nil, err
	}
	a.chain = identity.Genesis(fleetName, a.name, a.incarnation)
	if a.client, err = d.client(index, cert); err != nil {
		return nil, err
	}
	s := source{a.client, &c.requests}
	a.carrier = preparation.NewCarrier(s)
	a.docs = &believing{host: a.name, source: s, root: 1}
	if verifying {
		if a.docs, err = newVerified(fleetName, a.name, s, begin); err != nil {
			return nil, err
		}
	}
	return a, a.retry(ctx, "first heartbeat", func() error {
		reply, err := a.heartbeat(ctx)
		if err == nil && reply.Interval > 0 {
			a.interval = reply.Interval.Std()
		}
		return err
	}, nil)
}

// identify trades the token for a certificate, over a connection without one.
func (a *agent) identify(ctx context.Context, d door, index int, token []byte, key, eventKey ed25519.PrivateKey) (*tls.Certificate, error) {
	csr, err := identity.NewCSR(key)
	if err != nil {
		return nil, err
	}
	nobody, err := d.client(index, nil)
	if err != nil {
		return nil, err
	}
	defer nobody.Renew()
	var got wire.Certificate
	err = a.retry(ctx, "enrol", func() (err error) {
		a.crowd.requests.Add(1)
		got, err = nobody.Enrol(ctx, wire.Enrol{Token: token, CSR: csr, EventKey: eventKey.Public().(ed25519.PublicKey)})
		return err
	}, func(status int) bool { return status >= 400 && status < 500 && status != 429 })
	if err != nil {
		return nil, err
	}
	a.incarnation = got.Incarnation
	return identity.Pair(got.Chain, key)
}
