// Package nodes is the server's end of the connections of nodes: it proves who they are, sends
// one request at a time of what the log decided, and hands over what they answer. It decides
// nothing itself, and keeps nothing that a crash could lose: whoever decides may be another
// process, see Server.
package nodes

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/steadyfleet/steady/internal/core/access"
	"github.com/steadyfleet/steady/internal/core/drift"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/wire"
	"github.com/steadyfleet/steady/nodesdk"
)

// Server is what the hub needs of the server that decides, which may be behind: what NodeWork
// says is then of an earlier record than what was reported. Refusals are *drift.Refusal; after
// any other error the same may be tried again.
type Server interface {
	// Fleet is the name of the fleet, Term what the server leads under.
	Fleet() string
	Term() uint64
	// Nodes is how many nodes there are, connected or not.
	Nodes() int
	// RegisterNode lets a node have a key by a token, or does nothing where it has it already.
	RegisterNode(ctx context.Context, node string, key, token []byte) error
	// ConnectNode begins a session, ReportNode returns when what was reported is durable.
	ConnectNode(ctx context.Context, in drift.Connected) (session uint64, err error)
	ReportNode(ctx context.Context, in drift.Input) error
	// NodeWork is what a node is asked next, with a channel that is closed when that changes.
	NodeWork(node string) (drift.Work, <-chan struct{})
}

// Limits bound what nodes cost. Zero takes the default.
type Limits struct {
	// Connections that are open at a time, 20,000, and Handshakes, those that have not said hello: 512, half of
	// them of one address, or of one network of IPv6.
	Connections, Handshakes int
	// Pace is how many that said hello may begin in a second, 100, after a few at once: when all nodes come back,
	// hosts and operators are served meanwhile. Addresses take turns.
	Pace int
	// Reconnect is how many come back in a second after all connections ended at once, 50, and up to
	// Pace where that takes longer than ReconnectWithin, 45 s: those that come later than a minute
	// after a start of the server are shown as offline. As many are logged as disconnected in a
	// second, after a few at once; one that is back by then is not.
	Reconnect       int
	ReconnectWithin time.Duration
	// Handshake is how long a hello may take, and then the server: 10 s each. Full is for a hello while
	// less than half of the places are free, 2 s.
	Handshake, Full time.Duration
	// Push, Snapshot and Validate are how long a node may take to answer: 60, 30 and 30 s.
	Push, Snapshot, Validate time.Duration
	// Write is how long a message may take to be read, Frame one to arrive: 30 s and 20 s.
	Write, Frame time.Duration
	// Ping is how often a connection is tried, 20 s; it is over when no pong comes in that time.
	Ping time.Duration
	// Reread is how often a configuration is read without a reason, 10 min.
	Reread time.Duration
	// SmallFrame is what a message may have without a request, 128 KiB; LargeFrames is how
	// many larger ones there are at a time, 8.
	SmallFrame, LargeFrames int
	// Submissions is how many configurations are compared at a time, 16.
	Submissions int
}

// WithDefaults fills in what is zero.
func (l Limits) WithDefaults() Limits {
	l.Connections, l.Handshakes = cmp.Or(l.Connections, 20_000), cmp.Or(l.Handshakes, 512)
	l.Pace, l.Reconnect, l.ReconnectWithin = cmp.Or(l.Pace, 100), cmp.Or(l.Reconnect, 50), cmp.Or(l.ReconnectWithin, 45*time.Second)
	l.Handshake, l.Full = cmp.Or(l.Handshake, 10*time.Second), cmp.Or(l.Full, 2*time.Second)
	l.Push, l.Snapshot, l.Validate = cmp.Or(l.Push, time.Minute), cmp.Or(l.Snapshot, 30*time.Second), cmp.Or(l.Validate, 30*time.Second)
	l.Write, l.Frame, l.Ping = cmp.Or(l.Write, 30*time.Second), cmp.Or(l.Frame, 20*time.Second), cmp.Or(l.Ping, 20*time.Second)
	l.Reread = cmp.Or(l.Reread, 10*time.Minute)
	l.SmallFrame, l.LargeFrames, l.Submissions = cmp.Or(l.SmallFrame, 128<<10), cmp.Or(l.LargeFrames, 8), cmp.Or(l.Submissions, 16)
	return l
}

