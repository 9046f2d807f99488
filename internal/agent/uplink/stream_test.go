package uplink_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/steadyfleet/steady/internal/agent/uplink"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/wire"
)

// serve starts a TLS server and a client of it; both are gone at the end of the
// test, with all that they started.
func serve(t *testing.T, http2 bool, h http.HandlerFunc, o uplink.ClientOptions) *uplink.Client {
	t.Helper()
	before := goleak.IgnoreCurrent()
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = http2
	s.StartTLS()
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	o.Servers, o.TLS = []string{s.URL}, &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13}
	c := testkit.Value(uplink.NewClient(o))(t)
	t.Cleanup(func() {
		c.Close()
		s.CloseClientConnections()
		s.Close()
		if err := goleak.Find(before); err != nil {
			t.Error(err)
		}
	})
	return c
}

func open(t *testing.T, c *uplink.Client) uplink.Duplex {
	t.Helper()
	d := testkit.Value(c.Stream(t.Context(), "abc"))(t)
	t.Cleanup(func() { d.Close() })
	return d
}

// The server answers only after it has read: what is written must not wait for
// the answer, and both directions go on from there.
func TestStreamGoesBothWaysAtOnce(t *testing.T) {
	var accepted atomic.Int64
	c := serve(t, true, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.URL.Path != wire.RouteStreams+"abc" || r.Header.Get(wire.Protocol) != wire.Version {
			http.Error(w, "not a stream", http.StatusBadRequest)
			return
		}
		in := wire.NewFrameReader(r.Body)
		out := wire.NewFrameWriter(w)
		for {
			f, err := in.Next()
			if errors.Is(err, io.EOF) {
				_ = out.Exit(wire.Exit{Code: 7})
				return
			}
			if err != nil || out.Write(f) != nil {
				return
			}
			_ = http.NewResponseController(w).Flush()
		}
	}, uplink.ClientOptions{Begin: func() int64 { return 5 }, Accepted: func(at int64, _ time.Duration) { accepted.Add(at) }})
	d := open(t, c)
	out, in := wire.NewFrameWriter(d), wire.NewFrameReader(d)
	for i := range 3 {
		testkit.Must(t, out.Write(wire.Frame{Type: wire.FrameStdout, Data: fmt.Append(nil, i)}))
		f, err := in.Next()
		if err != nil || string(f.Data) != fmt.Sprint(i) {
			t.Fatalf("frame %d came back as %q, %v", i, f.Data, err)
		}
	}
	if err := d.Accepted(); err != nil || accepted.Load() != 5 {
		t.Fatalf("accepted: %v, at %d", err, accepted.Load())
	}
	testkit.Must(t, d.CloseWrite())
	f := testkit.Value(in.Next())(t)
	if e, err := f.Exit(); err != nil || e.Code != 7 {
		t.Fatalf("after the end of what goes up: %+v, %v", e, err)
	}
	if _, err := in.Next(); !errors.Is(err, io.EOF) {
		t.Fatalf("the server's end is %v", err)
	}
}

