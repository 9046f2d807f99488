package identity

import (
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/testkit"
)

// wire is one server and the certificates to try against it.
type wire struct {
	hosts, servers *Authority
	serverCert     *tls.Certificate
	revoked        map[string]bool
}

func newWire(t *testing.T) *wire {
	t.Helper()
	w := &wire{hosts: authority(t, Hosts, testFleet), servers: authority(t, Servers, testFleet), revoked: map[string]bool{}}
	w.serverCert = serverPair(t, w.servers, "localhost", "127.0.0.1")
	return w
}

func serverPair(t *testing.T, a *Authority, names ...string) *tls.Certificate {
	t.Helper()
	key := newKey(t)
	pem := testkit.Value(a.IssueServer(names, key.Public(), now, 0))(t)
	return pair(t, pem, key)
}

func hostPair(t *testing.T, a *Authority, host string) *tls.Certificate {
	t.Helper()
	key := newKey(t)
	return pair(t, hostCert(t, a, key, host), key)
}

func pair(t *testing.T, pem []byte, key crypto.Signer) *tls.Certificate {
	t.Helper()
	p := testkit.Value(Pair(pem, key))(t)
	return p
}

func (w *wire) server(t *testing.T) *tls.Config {
	t.Helper()
	c, err := ServerTLS(ServerOptions{
		Fleet: testFleet, HostCA: w.hosts.Pool(),
		Certificate: func() (*tls.Certificate, error) { return w.serverCert, nil },
		Revoked: func(host string, _ *x509.Certificate) error {
			if w.revoked[host] {
				return errors.New("revoked: lost")
			}
			return nil
		},
		Now: func() time.Time { return now },
	})
	testkit.Must(t, err)
	return c
}

func (w *wire) agent(t *testing.T, cert *tls.Certificate) *tls.Config {
	t.Helper()
	c, err := AgentTLS(AgentOptions{
		Certificate: func() (*tls.Certificate, error) { return cert, nil },
		ServerCA:    w.servers.Pool(), ServerName: "localhost",
		Now: func() time.Time { return now },
	})
	testkit.Must(t, err)
	return c
}

// shake connects the two over TCP, exchanges a byte, and returns the server's
// view of the connection. The error is that of either side.
func shake(t *testing.T, server, client *tls.Config) (tls.ConnectionState, error) {
	t.Helper()
	l := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer func() { _ = l.Close() }()
	type result struct {
		state tls.ConnectionState
		err   error
	}
	done := make(chan result, 1)
	go func() {
		raw, err := l.Accept()
		if err != nil {
			done <- result{err: err}
			return
		}
		c := tls.Server(raw, server)
		err = c.Handshake()
		if err == nil {
			_, err = c.Write([]byte{1})
		}
		state := c.ConnectionState()
		_ = c.Close()
		done <- result{state, err}
	}()
	raw := testkit.Value(net.Dial("tcp", l.Addr().String()))(t)
	c := tls.Client(raw, client)
	n, readErr := c.Read(make([]byte, 1))
	if n == 1 {
		readErr = nil // the byte may come together with the end
	}
	_ = c.Close()
	r := <-done
	return r.state, errors.Join(readErr, r.err)
}

func TestMutualTLS(t *testing.T) {
	w := newWire(t)
	state := testkit.Value(shake(t, w.server(t), w.agent(t, hostPair(t, w.hosts, "web-1"))))(t)
	if host, err := PeerHost(&state, testFleet); err != nil || host != "web-1" {
		t.Errorf("host %q, %v", host, err)
	}
	if state.Version != tls.VersionTLS13 || state.NegotiatedProtocol != "h2" {
		t.Errorf("version %x, protocol %q", state.Version, state.NegotiatedProtocol)
	}
	// Enrolment comes without a certificate, and names nobody.
	state = testkit.Value(shake(t, w.server(t), w.agent(t, nil)))(t)
	if host, err := PeerHost(&state, testFleet); err == nil {
		t.Errorf("no certificate named %q", host)
	}
}

