package api_test

import (
	"context"
	"encoding/gob"
	"encoding/pem"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/rpc"
	"path/filepath"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/control"
	"github.com/steadyfleet/steady/internal/core/drift"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/nodes"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/nodesdk"
)

// decider is what a server offers to a hub in another process, over a stream of bytes.
type decider struct{ c *control.Control }

type (
	Registration struct {
		Node       string
		Key, Token []byte
	}
	Report   struct{ Input drift.Input }
	Decision struct {
		Session uint64
		Refused *drift.Refusal
		Failed  string
	}
)

func init() {
	for _, in := range []drift.Input{drift.Connected{}, drift.Disconnected{}, drift.Snapshot{}, drift.Answer{}, drift.Effect{}, drift.NextKey{}, drift.Refused{}} {
		gob.Register(in)
	}
}

func (d *Decision) set(err error) error {
	if !errors.As(err, &d.Refused) && err != nil {
		d.Failed = err.Error()
	}
	return nil
}

func (d *Decision) err() error {
	switch {
	case d.Refused != nil:
		return d.Refused
	case d.Failed != "":
		return errors.New(d.Failed)
	}
	return nil
}

func (d *decider) Register(in Registration, out *Decision) error {
	return out.set(d.c.RegisterNode(context.Background(), in.Node, in.Key, in.Token))
}

func (d *decider) Connect(in drift.Connected, out *Decision) (err error) {
	out.Session, err = d.c.ConnectNode(context.Background(), in)
	return out.set(err)
}

func (d *decider) Report(in Report, out *Decision) error {
	return out.set(d.c.ReportNode(context.Background(), in.Input))
}

func (d *decider) Records(after uint64, out *[]event.Record) (err error) {
	*out, err = d.c.Records(context.Background(), after, 1000)
	return err
}

func (d *decider) Term(_ int, out *uint64) error { *out = d.c.Term(); return nil }

// remote is a nodes.Server in another process than the one that decides: it asks that one, and
// folds the log for itself.
type remote struct {
	t    testing.TB
	call *rpc.Client

	mu      sync.Mutex
	state   *drift.State
	after   uint64
	changed chan struct{}
}

func (r *remote) Fleet() string { return testFleet }

func (r *remote) Term() (term uint64) {
	if err := r.call.Call("decider.Term", 0, &term); err != nil {
		r.t.Error(err)
	}
	return term
}

func (r *remote) Nodes() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.state.Nodes)
}

func (r *remote) ask(method string, in any) (uint64, error) {
	var out Decision
	if err := r.call.Call("decider."+method, in, &out); err != nil {
		return 0, err
	}
	return out.Session, out.err()
}

func (r *remote) RegisterNode(_ context.Context, node string, key, token []byte) error {
	_, err := r.ask("Register", Registration{node, key, token})
	return err
}

func (r *remote) ConnectNode(_ context.Context, in drift.Connected) (uint64, error) {
	return r.ask("Connect", in)
}

func (r *remote) ReportNode(_ context.Context, in drift.Input) error {
	_, err := r.ask("Report", Report{in})
	return err
}

func (r *remote) NodeWork(node string) (drift.Work, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.Work(node), r.changed
}

// follow folds the log as it grows.
func (r *remote) follow(ctx context.Context, op *operator.Client) {
	// Its error is the end of ctx.
	_ = op.Follow(ctx, operator.EventQuery{}, func(operator.Event) error {
		var records []event.Record
		r.mu.Lock()
		defer r.mu.Unlock()
		if err := r.call.Call("decider.Records", r.after, &records); err != nil {
			return err
		}
		for i := range records {
			r.after = records[i].Seq
			if event.IsOfNodes(records[i].Type) {
				if err := r.state.Apply(records[i].Entry); err != nil {
					r.t.Error(err)
				}
			}
		}
		close(r.changed)
		r.changed = make(chan struct{})
		return nil
	})
}

// TestHubElsewhere: a hub that shares nothing with the server but a stream of bytes and its own
// fold of the log serves nodes as well, and gives way to a younger connection elsewhere.
func TestHubElsewhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	socket := testkit.Value(net.Listen("unix", filepath.Join(t.TempDir(), "s")))(t)
	server := rpc.NewServer()
	testkit.Must(t, server.RegisterName("decider", &decider{w.server.Control()}))
	var serving sync.WaitGroup
	serving.Go(func() {
		conn, err := socket.Accept()
		if err == nil {
			server.ServeConn(conn)
		}
	})
	conn := testkit.Value(net.Dial("unix", socket.Addr().String()))(t)
	r := &remote{t: t, call: rpc.NewClient(conn), state: drift.New(), changed: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	serving.Go(func() { r.follow(ctx, w.op) })
	hub := nodes.New(r, nodes.Limits{}, nil, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	mux := http.NewServeMux()
	mux.Handle(nodesdk.Path, hub)
	edge := httptest.NewTLSServer(mux)
	defer func() {
		hub.Close()
		edge.Close()
		cancel()
		_ = r.call.Close()
		_ = socket.Close()
		serving.Wait()
	}()

	n := w.wireNode("gw-1")
	n.at, n.ca = edge.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: edge.Certificate().Raw})
	n.join()
	n.compared()
	w.set("gw-1", "news", `{"input": "a"}`)
	n.answer(func(m nodesdk.Message) bool {
		if m.Request.Apply != nil {
			n.reply(m)
		}
		return m.Request.Apply != nil
	})
	w.untilStatus("news", drift.Pushed)
	if done, started := w.pushesOf("news"); started != 1 || len(done) != 1 {
		t.Errorf("%d operations, ended %+v", started, done)
	}
	stranger := w.wireNode("gw-1")
	stranger.token, stranger.at, stranger.ca = nil, n.at, n.ca
	if m := stranger.dial(); m.Refused == nil || m.Refused.Code != nodesdk.CodeForbidden {
		t.Errorf("a strange key: %+v", m)
	}

	younger := *n
	younger.at = ""
	younger.join()
	younger.compared()
	if got := n.answer(func(nodesdk.Message) bool { return false }); got == nil || got.Code != nodesdk.CodeReplaced {
		t.Errorf("the older connection, at the other hub, was told %+v", got)
	}
	w.untilNode("gw-1", "it is online", func(x *drift.Node) bool { return x.Online && x.Session == 2 })
}