// A connection that said hello waits so long for its turn to begin, or is asked to come again within comeWithin: whoever
// floods the server must not send nodes away for longer. One that finds no place comes again within soonWithin.
const turnWithin, comeWithin, soonWithin = 5 * time.Second, time.Minute, 3 * time.Second

// Hub serves nodesdk.Path. Close ends it.
type Hub struct {
	server  Server
	log     *slog.Logger
	limits  Limits
	now     func() time.Time
	metrics *metrics

	ctx  context.Context // ends with Close
	stop context.CancelCauseFunc
	open sync.WaitGroup

	large, submissions chan struct{}
	room               *room
	begins             *turns
	retries, ends      pace // of connections

	mu          sync.Mutex
	closed      bool
	connections int
	links       map[string]*link
	rates       map[string]*rates
	ended       map[string]drift.Disconnected // by node: the last session, until its end is reported
	refusals    server.Rarely                 // that are in the server's log
}

// New returns a hub. Now is the clock of the server; nil is time.Now.
func New(s Server, limits Limits, now func() time.Time, log *slog.Logger, reg prometheus.Registerer) *Hub {
	limits = limits.WithDefaults()
	h := &Hub{server: s, log: log, limits: limits, now: now, metrics: newMetrics(reg),
		room: newRoom(limits.Handshakes), begins: newTurns(limits.Pace, turnWithin), large: make(chan struct{}, limits.LargeFrames), submissions: make(chan struct{}, limits.Submissions),
		links: map[string]*link{}, rates: map[string]*rates{}, ended: map[string]drift.Disconnected{}}
	if h.now == nil {
		h.now = time.Now
	}
	h.ctx, h.stop = context.WithCancelCause(context.Background())
	return h
}

// Close ends all connections and waits until they are over.
func (h *Hub) Close() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.stop(errStopping)
	h.open.Wait()
}

// enter counts a connection; leave follows it.
func (h *Hub) enter() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || h.connections >= h.limits.Connections {
		return false
	}
	h.connections++
	h.open.Add(1)
	return true
}

func (h *Hub) leave() {
	h.mu.Lock()
	h.connections--
	h.mu.Unlock()
	h.open.Done()
}

// ServeHTTP implements http.Handler.
func (h *Hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.TLS == nil {
		http.Error(w, "nodes connect over TLS 1.3", http.StatusUpgradeRequired)
		return
	}
	exporter, err := r.TLS.ExportKeyingMaterial(nodesdk.ExporterLabel, nil, 32)
	if err != nil {
		http.Error(w, "nodes connect over TLS 1.3", http.StatusUpgradeRequired)
		return
	}
	if !h.enter() {
		h.busy(w, "too many nodes are connected")
		return
	}
	from := access.Network(r.RemoteAddr)
	if h.begins.full(from, h.room.of(from)) {
		h.leave()
		h.busy(w, "too many nodes connect at a time")
		return
	}
	l, err := h.accept(w, r, from, exporter)
	if err != nil {
		h.leave()
		return
	}
	// The goroutine and the request of the server end here: their memory is worth more than
	// all that a connection needs at rest.
	go func() {
		defer h.leave()
		l.run()
	}()
}

// errCrowded has another connection take the place of one that did not say hello.
var errCrowded = errors.New("others connected meanwhile, and it had not said hello")

