// Package hosting is what an agent keeps beside its rollout: containers on the
// host's engine, the router in front of them, the managed layer, what operators
// tune, and what is measured. Of what the server says without a signature it takes only
// what the host's signed declaration delegates, which Admit decides without believing
// what the server checked before.
package hosting

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/steadyfleet/steady/internal/agent/measure"
	"github.com/steadyfleet/steady/internal/agent/state"
	"github.com/steadyfleet/steady/internal/agent/stream"
	"github.com/steadyfleet/steady/internal/agent/uplink"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/deploy"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/disk"
	"github.com/steadyfleet/steady/internal/docker"
	"github.com/steadyfleet/steady/internal/docker/convert"
	"github.com/steadyfleet/steady/internal/docker/dockerapi"
	"github.com/steadyfleet/steady/internal/docker/image"
	"github.com/steadyfleet/steady/internal/router"
	"github.com/steadyfleet/steady/internal/system"
	"github.com/steadyfleet/steady/internal/trust"
	"github.com/steadyfleet/steady/internal/wire"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
	rows "github.com/steadyfleet/steady/reconcile/sqlite"
)

// Config says where containers run and where the router listens.
type Config struct {
	// Engine is the socket or URL of the container engine; empty for a host
	// without one.
	Engine string
	// Prefix comes before every name on the engine; the default is the host's name
	// and a dot.
	Prefix string
	// HTTP and HTTPS are addresses of the router; without any it does not listen.
	HTTP, HTTPS []string
	// Bind opens these addresses, which may be open already; nil opens them anew.
	Bind func(ctx context.Context, address string) (net.Listener, error)
	// Secrets and Certificates are folders; the defaults are below the state
	// folder.
	Secrets, Certificates string
}

// Agent is what hosting asks of the agent. All may be called from any goroutine.
type Agent interface {
	// Delegation is what the signed plan of this host delegates; nil is nothing.
	Delegation() *fleet.Delegation
	// AllowVolumeDelete says whether that plan lets volumes go with their data.
	AllowVolumeDelete() bool
	// Declared are the sets of the bundle that runs, first, and of those that may
	// come back or are on their way; nil ones are empty. An error says that one of
	// them is not known now.
	Declared(ctx context.Context) ([]*spec.Set, error)
	// Entry checks an entry that an operator signed for this host.
	Entry(env []byte) (trust.Verified[fleet.ManagedEntry], error)
	// VerbsChanged has the generation look at its verbs again.
	VerbsChanged()
	// Parked reports whether nothing may be changed until the host enrols again.
	Parked() bool
	// Beat sends a heartbeat soon.
	Beat()
	// Append adds an event to the outbox in somebody's transaction.
	Append(ctx context.Context, tx *sql.Tx, e event.Event) error
}

// Options of Open.
type Options struct {
	Config
	Fleet, Host, StateDir, Root string
	Machine                     fs.FS // the root folder that the host's facts are read in
	Agent                       Agent
	Store                       *state.Store
	Rows                        *rows.Store
	Loop                        *reconcile.Controller
	Client                      *uplink.Client
	Content                     image.Content
	Resync                      clock.Duration
	Log                         *slog.Logger
	Now                         func() clock.Instant // the agent's clock
	Wall                        func() clock.Instant // the wall clock, as far as it is trusted
}

// Hosting is open until Close.
type Hosting struct {
	o       Options
	docker  *docker.Host // nil without an engine
	router  *router.Router
	streams *stream.Set
	metrics *measure.Collector
	engine  engineFacts // of whoever makes heartbeats

	news     atomic.Uint64
	tuned    atomic.Pointer[tuned]
	asks     atomic.Pointer[map[spec.ID]deploy.Request]
	listener atomic.Pointer[router.Listener]
	watch    atomic.Pointer[watch]
	changed  chan struct{} // what is delegated or declared may have changed

	admitting  sync.Mutex
	ahead      clock.Duration // of Now before Wall, as ends were told by it; under admitting
	aheadKnown bool           // under admitting
	refusedAt  clock.Instant  // since when refusals are counted; under admitting
	refusals   int
	orphans    orphans
}

// Open registers the kinds of containers on the loop, and takes up what was
// tuned and managed when the agent last ran.
func Open(ctx context.Context, o Options) (*Hosting, error) {
	o = o.withFolders()
	h := &Hosting{o: o, changed: make(chan struct{}, 1), orphans: orphans{
		found: map[string][]engine.Ref{}, reported: map[engine.Ref]bool{}, wake: make(chan struct{}, 1)}}
	h.asks.Store(&map[spec.ID]deploy.Request{})
	if err := h.loadTuned(ctx); err != nil {
		return nil, err
	}
	if o.Engine != "" {
		if err := h.openEngine(); err != nil {
			return nil, err
		}
	}
	h.metrics = measure.New(measure.Options{
		Settings: h.chosen(), DiskPaths: []string{o.Root, o.StateDir},
		Report: func(problem string) { o.Log.Warn("metrics", "problem", problem) },
	})
	h.streams = stream.NewSet(stream.Options{
		Transport: o.Client, Backend: h, Allowed: o.Agent.Delegation, Ended: h.streamEnded,
	})
	return h, nil
}

