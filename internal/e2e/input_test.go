package e2e

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/testkit/testfleet"
	"github.com/steadyfleet/steady/internal/wire"
)

// caller is a host that speaks the agent API by hand.
type caller struct {
	t     testing.TB
	o     *origin
	name  string
	url   string
	pool  *x509.CertPool
	http  *http.Client
	event ed25519.PrivateKey
	cert  wire.Certificate
	chain identity.Chain
}

// call makes a request and returns the status, the body and the connection.
func (c *caller) call(method, path string, body []byte) (int, []byte, string) {
	c.t.Helper()
	var conn string
	ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{
		GotConn: func(i httptrace.GotConnInfo) { conn = i.Conn.LocalAddr().String() },
	})
	r := testkit.Value(http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(body)))(c.t)
	r.Header.Set(wire.Protocol, wire.Version)
	res := testkit.Value(c.http.Do(r))(c.t)
	defer res.Body.Close()
	return res.StatusCode, testkit.Value(io.ReadAll(res.Body))(c.t), conn
}

func (c *caller) post(path string, m any) (int, []byte) {
	c.t.Helper()
	status, body, _ := c.call(http.MethodPost, path, testkit.Value(json.Marshal(m))(c.t))
	return status, body
}

// connect uses new connections, with the host's certificate if there is one.
func (c *caller) connect(pair *tls.Certificate) {
	conf := testkit.Value(identity.AgentTLS(identity.AgentOptions{
		ServerCA: c.pool, ServerName: "127.0.0.1", Certificate: func() (*tls.Certificate, error) { return pair, nil },
	}))(c.t)
	transport := &http.Transport{TLSClientConfig: conf, ForceAttemptHTTP2: true}
	c.t.Cleanup(transport.CloseIdleConnections)
	c.http = &http.Client{Transport: transport}
}

// askToEnrol makes keys and the request to enrol with them.
func askToEnrol(t testing.TB, token []byte) (client, events ed25519.PrivateKey, m wire.Enrol) {
	client, events = testkit.Value(identity.NewKey())(t), testkit.Value(identity.NewKey())(t)
	return client, events, wire.Enrol{Token: token, CSR: testkit.Value(identity.NewCSR(client))(t), EventKey: events.Public().(ed25519.PublicKey)}
}

func newCaller(t testing.TB, o *origin, name string) (c *caller, token []byte) {
	t.Helper()
	c = &caller{t: t, o: o, name: name, url: o.http.URL, pool: o.serverCA.Pool()}
	return c, c.enrol(o.token(name))
}

// enrol trades the text of a token for an identity.
func (c *caller) enrol(text string) (token []byte) {
	c.t.Helper()
	t, name := c.t, c.name
	c.connect(nil)
	token = testkit.Value(identity.ParseTokenText(text))(t).Envelope
	client, events, m := askToEnrol(t, token)
	status, body := c.post(wire.RouteEnrol, m)
	if status != http.StatusOK {
		t.Fatalf("enrol: %d %s", status, body)
	}
	testkit.Must(t, json.Unmarshal(body, &c.cert))
	c.event, c.chain = events, identity.Genesis(fleetName, name, c.cert.Incarnation)
	c.connect(testkit.Value(identity.Pair(c.cert.Chain, client))(t))
	return token
}

// report sends one event of a size; the chain goes on only if it is acknowledged.
func (c *caller) report(size int) (int, wire.EventAck) {
	c.t.Helper()
	return c.tell((event.TrustRefused{}).EventType(), testkit.Value(json.Marshal(event.TrustRefused{Check: "Stale", Detail: strings.Repeat("x", size)}))(c.t))
}

// tell is report of one event as it is.
func (c *caller) tell(kind string, body []byte) (int, wire.EventAck) {
	c.t.Helper()
	return c.tellAt(testfleet.Now(), kind, body)
}

func (c *caller) tellAt(at clock.Instant, kind string, body []byte) (int, wire.EventAck) {
	c.t.Helper()
	e := wire.Event{Seq: c.chain.Seq + 1, At: at, Type: kind, Body: body}
	next := c.chain.Next(e.At, e.Type, e.Body)
	sig := testkit.Value(identity.SignHead(c.event, fleetName, c.name, c.cert.Incarnation, next))(c.t)
	status, raw := c.post(wire.RouteEvents, wire.EventBatch{Incarnation: c.cert.Incarnation, Events: []wire.Event{e},
		Head: wire.Head{Seq: next.Seq, Hash: next.Hash[:], Signature: sig}})
	var ack wire.EventAck
	if status == http.StatusOK {
		testkit.Must(c.t, json.Unmarshal(raw, &ack))
		c.chain = next
	}
	return status, ack
}

// held is the newest event of the host that the server has committed.
func (c *caller) held() (seq uint64) {
	c.t.Helper()
	testkit.Must(c.t, c.o.control.View(context.Background(), func(s *plan.State) { seq = s.Hosts[c.name].Seq }))
	return seq
}

