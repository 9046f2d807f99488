package bench

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/trust"
	"github.com/steadyfleet/steady/nodesdk"
)

// Storm is changes as Plain ones, while all nodes lose their connections at once.
type Storm struct {
	Changes
	Nodes int `json:"nodes"`
	// Ratio is how much longer the median change takes than a Plain one.
	Ratio float64 `json:"secondsRatio"`
	// Registered is how long all nodes took to register and be compared, in seconds; Reconciled
	// how long until all were compared again, the most of all changes.
	Registered float64 `json:"registeredSeconds"`
	Reconciled float64 `json:"reconciledSeconds"`
	// NodeKiB is what a node takes of the server's memory at rest.
	NodeKiB float64 `json:"nodeKiB"`
}

// storms are the connections of the nodes of a run: real clients, each with a device in memory.
type storms struct {
	mu    sync.Mutex
	conns map[net.Conn]bool
}

// dial opens a connection that cut ends.
func (s *storms) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns[c] = true
	return &line{c, s}, nil
}

// line is a connection that is forgotten when it is closed.
type line struct {
	net.Conn
	s *storms
}

func (c *line) Close() error {
	c.s.mu.Lock()
	delete(c.s.conns, c.Conn)
	c.s.mu.Unlock()
	return c.Conn.Close()
}

// cut ends all connections at once.
func (s *storms) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns { // order-free: all of them
		_ = c.Close() // it may be closed already
	}
}

// device is a node's configuration of one object.
type device struct{}

// Snapshot implements nodesdk.Driver.
func (device) Snapshot(context.Context) (nodesdk.State, error) {
	return nodesdk.State{Complete: true, Items: []nodesdk.Item{{Kind: nodeconfig.Flow, ID: "a", Config: json.RawMessage(`{"input":"udp://239.0.0.1:5000"}`)}}}, nil
}

// Apply implements nodesdk.Driver: nothing is pushed to these nodes.
func (device) Apply(context.Context, nodesdk.Op) error { return errors.New("no benchmark asks for it") }

// Normalize implements nodesdk.Driver.
func (device) Normalize(it nodesdk.Item) nodesdk.Item { return it }

// nodesConfig is what the process of the nodes is told first. Each further line has it cut all
// of their connections.
type nodesConfig struct {
	Server, Dir string
	CA          []byte
	Tokens      map[string][]byte // by node
}

// nodes has every node register, and waits until all were compared.
func (b *bench) nodes(enrol trust.Signer) error {
	if b.o.Nodes == 0 {
		return nil
	}
	before, err := memoryOf(b.server.PID())
	if err != nil {
		return err
	}
	cfg := nodesConfig{Server: b.server.url, Dir: filepath.Join(b.dir, "nodes"), CA: b.server.ca, Tokens: map[string][]byte{}}
	for i := range b.o.Nodes {
		name, id, issued := fmt.Sprintf("node-%05d", i), make([]byte, 16), now()
		_, _ = rand.Read(id) // never fails
		cfg.Tokens[name], err = identity.SignNodeToken(identity.NodeToken{Document: fleet.Document{Fleet: fleetName, Epoch: 1, IssuedAt: issued},
			ID: hex.EncodeToString(id), Node: name, Expires: issued.Add(identity.MaxTokenLife)}, enrol)
		if err != nil {
			return fmt.Errorf("token for %s: %w", name, err)
		}
	}
	b.report.Storm = &Storm{Nodes: b.o.Nodes}
	b.progress("registering %d nodes at once", b.o.Nodes)
	began := time.Now()
	h, err := b.help("nodes", cfg)
	if err != nil {
		return err
	}
	b.cut = func() error { return h.tell(struct{}{}) }
	if b.report.Storm.Registered, err = b.reconciled(began); err != nil {
		return err
	}
	if err := b.pause(quiesce); err != nil {
		return err
	}
	after, err := memoryOf(b.server.PID())
	b.report.Storm.NodeKiB = float64(after.rss-before.rss) / 1024 / float64(b.o.Nodes)
	b.progress("registered and compared in %.2f s, %.1f KiB each at rest", b.report.Storm.Registered, b.report.Storm.NodeKiB)
	return err
}

