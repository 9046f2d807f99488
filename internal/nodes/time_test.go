package nodes_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/drift"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/internal/nodes"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/nodesdk"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fold is a server that keeps its log nowhere: it decides as the real one does.
type fold struct {
	mu      sync.Mutex
	state   *drift.State
	changed chan struct{}
	ends    []event.NodeDisconnected
}

func (f *fold) Fleet() string { return "acme" }
func (f *fold) Term() uint64  { return 1 }
func (f *fold) Nodes() int    { return 1 }

func (f *fold) RegisterNode(ctx context.Context, node string, key, token []byte) error {
	return f.ReportNode(ctx, drift.Registered{Node: node, Event: event.NodeRegistered{OnNode: event.OnNode{Node: node}, Key: key, Token: string(token)}})
}

func (f *fold) ConnectNode(ctx context.Context, in drift.Connected) (uint64, error) {
	err := f.ReportNode(ctx, in)
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state.Nodes[in.Node].Session, err
}

func (f *fold) ReportNode(_ context.Context, in drift.Input) error {
	return f.do(func(now clock.Instant) ([]event.OfNodes, error) { return f.state.Step(in, now) })
}

func (f *fold) do(decide func(clock.Instant) ([]event.OfNodes, error)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	events, err := decide(clock.FromTime(time.Now()))
	for _, ev := range events {
		if end, ok := ev.(event.NodeDisconnected); ok {
			f.ends = append(f.ends, end)
		}
	}
	close(f.changed)
	f.changed = make(chan struct{})
	return err
}

func (f *fold) NodeWork(node string) (drift.Work, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state.Work(node), f.changed
}

// why is why the node's connection ended, empty while it is open.
func (f *fold) why() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.ends) == 0 {
		return ""
	}
	return f.ends[len(f.ends)-1].Reason
}

// pipes is a listener whose connections are in memory.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { close(p.done); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// rig is a hub with one node, with real TLS and WebSockets, in the time of a test.
type rig struct {
	t    *testing.T
	fold *fold
	conn *websocket.Conn
}

// inTime runs a test with a node that has said hello.
func inTime(t *testing.T, test func(r *rig)) {
	synctest.Test(t, func(t *testing.T) {
		f := &fold{state: drift.New(), changed: make(chan struct{})}
		hub := nodes.New(f, nodes.Limits{}, nil, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
		p := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
		s := &http.Server{Handler: hub}
		var serving sync.WaitGroup
		serving.Go(func() {
			_ = s.Serve(tls.NewListener(p, &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{certificate(t)}}))
		})
		transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DialContext: func(context.Context, string, string) (net.Conn, error) {
			a, b := net.Pipe()
			p.conns <- b
			return a, nil
		}}
		conn, resp, err := websocket.Dial(t.Context(), "https://hub"+nodesdk.Path, &websocket.DialOptions{HTTPClient: &http.Client{Transport: transport}, Subprotocols: []string{nodesdk.Subprotocol}})
		testkit.Must(t, err)
		conn.SetReadLimit(-1)
		r := &rig{t, f, conn}
		r.hello(resp.TLS)
		test(r)
		_ = conn.CloseNow()
		hub.Close()
		_ = s.Close()
		serving.Wait()
		transport.CloseIdleConnections()
	})
}

func (r *rig) hello(state *tls.ConnectionState) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	testkit.Must(r.t, err)
	c := r.read().Challenge
	public := []byte(key.Public().(ed25519.PublicKey))
	exporter := testkit.Value(state.ExportKeyingMaterial(nodesdk.ExporterLabel, nil, 32))(r.t)
	r.write(nodesdk.Message{Type: nodesdk.TypeHello, Hello: &nodesdk.Hello{Version: nodesdk.Version, Node: "gw-1", Key: public, Token: []byte("t"), Instance: "i", Driver: "d", Program: "p",
		Signature: ed25519.Sign(key, nodesdk.SignedHello(*c, "gw-1", public, exporter)), Collections: []nodesdk.Collection{{Kind: nodeconfig.Flow}}}})
	if m := r.read(); m.Welcome == nil {
		r.t.Fatalf("it was answered %+v", m)
	}
}