// TestBadBodies sends bodies that no agent would: each is refused with a reason,
// and the connection serves the next request.
func TestBadBodies(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, newEstate(t), nil).start()
	c, token := newCaller(t, o, "web-1")
	good := testkit.Value(json.Marshal(wire.Heartbeat{Incarnation: c.cert.Incarnation, BootID: "b"}))(t)
	deep := strings.Repeat("[", wire.MaxDepth+2) + strings.Repeat("]", wire.MaxDepth+2)
	for _, tc := range []struct {
		name, body string
		status     int
	}{
		{"over the cap", `{"agentVersion":"` + strings.Repeat("a", wire.MaxHeartbeat) + `"}`, http.StatusRequestEntityTooLarge},
		{"too deep", deep, http.StatusBadRequest},
		{"a key twice", `{"uptime":1,"uptime":2}`, http.StatusBadRequest},
		{"a key twice in another case", `{"uptime":1,"Uptime":2}`, http.StatusBadRequest},
		{"not JSON", "<html>", http.StatusBadRequest},
		{"empty", "", http.StatusBadRequest},
		{"a wrong type", `{"uptime":"long"}`, http.StatusBadRequest},
		{"two values", string(good) + string(good), http.StatusBadRequest},
		{"not UTF-8", "{\"bootId\":\"\xff\"}", http.StatusBadRequest},
	} {
		for _, path := range []string{wire.RouteHeartbeat, wire.RouteClaim, wire.RouteEvents, wire.RouteRenew, wire.RouteEnrol} {
			if tc.name == "over the cap" && path == wire.RouteEvents || tc.name == "a wrong type" && path != wire.RouteHeartbeat || strings.HasPrefix(tc.name, "two") && path == wire.RouteEvents {
				continue // within its cap, or another message's field
			}
			_, _, before := c.call(http.MethodPost, wire.RouteHeartbeat, good)
			status, body, _ := c.call(http.MethodPost, path, []byte(tc.body))
			var p wire.Problem
			if status != tc.status || json.Unmarshal(body, &p) != nil || p.Detail == "" {
				t.Errorf("%s %s: %d %s; expected %d with a reason", path, tc.name, status, body, tc.status)
			}
			if status, _, after := c.call(http.MethodPost, wire.RouteHeartbeat, good); status != http.StatusOK || before != after {
				t.Errorf("%s %s: the next request got %d on connection %s, was %s", path, tc.name, status, after, before)
			}
		}
	}
	c.spent(token)
}

// spent uses a token again with other keys.
func (c *caller) spent(token []byte) {
	c.t.Helper()
	_, _, again := askToEnrol(c.t, token)
	if status, body := c.post(wire.RouteEnrol, again); status != http.StatusForbidden {
		c.t.Errorf("a spent token: %d %s, expected 403", status, body)
	}
	c.o.stop()
	refusals, at := eventsOf[event.EnrolRefused](c.t, c.o.ledger())
	if len(refusals) != 1 || at[0].Host() != c.name {
		c.t.Errorf("a spent token left %v in the log, expected one refusal of host %s", refusals, c.name)
	}
}

// TestFullDisk fills the server's disk: it answers 503, acknowledges nothing
// that is not durable, and goes on when there is room again.
func TestFullDisk(t *testing.T) {
	testkit.Needs(t, testkit.Tmpfs) // TestFullLog bounds the log without one
	dir := t.TempDir()
	testkit.Must(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=12m"))
	t.Cleanup(func() { testkit.Must(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	o := newOriginIn(t, newEstate(t), nil, dir).start()
	c, _ := newCaller(t, o, "web-1")
	ballast := filepath.Join(dir, "ballast")
	f := testkit.Value(os.Create(ballast))(t)
	chunk := make([]byte, 4096)
	var err error
	for {
		if _, err = f.Write(chunk); err != nil {
			break
		}
	}
	if !strings.Contains(err.Error(), syscall.ENOSPC.Error()) {
		t.Fatal(err)
	}
	testkit.Must(t, f.Close())
	c.fill()
	testkit.Must(t, os.Remove(ballast))
	testkit.Eventually(t, "the server commits again", func() bool { status, _ := c.report(100); return status == http.StatusOK })
	c.whole()
}

// TestFullLog is TestFullDisk with a log that may not grow, until the server is
// started with room.
func TestFullLog(t *testing.T) {
	t.Parallel()
	o := newOrigin(t, newEstate(t), nil)
	o.maxBytes = 512 << 10
	o.start()
	c, _ := newCaller(t, o, "web-1")
	c.fill()
	o.stop()
	o.maxBytes = 0
	o.start()
	testkit.Eventually(t, "the server commits again", func() bool { status, _ := c.report(100); return status == http.StatusOK })
	c.whole()
}

// fill reports until the server has no room. What it acknowledged until then, and
// nothing else, it holds.
func (c *caller) fill() {
	c.t.Helper()
	for i := range 10_000 {
		status, ack := c.report(20_000)
		if status == http.StatusOK {
			if ack.Acked != c.chain.Seq {
				c.t.Fatalf("event %d was acknowledged as %d", c.chain.Seq, ack.Acked)
			}
			continue
		}
		if status != http.StatusServiceUnavailable {
			c.t.Fatalf("after %d events a full disk is answered with %d, expected 503", i, status)
		}
		if held := c.held(); held != c.chain.Seq {
			c.t.Fatalf("the server has event %d and acknowledged %d", held, c.chain.Seq)
		}
		return
	}
	c.t.Fatal("the disk was never full")
}

// whole checks the log of the server: every acknowledged event is in it.
func (c *caller) whole() {
	c.t.Helper()
	c.o.stop()
	l := c.o.ledger()
	for seq := uint64(1); seq <= c.chain.Seq; seq++ {
		if _, ok := l.hosts[place(c.name, c.cert.Incarnation, seq)]; !ok {
			c.t.Errorf("event %d was acknowledged and is not in the log", seq)
		}
	}
	if n := uint64(len(l.hosts)); n != c.chain.Seq {
		c.t.Errorf("the log holds %d events of the host, %d were acknowledged", n, c.chain.Seq)
	}
	c.t.Logf("%d events acknowledged", c.chain.Seq)
}
