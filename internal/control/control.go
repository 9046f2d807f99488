// Package control is the server's runtime. One goroutine, the reducer, owns the
// state and is the only one that appends to the log: it takes inputs from
// bounded queues, halting ones first, folds and plans a batch of them, appends
// the batch at once, and only then answers whoever waits and carries out what
// was decided. Everything that needs no state is done before, by the callers'
// goroutines.
//
// Here live the reducer, what it publishes and carries out, and the entry points
// of the edges, which word their refusals; enrolment, renewal and batches of events are
// checked here before the reducer is asked. Releases, what is trusted and the content of
// documents live in the packages below, which take and give data and know nothing of the
// reducer.
package control

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/steadyfleet/steady/internal/control/documents"
	"github.com/steadyfleet/steady/internal/control/fetch"
	"github.com/steadyfleet/steady/internal/control/sessions"
	"github.com/steadyfleet/steady/internal/control/streams"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/warning"

	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/disk"
	"github.com/steadyfleet/steady/internal/store"
	"github.com/steadyfleet/steady/internal/trust"
	"github.com/steadyfleet/steady/internal/wire"
	"github.com/steadyfleet/steady/reconcile"
)

// Control is a server without its edges. Its methods may be called from any
// goroutine; those that change something wait for Run.
type Control struct {
	cfg       Config
	library   *documents.Library
	prover    *documents.Prover
	hosts     directory
	nodes     registry
	public    atomic.Pointer[documents.View]
	operators atomic.Pointer[map[[sha256.Size]byte]*bearer] // by the hash of their secret
	metrics   *metrics
	started   time.Time
	serving   serving
	last      atomic.Int64 // newest instant that now returned
	end       atomic.Pointer[store.Head]
	safeBlock atomic.Pointer[gate.Block] // why nothing but ways back is granted
	full      atomic.Bool                // the last append found no room
	busySince atomic.Int64               // when the reducer began its round, 0 between two
	ready     readyCache
	counts    atomic.Pointer[fleetCounts]
	ending    atomic.Pointer[[]warning.Item] // what ends, as last looked at
	pruned    atomic.Uint64                  // the record behind which the log begins
	facts     time.Duration                  // since started, from when on hosts are asked for their facts
	streams   *streams.Broker
	audit     *auditor
	past      *past
	marks     marks
	signed    atomic.Pointer[signed] // operators' overrides, for hosts
	sources   *fetch.Watch
	sessions  *sessions.Runner
	logins    logins
	hooks     struct { // requests to look at the sources now
		sync.Mutex
		server.RateBucket
	}

	sessionEvents struct { // that were refused, and the key of sessions' tokens
		sync.Mutex
		server.Rarely
		key []byte
	}

	operations, urgent, normal chan *input
	queries                    chan *query
	stopping                   context.Context // ends when Run begins to end
	stop                       context.CancelCauseFunc
	stopped                    chan struct{} // closed when Run has ended
	savers                     sync.WaitGroup

	pruning   sync.Mutex
	pushing   sync.Mutex // one release at a time
	pushes    uint64     // that began; of pushing
	receiving receptions
	refused   once // refusals that were logged
	registrar registrar

	// What follows is the reducer's alone once Run has begun.
	core          *server.Server
	state         *server.State    // of core
	trust         *documents.Trust // a fold of the state
	head          store.Head
	recordTerm    uint64 // of the last record
	uncounted     bool   // the fleet changed since it was counted
	countedAt     time.Time
	labs          sessionCounts
	sinceSnapshot uint64
}

// Open takes the lease, and folds the log into the state from the newest
// snapshot on. A log with an event of an unknown type is an error that names
// it. Run must follow.
func Open(ctx context.Context, cfg Config) (*Control, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := disk.Private(cfg.DataDir); err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	c := &Control{
		cfg: cfg, library: documents.New(cfg.Store),
		operations: make(chan *input, operatorQueue), urgent: make(chan *input, urgentQueue), normal: make(chan *input, normalQueue), queries: make(chan *query, queryQueue),
		stopped: make(chan struct{}), started: time.Now(), streams: streams.New(cfg.Streams),
	}
	c.stopping, c.stop = context.WithCancelCause(context.Background())
	c.prover = documents.NewProver(cfg.Fleet, c.library, cfg.Store, cfg.Log)
	c.sources = fetch.NewWatch(fetch.WatchConfig{Sources: cfg.Sources, Every: cfg.SourceEvery.Std(), Gap: cfg.SourceGap.Std(), DataDir: cfg.DataDir, Prefix: PushPrefix, Log: cfg.Log})
	c.metrics = newMetrics(c)
	if c.sessions, err = sessions.New(sessionServer{c}, func() time.Time { return c.now().Time() }, cfg.Log, cfg.SessionRetry, reconcile.WithMetrics(newLoopMetrics(cfg.Metrics))); err != nil {
		return nil, err
	}
	head, err := cfg.Store.Acquire(ctx, cfg.Holder, c.now())
	if err != nil {
		return nil, fmt.Errorf("acquire the lease of the log: %w", err)
	}
	c.setHead(head)
	if err := dropUnfinished(cfg.DataDir); err != nil { // only who leads may
		return nil, fmt.Errorf("data folder: %w", err)
	}
	if err := c.load(ctx); err != nil {
		return nil, err
	}
	c.facts = c.state.FactsAfter()
	began := ""
	if c.head.Seq > 0 {
		began = "it began to lead"
	}
	c.serving.away(time.Now(), began)
	c.core = server.Begin(cfg.Config, c.state, head.Term, strings.ToLower(rand.Text()[:server.MaxNonce]), &c.hosts, c.time(), c.head.Seq > 0, c.SetBack())
	if b := c.SetBack(); b != nil {
		c.cfg.Log.Error("the log was set back; everything is refused until the owner of the data folder ends this", "reason", b.Reason, "logged", b.Logged, "acknowledged", b.Acknowledged, "next", b.Next())
	} else if err := c.begin(ctx); err != nil {
		return nil, err
	}
	c.nodes.online = c.state.NodeSessions() // their connections ended with the process before
	c.audit = newAuditor(ctx, c)
	c.past = newPast(cfg)
	c.publishAll()
	c.publishCounts(true)
	return c, nil
}