func (r *rig) read() nodesdk.Message {
	r.t.Helper()
	_, raw, err := r.conn.Read(r.t.Context())
	testkit.Must(r.t, err)
	return testkit.Value(nodesdk.DecodeMessage(raw))(r.t)
}

func (r *rig) write(m nodesdk.Message) {
	r.t.Helper()
	testkit.Must(r.t, r.conn.Write(r.t.Context(), websocket.MessageText, testkit.Value(json.Marshal(m))(r.t)))
}

// snapshots answers requests for a while, and returns when the configuration was asked for.
func (r *rig) snapshots(while time.Duration, answer nodesdk.Snapshot) (at []time.Time) {
	ctx, cancel := context.WithTimeout(r.t.Context(), while)
	defer cancel()
	for {
		_, raw, err := r.conn.Read(ctx)
		if err != nil {
			return at
		}
		m := testkit.Value(nodesdk.DecodeMessage(raw))(r.t)
		if m.Request != nil && m.Request.Snapshot != nil {
			at = append(at, time.Now())
			r.write(nodesdk.Message{Type: nodesdk.TypeAnswer, ID: m.ID, Answer: &nodesdk.Answer{Snapshot: &answer}})
		}
	}
}

var whole = nodesdk.Snapshot{Complete: true, Instance: "i"}

// TestChangesAreRead: what a node reports is read at once, and a device that changes all the
// time is read once a second at first, and then once in ten.
func TestChangesAreRead(t *testing.T) {
	inTime(t, func(r *rig) {
		var device sync.WaitGroup
		defer device.Wait()
		device.Go(func() {
			for r.conn.Write(context.Background(), websocket.MessageText, []byte(`{"type":"changed","changed":{"generation":1}}`)) == nil {
				<-time.After(200 * time.Millisecond) // of the test: the device takes its time
			}
		})
		at := r.snapshots(2*time.Minute, whole)
		if n := len(at); n < 18 || n > 24 {
			t.Errorf("it was read %d times in two minutes", n)
		}
		for i := 2; i < len(at); i++ {
			if gap := at[i].Sub(at[i-1]); gap < time.Second {
				t.Errorf("read %d comes %s after the one before", i, gap)
			}
		}
	})
}

// TestQuietNodesAreReadAgain: a node that reports nothing is read about every ten minutes.
func TestQuietNodesAreReadAgain(t *testing.T) {
	inTime(t, func(r *rig) {
		at := r.snapshots(time.Hour, whole)
		if n := len(at); n < 6 || n > 8 {
			t.Errorf("it was read %d times in an hour", n)
		}
	})
}

// TestIncompleteConfigurations: what could not be read is tried again after a pause.
func TestIncompleteConfigurations(t *testing.T) {
	inTime(t, func(r *rig) {
		at := r.snapshots(time.Minute, nodesdk.Snapshot{Error: "no device", Instance: "i"})
		if len(at) < 5 {
			t.Errorf("it was read %d times in a minute", len(at))
		}
		for i := 1; i < len(at); i++ {
			if gap := at[i].Sub(at[i-1]); gap < 10*time.Second {
				t.Errorf("read %d comes %s after the one before", i, gap)
			}
		}
	})
}

// TestNodesThatDoNotAnswer are disconnected: who reads nothing for want of a pong, who reads
// and answers nothing at the end of its time.
func TestNodesThatDoNotAnswer(t *testing.T) {
	inTime(t, func(r *rig) {
		<-time.After(2 * time.Minute)
		if why := r.fold.why(); !strings.Contains(why, "ping") && !strings.Contains(why, "read a message") {
			t.Errorf("a node that reads nothing: %q", why)
		}
	})
	inTime(t, func(r *rig) {
		ctx, cancel := context.WithTimeout(r.t.Context(), 5*time.Minute)
		defer cancel()
		for {
			if _, _, err := r.conn.Read(ctx); err != nil {
				break
			}
		}
		synctest.Wait()
		if why := r.fold.why(); !strings.Contains(why, "did not answer within 30s") {
			t.Errorf("a node that answers nothing: %q", why)
		}
	})
}

func certificate(t *testing.T) tls.Certificate {
	key := testkit.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now(), NotAfter: time.Now().Add(24 * time.Hour)}
	der := testkit.Value(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key))(t)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