// TestCertificateMatrix: every certificate that is not exactly the right one is
// refused, on either side.
func TestCertificateMatrix(t *testing.T) {
	w := newWire(t)
	foreignHosts, foreignServers := authority(t, Hosts, testFleet), authority(t, Servers, testFleet)
	otherFleet := authority(t, Hosts, "other")
	selfSigned := func(a *Authority) *tls.Certificate {
		return &tls.Certificate{Certificate: [][]byte{a.cert.Raw}, PrivateKey: a.key, Leaf: a.cert}
	}
	for name, cert := range map[string]*tls.Certificate{
		"of another authority":                 hostPair(t, foreignHosts, "web-1"),
		"of a server":                          w.serverCert,
		"of the servers' authority for a host": selfSigned(w.servers),
		"of the authority itself":              selfSigned(w.hosts),
		"of another fleet":                     hostPair(t, otherFleet, "web-1"),
	} {
		server := w.server(t)
		if name == "of another fleet" || name == "of a server" {
			// Even where its authority is trusted.
			pool := w.hosts.Pool()
			pool.AddCert(otherFleet.cert)
			pool.AddCert(w.servers.cert)
			server.ClientCAs = pool
		}
		if _, err := shake(t, server, w.agent(t, cert)); err == nil {
			t.Errorf("a client certificate %s is accepted", name)
		}
	}
	for name, cert := range map[string]*tls.Certificate{
		"of another authority": serverPair(t, foreignServers, "localhost"),
		"of another name":      serverPair(t, w.servers, "elsewhere"),
		"of a host":            hostPair(t, w.hosts, "localhost"),
		"of the authority":     selfSigned(w.servers),
	} {
		w.serverCert = cert
		agent := w.agent(t, nil)
		pool := w.servers.Pool()
		pool.AddCert(w.hosts.cert) // so that only the usage can refuse a host's
		agent.RootCAs = pool
		if _, err := shake(t, w.server(t), agent); err == nil {
			t.Errorf("a server certificate %s is accepted", name)
		}
	}
}

func TestExpiredAndRevokedAreRefused(t *testing.T) {
	w := newWire(t)
	cert := hostPair(t, w.hosts, "web-1")
	late := w.server(t)
	late.Time = func() time.Time { return now.Add(HostLife + time.Second) }
	if _, err := shake(t, late, w.agent(t, cert)); err == nil {
		t.Error("an expired host certificate is accepted")
	}
	agent := w.agent(t, cert)
	agent.Time = func() time.Time { return now.Add(ServerLife + time.Second) }
	if _, err := shake(t, w.server(t), agent); err == nil {
		t.Error("an expired server certificate is accepted")
	}
	// A resumed session is asked about too.
	server, client := w.server(t), w.agent(t, cert)
	client.ClientSessionCache = tls.NewLRUClientSessionCache(4)
	for i := range 2 {
		state := testkit.Value(shake(t, server, client))(t)
		if state.DidResume != (i == 1) {
			t.Fatalf("connection %d: resumed %v", i, state.DidResume)
		}
	}
	w.revoked["web-1"] = true
	if _, err := shake(t, server, client); err == nil {
		t.Error("a revoked host resumed its session")
	}
	if _, err := shake(t, w.server(t), w.agent(t, hostPair(t, w.hosts, "web-2"))); err != nil {
		t.Errorf("another host is refused: %v", err)
	}
}

func TestOldTLSIsRefused(t *testing.T) {
	w := newWire(t)
	cert := hostPair(t, w.hosts, "web-1")
	old := w.agent(t, cert)
	old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	if _, err := shake(t, w.server(t), old); err == nil {
		t.Error("the server speaks TLS 1.2")
	}
	server := w.server(t)
	server.MinVersion, server.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	if _, err := shake(t, server, w.agent(t, cert)); err == nil {
		t.Error("the agent speaks TLS 1.2")
	}
}

func TestIncompleteOptionsAreRefused(t *testing.T) {
	if _, err := ServerTLS(ServerOptions{Fleet: testFleet}); err == nil {
		t.Error("a server without a certificate")
	}
	if _, err := AgentTLS(AgentOptions{ServerName: "localhost"}); err == nil {
		t.Error("an agent that would believe the system's authorities")
	}
}