// Folders of the state folder.
const (
	folder  = "containers"
	keyFile = "containers.key"
)

func (h *Hosting) openEngine() error {
	o := h.o
	for _, dir := range []string{filepath.Join(o.StateDir, folder), o.Secrets, o.Certificates} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("make a folder for containers: %w", err)
		}
	}
	key, err := hostKey(o.Store.KeyPath(keyFile))
	if err != nil {
		return err
	}
	engine, err := dockerapi.Open(dockerapi.Options{Socket: o.Engine, Log: o.Log})
	if err != nil {
		return err
	}
	hostRoot := ""
	if o.local() {
		hostRoot = "/"
	}
	h.router = router.New(router.Config{})
	h.docker, err = docker.New(o.Loop, docker.Options{
		Engine: engine, Owner: convert.Owner{Fleet: o.Fleet, Host: o.Host, Prefix: o.Prefix},
		Dir: filepath.Join(o.StateDir, folder), HostRoot: hostRoot, Secrets: o.Secrets, SessionSecrets: filepath.Join(o.StateDir, secretsFolder), Content: o.Content, Ledger: baselines{o.Store}, Rows: o.Rows,
		Router: h.router, RouteChanged: h.reloadCertificates, Certificate: h.certificate, Pinned: o.Agent.Declared, AllowVolumeDelete: o.Agent.AllowVolumeDelete, AllowSessions: h.allowSessions, BinChanged: o.Agent.Beat, Wall: o.Wall, Clock: func() time.Time { return o.Now().Time() }, Key: key, Resync: o.Resync, Log: o.Log, Now: time.Now,
	})
	if err == nil {
		h.docker.Tune(h.tuned.Load().Settings)
		err = system.RegisterLayer(o.Loop, h.docker.Title)
	}
	return err
}

// local reports whether the engine runs on this machine.
func (o *Options) local() bool {
	return !strings.Contains(o.Engine, "://") || strings.HasPrefix(o.Engine, "unix://")
}

// hostKey reads the host's key for digests of values that must not be shown, and
// makes it the first time. Another key makes every secret look changed, so it is
// durable before it is used.
func hostKey(path string) ([]byte, error) {
	key, err := os.ReadFile(path)
	if err == nil && len(key) == 32 {
		return key, nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("the host's key for digests: %w", err)
	}
	key = make([]byte, 32)
	rand.Read(key)
	if err := disk.Replace(path, key, 0o600); err != nil {
		return nil, fmt.Errorf("the host's key for digests: %w", err)
	}
	return key, nil
}

// baselines is the ledger of containers in the agent's database.
type baselines struct{ *state.Store }

func (b baselines) Forget(ctx context.Context, id string) error { return b.ForgetBaseline(ctx, id) }

// Title names what a bundle declares on the engine; nil where there is none.
func (h *Hosting) Title() spec.NameMapper {
	if h.docker == nil {
		return nil
	}
	return h.docker.Title
}

// Requests are the verbs for what the bundle declares.
func (h *Hosting) Requests() map[spec.ID]deploy.Request { return *h.asks.Load() }

// ErrNoEngine refuses containers on a host without an engine.
var ErrNoEngine = fmt.Errorf("%w: it declares containers and this agent has no container engine; start it with --engine unix:///var/run/docker.sock, or that of your engine", docker.ErrCannotPrepare)

// Prepare fetches what the containers of a bundle need, and changes nothing that
// runs.
func (h *Hosting) Prepare(ctx context.Context, s *spec.Set) error {
	switch {
	case s.Empty():
		return nil
	case h.docker == nil:
		return ErrNoEngine
	}
	return h.docker.Prepare(ctx, s)
}

// Run follows the engine, serves routes and admits what the managed layer holds,
// until ctx ends.
func (h *Hosting) Run(ctx context.Context) error {
	defer h.metrics.Close()
	defer h.streams.Close()
	g, ctx := errgroup.WithContext(ctx)
	if h.docker != nil {
		defer h.router.Close()
		g.Go(func() error { return h.docker.Run(ctx) })
		g.Go(func() error { return h.serve(ctx) })
	}
	g.Go(func() error { return h.admitAgain(ctx) })
	g.Go(func() error { return h.reportOrphans(ctx) })
	return g.Wait()
}

// Changed says that what is delegated or declared may have changed.
func (h *Hosting) Changed() {
	h.streams.Narrow()
	select {
	case h.changed <- struct{}{}:
	default:
	}
}

// News is the newest count of changes that the agent knows of.
func (h *Hosting) News() uint64 { return h.news.Load() }

// Dispatched takes what a dispatch says besides a grant, and reports whether any
// of it is new.
func (h *Hosting) Dispatched(d *wire.Dispatch) bool {
	fresh := len(d.Streams) > 0 && h.streams.Open(d.Streams)
	if d.News != h.news.Swap(d.News) {
		h.o.Agent.Beat()
		fresh = true
	}
	return fresh
}

func (h *Hosting) streamEnded(r wire.StreamRequest, err error) {
	if err != nil {
		h.o.Log.Info("a stream ended", "kind", r.Kind, "resource", r.Resource, "actor", r.Actor, "error", err)
	}
}
