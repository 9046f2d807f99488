package api

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/steadyfleet/steady/internal/testkit"
)

// TestAddressesTakeTurnsAtHandshakes: never more compute than there are places, and who comes from another address
// has the place after the next one, however many of the first wait.
func TestAddressesTakeTurnsAtHandshakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const places, flood = 2, 1000
		p := &computing{free: places}
		many, few := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
		var running, most atomic.Int64
		order := make(chan netip.Addr, flood+1)
		step := make(chan struct{})
		begin := func(from netip.Addr) {
			p.take(from)
			most.Store(max(most.Load(), running.Add(1)))
			order <- from
			<-step
			running.Add(-1)
			p.leave()
		}
		for range flood {
			go begin(many)
		}
		synctest.Wait()
		go begin(few)
		synctest.Wait()
		for range flood + 1 {
			step <- struct{}{}
			synctest.Wait()
		}
		for i := range flood + 1 {
			if from := <-order; from == few && i > places+1 {
				t.Errorf("the other address was number %d", i)
			}
		}
		if most.Load() != places || p.free != places || p.waiting.Addresses() != 0 {
			t.Errorf("%d ran at once, %d places are free, %v wait", most.Load(), p.free, p.waiting)
		}
	})
}

// shaken is a server behind a listener of handshakes, with one place, and a client that trusts it.
func shaken(t *testing.T) (l *handshakes, roots *x509.CertPool) {
	issuer := httptest.NewUnstartedServer(nil)
	issuer.StartTLS()
	t.Cleanup(issuer.Close)
	roots = x509.NewCertPool()
	roots.AddCert(issuer.Certificate())
	bare := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	conf := &tls.Config{Certificates: issuer.TLS.Certificates, NextProtos: []string{"h2", "http/1.1"}}
	l = newHandshakes(bare, conf, slog.New(slog.DiscardHandler), &computing{free: 1})
	server := &http.Server{TLSConfig: conf, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Proto) })}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	t.Cleanup(func() {
		testkit.Must(t, server.Close())
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("the server ended with %v", err)
		}
	})
	return l, roots
}

// TestHandshakesThatStopKeepNoPlace: connections that are silent, that stop in the middle of a message and after the
// server's answer, that end, and that send what is no TLS have no place but while the server computes.
func TestHandshakesThatStopKeepNoPlace(t *testing.T) {
	l, roots := shaken(t)
	dial := func() net.Conn {
		c := testkit.Value(net.Dial("tcp", l.Addr().String()))(t)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	dial()
	testkit.Value(io.WriteString(dial(), "\x16\x03\x01\x02\x00\x01"))(t)
	testkit.Must(t, dial().Close())
	mute := dial()
	client := tls.Client(readsOnce{mute}, &tls.Config{RootCAs: roots, ServerName: "example.com"})
	if err := client.HandshakeContext(context.Background()); !errors.Is(err, errMute) {
		t.Errorf("the handshake ended with %v", err)
	}
	plain := dial()
	testkit.Value(io.WriteString(plain, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"))(t)
	if answer := testkit.Value(io.ReadAll(plain))(t); !strings.Contains(string(answer), "HTTP request to an HTTPS server") {
		t.Errorf("a request without TLS is answered %q", answer)
	}
	for proto, h2 := range map[string]bool{"HTTP/2.0": true, "HTTP/1.1": false} {
		tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "example.com"}, ForceAttemptHTTP2: h2}
		got := testkit.Value((&http.Client{Transport: tr}).Get("https://" + l.Addr().String()))(t)
		body := testkit.Value(io.ReadAll(got.Body))(t)
		testkit.Must(t, got.Body.Close())
		tr.CloseIdleConnections()
		if string(body) != proto {
			t.Errorf("answered over %s, want %s", body, proto)
		}
	}
}

var errMute = errors.New("the client reads no more")

// readsOnce is a connection of a client that stops at the server's answer.
type readsOnce struct{ net.Conn }

func (readsOnce) Read([]byte) (int, error) { return 0, errMute }
