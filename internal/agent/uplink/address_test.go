package uplink_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/steadyfleet/steady/internal/agent/uplink"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/wire"
)

// A client leaves an address that does not answer, or behind which a proxy finds nobody, or
// where somebody else's server is, and comes back the same way; a refusal is an answer.
func TestClientFindsTheServer(t *testing.T) {
	var status atomic.Int64
	status.Store(http.StatusNoContent)
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(status.Load())) }))
	defer s.Close()
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	// httptest's certificate is for 127.0.0.1 and example.com, and not for localhost.
	dead, stranger := "https://"+testkit.FreeAddr(t), "https://localhost:"+port
	c := testkit.Value(uplink.NewClient(uplink.ClientOptions{Servers: []string{dead, stranger, s.URL}, TLS: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}))(t)
	defer c.Close()
	ask := func(want error) {
		t.Helper()
		_, err := c.Dispatch(t.Context(), 0, 0)
		if (err == nil) != (want == nil) {
			t.Fatalf("at %s: %v", c.Server(), err)
		}
	}
	for _, at := range []string{dead, dead, stranger, stranger} {
		if c.Server() != at {
			t.Fatalf("it asks %s, expected %s", c.Server(), at)
		}
		ask(io.EOF)
	}
	ask(nil)
	for _, refusal := range []int64{403, 429, 500} {
		status.Store(refusal)
		ask(io.EOF)
		ask(io.EOF)
		if c.Server() != s.URL {
			t.Fatalf("a %d makes it leave", refusal)
		}
	}
	status.Store(http.StatusBadGateway)
	ask(io.EOF)
	ask(io.EOF)
	if c.Server() != dead {
		t.Fatalf("it stays where a proxy finds nobody")
	}
	testkit.Must(t, c.Use([]string{s.URL}))
	status.Store(http.StatusNoContent)
	ask(nil)
}

// What the environment of a process holds is read once, so the client is one of its own.
const askAsChild = "STEADY_UPLINK_ASK"

// TestProxyOfTheEnvironment: an agent reaches its server through the proxy that HTTPS_PROXY
// names, by CONNECT and with TLS to the server itself, and not where NO_PROXY says otherwise.
func TestProxyOfTheEnvironment(t *testing.T) {
	if file := os.Getenv(askAsChild); file != "" {
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(testkit.Value(os.ReadFile(file))(t))
		c := testkit.Value(uplink.NewClient(uplink.ClientOptions{Servers: []string{os.Getenv("STEADY_UPLINK_SERVER")}, TLS: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13}}))(t)
		defer c.Close()
		if _, err := c.Dispatch(t.Context(), 7, 0); err != nil {
			t.Fatal(err)
		}
		return
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 || r.Header.Get(wire.Protocol) != wire.Version {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	var tunnels atomic.Int64
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect || r.Host != "example.com:8443" {
			http.Error(w, "CONNECT example.com:8443 alone", http.StatusForbidden)
			return
		}
		up := testkit.Value(net.Dial("tcp", s.Listener.Addr().String()))(t)
		down, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		tunnels.Add(1)
		_, _ = io.WriteString(down, "HTTP/1.1 200 OK\r\n\r\n")
		go func() { _, _ = io.Copy(up, down); _ = up.Close() }()
		_, _ = io.Copy(down, up)
		_ = down.Close()
	}))
	defer proxy.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	testkit.Must(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600))
	ask := func(env ...string) (string, bool) {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestProxyOfTheEnvironment$")
		cmd.Env = append(append(os.Environ(), askAsChild+"="+ca, "STEADY_UPLINK_SERVER=https://example.com:8443"), env...)
		out, err := cmd.CombinedOutput()
		return string(out), err == nil
	}
	if out, ok := ask("HTTPS_PROXY=" + proxy.URL); !ok || tunnels.Load() != 1 {
		t.Errorf("with HTTPS_PROXY, after %d tunnels: %s", tunnels.Load(), out)
	}
	out, ok := ask("HTTPS_PROXY="+proxy.URL, "NO_PROXY=.com", "STEADY_UPLINK_SERVER=https://unknown.example.com:1")
	if ok || tunnels.Load() != 1 || strings.Contains(out, "CONNECT") {
		t.Errorf("with NO_PROXY, after %d tunnels: %s", tunnels.Load(), out)
	}
}