func TestStreamSaysWhyItIsNotAccepted(t *testing.T) {
	c := serve(t, true, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"title":"no such stream","status":404,"detail":"it is over"}`)
	}, uplink.ClientOptions{Accepted: func(int64, time.Duration) { t.Error("a refusal counts as accepted") }})
	d := open(t, c)
	err := d.Accepted()
	if uplink.StatusOf(err) != http.StatusNotFound || !strings.Contains(err.Error(), "it is over") {
		t.Fatalf("refused with %v", err)
	}
	if _, err := d.Read(make([]byte, 1)); uplink.StatusOf(err) != http.StatusNotFound {
		t.Errorf("read gives %v", err)
	}
	for began := time.Now(); time.Since(began) < time.Minute; { // what is on its way may still be taken
		if _, err = d.Write([]byte("x")); err != nil {
			return
		}
	}
	t.Error("a stream that was refused takes writes")
}

func TestStreamNeedsHTTP2(t *testing.T) {
	c := serve(t, false, func(w http.ResponseWriter, _ *http.Request) { _ = http.NewResponseController(w).Flush() }, uplink.ClientOptions{})
	if err := open(t, c).Accepted(); !errors.Is(err, uplink.ErrNoDuplex) {
		t.Fatalf("over HTTP/1.1: %v", err)
	}
}

// Whatever a caller is blocked in, the end of its context or Close ends it.
func TestStreamEndsWithItsContext(t *testing.T) {
	for _, begun := range []bool{false, true} {
		for _, closes := range []bool{false, true} {
			t.Run(fmt.Sprintf("begun=%v,close=%v", begun, closes), func(t *testing.T) {
				arrived := make(chan struct{})
				c := serve(t, true, func(w http.ResponseWriter, r *http.Request) {
					if begun {
						_ = http.NewResponseController(w).Flush()
					}
					close(arrived)
					<-r.Context().Done()
				}, uplink.ClientOptions{})
				cause := errors.New("enough")
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				d := testkit.Value(c.Stream(ctx, "abc"))(t)
				<-arrived
				reads, writes := make(chan error, 1), make(chan error, 1)
				go func() { _, err := d.Read(make([]byte, 1)); reads <- err }()
				go func() { // until nobody takes it
					for {
						if _, err := d.Write(make([]byte, 1<<20)); err != nil {
							writes <- err
							return
						}
					}
				}()
				if closes {
					d.Close()
				} else {
					cancel(cause)
				}
				if err := <-reads; err == nil || errors.Is(err, io.EOF) {
					t.Errorf("read gives %v", err)
				}
				if err := <-writes; err == nil {
					t.Error("write gives nothing")
				}
				d.Close()
				d.Close()
			})
		}
	}
}

func TestManagedComesOnce(t *testing.T) {
	asked := 0
	c := serve(t, true, func(w http.ResponseWriter, r *http.Request) {
		asked++
		w.Header().Set("ETag", `"v2"`)
		switch {
		case r.URL.Path != wire.RouteManaged:
			w.WriteHeader(http.StatusNotFound)
		case asked == 4:
			_, _ = io.WriteString(w, `{"version":1,"Version":2}`)
		case r.Header.Get("If-None-Match") == `"v2"`:
			w.WriteHeader(http.StatusNotModified)
		default:
			_, _ = io.WriteString(w, `{"version":2,"entries":[{"kind":"volume","name":"data","spec":{"driver":"local"},"actor":"ada"}],"newer":1}`)
		}
	}, uplink.ClientOptions{})
	m, etag, same, err := c.Managed(t.Context(), "")
	if err != nil || same || etag != `"v2"` || m.Version != 2 || len(m.Entries) != 1 || string(m.Entries[0].Spec) != `{"driver":"local"}` {
		t.Fatalf("%+v, %q, %v, %v", m, etag, same, err)
	}
	if _, etag, same, err := c.Managed(t.Context(), etag); err != nil || !same || etag != `"v2"` {
		t.Fatalf("again: %q, %v, %v", etag, same, err)
	}
	if _, _, same, err := c.Managed(t.Context(), `"v1"`); err != nil || same {
		t.Fatalf("after a change: %v, %v", same, err)
	}
	if m, etag, _, err := c.Managed(t.Context(), ""); !errors.Is(err, wire.ErrDuplicate) || etag != "" || m.Version != 0 {
		t.Fatalf("a repeated key: %+v, %q, %v", m, etag, err)
	}
}

func TestDispatchAsksForNews(t *testing.T) {
	c := serve(t, true, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != wire.RouteDispatch || r.URL.RawQuery != "news=7&documents=3" {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		_, _ = io.WriteString(w, `{"news":8,"streams":[{"id":"s1","kind":"logs","resource":"workspace/web"}]}`)
	}, uplink.ClientOptions{})
	d, err := c.Dispatch(t.Context(), 7, 3)
	if err != nil || d == nil || d.News != 8 || len(d.Streams) != 1 || d.Grant != "" {
		t.Fatalf("%+v, %v", d, err)
	}
	if d, err := c.Dispatch(t.Context(), 8, 0); err != nil || d != nil {
		t.Fatalf("%+v, %v", d, err)
	}
}