// accept answers a request, and returns the connection once its node was welcomed.
func (h *Hub) accept(w http.ResponseWriter, r *http.Request, from netip.Addr, exporter []byte) (l *link, err error) {
	l = newLink(h)
	v, crowded, ok := h.room.enter(from, func() { l.cancel(errCrowded) })
	if !ok {
		l.cancel(errCrowded)
		h.comeAfter(w, rand.N(soonWithin), "too many connections of this address say no hello") //nolint:gosec // no secret
		return nil, errCrowded
	}
	defer h.room.exit(v)
	// A node is no page of a browser: one that says so is refused by Accept.
	l.conn, err = websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{nodesdk.Subprotocol}, CompressionMode: websocket.CompressionDisabled,
		OnPingReceived: func(context.Context, []byte) bool { return l.control() }, OnPongReceived: func(context.Context, []byte) { l.control() }})
	if err != nil {
		l.cancel(err)
		return nil, err // it was answered
	}
	within := h.limits.Handshake
	if crowded {
		within = h.limits.Full
	}
	in, token, err := h.introduce(l, exporter, within)
	if err == nil {
		h.room.said(v)
		err = h.welcome(l, from, in, token)
	}
	if err != nil {
		l.refuse(err)
		l.cancel(err)
		_ = l.conn.CloseNow()
		return nil, err
	}
	return l, nil
}

// busy asks a node to come later.
func (h *Hub) busy(w http.ResponseWriter, why string) {
	h.comeAfter(w, h.retries.within(h.limits.Pace, comeWithin), why)
}

func (h *Hub) comeAfter(w http.ResponseWriter, wait time.Duration, why string) {
	h.metrics.refused.WithLabelValues(nodesdk.CodeUnavailable).Inc()
	w.Header().Set("Retry-After", strconv.Itoa(2+int(wait/time.Second)))
	http.Error(w, why, http.StatusServiceUnavailable)
}

// link finds the connection of a node.
func (h *Hub) link(node string) *link {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.links[node]
}

// add has a connection be that of its node, and ends an older one. It reports whether there is
// none that is younger.
func (h *Hub) add(l *link) bool {
	h.mu.Lock()
	old := h.links[l.node]
	younger := old != nil && old.session > l.session
	if !younger {
		h.links[l.node] = l
	}
	h.mu.Unlock()
	if old != nil && !younger {
		old.cancel(errReplaced)
	}
	return !younger
}

// drop forgets a connection unless another one took over.
func (h *Hub) drop(l *link) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.links[l.node] == l {
		delete(h.links, l.node)
	}
}

// disconnected waits for the turn of a node's end to be reported, and returns the end of its last session by
// then; false where there is nothing to report: the node is back, or somebody waits for it already.
func (h *Hub) disconnected(in drift.Disconnected) (drift.Disconnected, bool) {
	h.mu.Lock()
	before, waits := h.ended[in.Node]
	if !waits || before.Session < in.Session {
		h.ended[in.Node] = in
	}
	h.mu.Unlock()
	if waits {
		return in, false
	}
	wait, _ := h.ends.turn(h.limits.reconnects(h.server.Nodes()), math.MaxInt64)
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
	case <-h.ctx.Done():
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	in = h.ended[in.Node]
	delete(h.ended, in.Node)
	now := h.links[in.Node]
	return in, h.ctx.Err() == nil && (now == nil || now.session <= in.Session)
}

// Validate asks a node whether its device would accept an object; nothing is changed. Refusals
// are of kind wire.ErrUnavailable.
func (h *Hub) Validate(ctx context.Context, node string, v nodesdk.Validate) (nodesdk.Validated, error) {
	l := h.link(node)
	if l == nil {
		return nodesdk.Validated{}, wire.Refuse(wire.ErrUnavailable, "node %s is not connected", node)
	}
	q := &question{Validate: v, answer: make(chan nodesdk.Validated, 1)}
	gone := wire.Refuse(wire.ErrUnavailable, "the connection of node %s ended before it answered", node)
	select {
	case l.questions <- q:
	case <-l.ctx.Done():
		return nodesdk.Validated{}, gone
	case <-ctx.Done():
		return nodesdk.Validated{}, ctx.Err()
	}
	select {
	case a := <-q.answer:
		return a, nil
	case <-l.ctx.Done():
		return nodesdk.Validated{}, gone
	case <-ctx.Done():
		return nodesdk.Validated{}, ctx.Err()
	}
}

// Reasons for which a connection ends.
var (
	errStopping = errors.New("the server stops")
	errReplaced = errors.New("another connection of the node took over")
	errEnded    = errors.New("the server ended the session")
	errTooMuch  = errors.New("it sent more messages than a node may")
	errSilent   = errors.New("it did not answer a ping")
	errLost     = errors.New("the connection was lost")
)
