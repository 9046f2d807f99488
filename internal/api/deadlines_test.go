package api_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/steadyfleet/steady/internal/api"
	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/wire"
)

// pipes is a listener in memory, so that deadlines run on the test's own clock.
// Nobody buffers: what the server writes must be read.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8443} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	mine, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return mine, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// slow is a caller that keeps a connection for as long as it is let.
type slow struct {
	what  string
	proto string // of TLS; "" speaks none
	// act is called with an open connection and goes on until it is cut.
	act func(net.Conn) error
	// within is when the server must have cut it; a last word of TLS may take 5 s more.
	within time.Duration
}

// drip writes a byte a second until it is cut.
func drip(c io.Writer, head string) error {
	if _, err := io.WriteString(c, head); err != nil {
		return err
	}
	second := time.NewTicker(time.Second) // of the bubble's clock
	defer second.Stop()
	for {
		<-second.C
		if _, err := c.Write([]byte("x")); err != nil {
			return err
		}
	}
}

// answers drains what the server says, until it is cut.
func answers(c net.Conn) error {
	_, err := io.Copy(io.Discard, c)
	return err
}

func requestHead(path string, length int) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\n%s: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n",
		path, wire.Protocol, wire.Version, length)
}

var slowCallers = []slow{
	{"says nothing", "", answers, 10 * time.Second},
	{"begins no handshake to the end", "", func(c net.Conn) error { return drip(c, "\x16\x03\x01\x02\x00\x01") }, 10 * time.Second},
	{"asks for nothing", "http/1.1", answers, 10 * time.Second},
	{"drips its header", "http/1.1", func(c net.Conn) error { return drip(c, "GET /v1/trust/1.root.json HTTP/1.1\r\nX: ") }, 10 * time.Second},
	{"drips its body", "http/1.1", func(c net.Conn) error {
		go func() { _ = answers(c) }()
		return drip(c, requestHead(wire.RouteEnrol, 1000))
	}, 30 * time.Second},
	{"drips its login", "http/1.1", func(c net.Conn) error {
		go func() { _ = answers(c) }()
		return drip(c, requestHead(loginsPath, 1000))
	}, 30 * time.Second},
	{"reads no answer", "http/1.1", func(c net.Conn) error {
		for { // one answer after another, none of them read
			if _, err := io.WriteString(c, "GET "+operator.RouteHealth+" HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
				return err
			}
		}
	}, time.Minute},
	{"stays after its answer", "http/1.1", func(c net.Conn) error {
		if _, err := io.WriteString(c, "GET "+operator.RouteHealth+" HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			return err
		}
		return answers(c)
	}, 2 * time.Minute},
	{"opens HTTP/2 and no stream", "h2", func(c net.Conn) error {
		if _, err := c.Write(append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 0, 0, 0, 4, 0, 0, 0, 0, 0)); err != nil {
			return err
		}
		return answers(c)
	}, 2 * time.Minute},
	{"drips its body over HTTP/2", "h2", func(c net.Conn) error {
		tr := &http.Transport{ForceAttemptHTTP2: true, DialTLSContext: func(context.Context, string, string) (net.Conn, error) { return c, nil }}
		defer tr.CloseIdleConnections()
		body, drops := io.Pipe()
		go func() { _ = drip(drops, "{") }()
		r, err := http.NewRequest("POST", "https://localhost"+wire.RouteEnrol, body)
		if err != nil {
			return err
		}
		r.Header.Set(wire.Protocol, wire.Version)
		a, err := (&http.Client{Transport: tr}).Do(r)
		if err != nil {
			return err
		}
		return a.Body.Close()
	}, 30 * time.Second},
	{"speaks no HTTP/2 after all", "h2", answers, 10 * time.Second},
}

// call opens the connection and says how long the server kept it.
func (s slow) call(p *pipes, roots *x509.CertPool) (time.Duration, error) {
	c, err := p.dial(context.Background(), "", "")
	if err != nil {
		return 0, err
	}
	defer c.Close()
	began := time.Now()
	if s.proto != "" {
		conf := &tls.Config{RootCAs: roots, ServerName: "localhost", NextProtos: []string{s.proto}}
		sec := tls.Client(c, conf)
		if err := sec.Handshake(); err != nil {
			return 0, fmt.Errorf("handshake: %w", err)
		}
		c = sec
	}
	_ = s.act(c) // how it ends is the server's choice
	return time.Since(began), nil
}

// T21: whoever keeps a connection without use loses it in bounded time, and
// hundreds of such callers hold up nobody.
func TestT21EveryDeadlineOfTheServer(t *testing.T) {
	w := newKeys(t)
	synctest.Test(t, func(t *testing.T) {
		listener := newPipes()
		ctx, stop := context.WithCancel(t.Context())
		server, err := api.Start(ctx, api.Options{DataDir: w.dir + "/server", Root: w.root, Listen: "127.0.0.1:8443",
			Bind: func(string, string) (net.Listener, error) { return listener, nil }})
		testkit.Must(t, err)
		defer func() {
			stop()
			testkit.Must(t, server.Wait())
		}()
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(server.ServerCA())
		type end struct {
			of   slow
			kept time.Duration
			err  error
		}
		const each = 50
		ends := make(chan end, each*len(slowCallers))
		for range each {
			for _, s := range slowCallers {
				go func() {
					kept, err := s.call(listener, roots)
					ends <- end{s, kept, err}
				}()
			}
		}
		synctest.Wait() // all are connected
		honest(t, listener, roots)
		for range each * len(slowCallers) {
			e := <-ends
			if e.err != nil || e.kept > e.of.within+5*time.Second {
				t.Errorf("a caller that %s was kept for %v, bound %v: %v", e.of.what, e.kept, e.of.within, e.err)
			}
		}
		honest(t, listener, roots)
	})
}

// honest asks once and is answered at once.
func honest(t *testing.T, p *pipes, roots *x509.CertPool) {
	t.Helper()
	tr := &http.Transport{DialContext: p.dial, TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}
	defer tr.CloseIdleConnections()
	began := time.Now()
	r := testkit.Value((&http.Client{Transport: tr}).Get("https://localhost" + operator.RouteHealth))(t)
	defer r.Body.Close()
	if _, err := io.Copy(io.Discard, r.Body); err != nil || r.StatusCode != 200 {
		t.Errorf("an honest caller got %d, %v", r.StatusCode, err)
	}
	if took := time.Since(began); took > 0 {
		t.Errorf("an honest caller waited for %v", took)
	}
}