// RunNodes is the process of the nodes of a benchmark: it reads what it is told, and goes on until
// ctx ends.
func RunNodes(ctx context.Context, in io.Reader) error {
	lines := bufio.NewReader(in)
	raw, err := lines.ReadBytes('\n')
	if err != nil {
		return err
	}
	var cfg nodesConfig
	if err := json.Unmarshal(raw, &cfg); err != nil {
		return err
	}
	if err := files(2 * len(cfg.Tokens)); err != nil { // a connection, and the lock of a state
		return err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(cfg.CA)
	s := &storms{conns: map[net.Conn]bool{}}
	var group errgroup.Group
	for name, token := range cfg.Tokens { // order-free: all at once
		node := nodesdk.Config{Driver: device{}, DriverName: "bench", Program: "bench", Name: name, Collections: []nodesdk.Collection{{Kind: nodeconfig.Flow}},
			StateDir: filepath.Join(cfg.Dir, name), Server: cfg.Server, RootCAs: pool, Token: token, Poll: time.Hour, Log: slog.New(slog.DiscardHandler), Dial: s.dial}
		group.Go(func() error { return nodesdk.Run(ctx, node) })
	}
	go func() { // it ends with the process
		for {
			if _, err := lines.ReadString('\n'); err != nil {
				return
			}
			s.cut()
		}
	}()
	return group.Wait()
}

// nodesPoll is how often the server is asked whether all nodes were compared.
const nodesPoll = 250 * time.Millisecond

// reconciled waits until all nodes were compared since an instant, and returns how long that
// took, in seconds.
func (b *bench) reconciled(since time.Time) (float64, error) {
	limit := time.Now().Add(b.patience() + time.Duration(b.o.Nodes)*50*time.Millisecond)
	for {
		all, err := b.server.op.Nodes(b.ctx)
		if err != nil {
			return 0, err
		}
		last, compared := int64(0), 0
		for _, n := range all {
			if at := int64(n.ComparedAt); at >= since.UnixMilli() {
				compared++
				last = max(last, at)
			}
		}
		if compared == b.o.Nodes {
			return time.UnixMilli(last).Sub(since).Seconds(), nil
		}
		if time.Now().After(limit) {
			return 0, fmt.Errorf("%d of %d nodes were compared since %s", compared, b.o.Nodes, since)
		}
		if err := b.pause(nodesPoll); err != nil {
			return 0, err
		}
	}
}

// storm measures one more change while all nodes come back at once.
func (b *bench) storm() error {
	if b.o.Nodes == 0 {
		return nil
	}
	c, err := b.next(false)
	if err != nil {
		return err
	}
	type back struct {
		seconds float64
		err     error
	}
	all, began := make(chan back, 1), time.Now()
	if err := b.cut(); err != nil {
		return err
	}
	go func() {
		seconds, err := b.reconciled(began)
		all <- back{seconds, err}
	}()
	m, err := b.measure(c)
	those := <-all
	if err := errors.Join(err, those.err); err != nil {
		return err
	}
	s := b.report.Storm
	s.Rounds, s.Reconciled = append(s.Rounds, m), max(s.Reconciled, those.seconds)
	b.progress("%d nodes were reconciled after %.2f s", b.o.Nodes, those.seconds)
	return nil
}

func (r *Report) storm(w io.Writer) {
	if s := r.Storm; s != nil {
		fmt.Fprintf(w, "\nA change during which %d nodes reconnect at once takes %.2f s, %.2f times a plain one; all were reconciled after %.2f s (at first, with registration, %.2f s), and a node takes %.1f KiB of the server at rest.\n",
			s.Nodes, s.Seconds, s.Ratio, s.Reconciled, s.Registered, s.NodeKiB)
	}
}