// begin records the first root.
func (c *Control) begin(ctx context.Context) error {
	if c.state.Plan.Root.Root != "" {
		return nil
	}
	if len(c.cfg.Root) == 0 {
		return errors.New("the server has no root of trust yet; give it the fleet's 1.root.json at its first start")
	}
	s, err := trust.Begin(c.cfg.Fleet, c.cfg.Root, "")
	if err != nil {
		return fmt.Errorf("the fleet's root: %w", err)
	}
	v, err := trust.NewVerifier(c.cfg.Fleet, s)
	if err != nil {
		return fmt.Errorf("the fleet's root: %w", err)
	}
	d, err := c.cfg.Store.PutBlob(ctx, c.cfg.Root)
	if err != nil {
		return err
	}
	t := server.Turn{Time: c.time()}
	if err := c.core.Step(&t, recorded("", event.RootTrusted{Version: v.RootVersion(), Epoch: v.Epoch(), Root: d})); err != nil {
		return err
	}
	return c.append(t.Events)
}

// recorded is the input that records events as they are.
func recorded(host string, events ...event.Event) server.Record {
	return server.Record{Host: host, Decide: func(*server.State, clock.Instant) ([]event.Event, error) { return events, nil }}
}

// load folds the log into a new state.
func (c *Control) load(ctx context.Context) error {
	head, err := c.cfg.Store.Head(ctx)
	if err != nil {
		return fmt.Errorf("read the end of the log: %w", err)
	}
	if head.Term != c.head.Term {
		return fmt.Errorf("read the end of the log: %w", store.ErrFenced)
	}
	from, err := c.fromSnapshot(ctx)
	if err != nil {
		return err
	}
	end, err := store.Replay(ctx, c.cfg.Store, from, func(records []event.Record) error {
		for i := range records {
			if err := c.state.Apply(records[i].Entry); err != nil {
				return fmt.Errorf("record %d: %w", records[i].Seq, err)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("fold the log: %w", err)
	}
	if end.Seq != head.Seq {
		return fmt.Errorf("fold the log up to %d: it ends at %d: %w", end.Seq, head.Seq, store.ErrConflict)
	}
	c.recordTerm = end.Term
	c.sinceSnapshot = end.Seq - from.Seq
	c.setHead(head)
	return nil
}

func (c *Control) setHead(h store.Head) {
	c.head = h
	c.end.Store(&h)
}

// now is the wall clock, which for the server never goes back.
func (c *Control) now() clock.Instant {
	now := int64(clock.FromTime(c.cfg.Now()))
	for {
		last := c.last.Load()
		if now <= last {
			return clock.Instant(last)
		}
		if c.last.CompareAndSwap(last, now) {
			return clock.Instant(now)
		}
	}
}

// time is now by both clocks.
func (c *Control) time() server.Time { return server.Time{Now: c.now(), Up: time.Since(c.started)} }

// Stopping is closed when the server begins to stop: long requests end then.
func (c *Control) Stopping() <-chan struct{} { return c.stopping.Done() }

// Stopped is closed when Run has ended.
func (c *Control) Stopped() <-chan struct{} { return c.stopped }

// Now is the server's instant.
func (c *Control) Now() clock.Instant { return c.now() }

// Fleet is the fleet's name.
func (c *Control) Fleet() string { return c.cfg.Fleet }

// Head is the end of the log as committed.
func (c *Control) Head() store.Head { return *c.end.Load() }

// Metrics returns the registry of the server's collectors.
func (c *Control) Metrics() *prometheus.Registry { return c.cfg.Metrics }

// Blob returns the bytes of a blob: wire.ErrNotFound when there is none.
func (c *Control) Blob(ctx context.Context, d digest.Digest) ([]byte, error) {
	b, err := c.library.Blob(ctx, d)
	if errors.Is(err, store.ErrNotFound) {
		return nil, wire.Refuse(wire.ErrNotFound, "there is no content %s", d)
	}
	return b, err
}

// HostManifest returns a rollout's manifest with the caller's leaf as a
// wire.HostManifest in JSON, and the manifest's digest.
func (c *Control) HostManifest(p *Peer, rollout string) ([]byte, digest.Digest, error) {
	d, ok := c.library.Newest(rollout)
	if !ok {
		return nil, "", wire.Refuse(wire.ErrNotFound, "there is no rollout %q", rollout)
	}
	body, ok, err := c.library.HostManifest(d, p.Name)
	if err != nil {
		return nil, "", err
	}
	if !ok {
		return nil, "", wire.Refuse(wire.ErrNotFound, "rollout %s has no leaf for host %s", rollout, p.Name)
	}
	return body, d, nil
}
