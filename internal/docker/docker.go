// Package docker puts the managers of container resources together on one engine:
// it registers the kinds, bounds what runs at once, turns events of the engine
// into turns of the loop, and answers for people's logs and commands.
package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/container"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/docker/credentials"
	"github.com/steadyfleet/steady/internal/docker/daemon"
	"github.com/steadyfleet/steady/internal/docker/disk"
	"github.com/steadyfleet/steady/internal/docker/form"
	"github.com/steadyfleet/steady/internal/docker/gpu"
	"github.com/steadyfleet/steady/internal/docker/image"
	"github.com/steadyfleet/steady/internal/docker/layer"
	"github.com/steadyfleet/steady/internal/docker/ledger"
	"github.com/steadyfleet/steady/internal/docker/network"
	"github.com/steadyfleet/steady/internal/docker/output"
	"github.com/steadyfleet/steady/internal/docker/ownership"
	"github.com/steadyfleet/steady/internal/docker/pool"
	"github.com/steadyfleet/steady/internal/docker/route"
	"github.com/steadyfleet/steady/internal/docker/secret"
	"github.com/steadyfleet/steady/internal/docker/snapshot"
	"github.com/steadyfleet/steady/internal/docker/volume"
	"github.com/steadyfleet/steady/internal/docker/workspace"
	"github.com/steadyfleet/steady/internal/router"
	"github.com/steadyfleet/steady/internal/router/table"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// Default sizes of the pools: four starts at once are the fastest on two cores.
const (
	DefaultBuilds = 1
	DefaultPulls  = 3
	DefaultStarts = 4
)

// Content gives blobs by digest; whoever copies them checks the digest.
type Content interface {
	Blob(ctx context.Context, d digest.Digest, size int64) (io.ReadCloser, error)
	Damaged(d digest.Digest) error
}

// Rows reads what is declared.
type Rows interface {
	List(ctx context.Context, f reconcile.Filter) ([]engine.Row, error)
}

// Options are what a host's containers need. All but Router and RouteChanged are
// required.
type Options struct {
	Engine *daemon.Engine
	Owner  ownership.Owner
	Dir    string // for ledgers, logs, and what containers mount
	// HostRoot is the folder of the files of the machine that the engine runs on, for
	// what containers need of it; empty where that is another machine.
	HostRoot string
	Secrets  string // folder of the host's secrets and its registries' credentials
	Content  Content
	Ledger   workspace.Ledger
	Rows     Rows
	Router   *router.Router
	// RouteChanged hears of each new table of routes, and of new addresses.
	RouteChanged func(table.Table) error
	// Certificate says why a certificate of a route cannot be served; may be nil.
	Certificate func(name string) error
	// Pinned lists the sets whose images stay: of the generation that runs, the
	// one that may come back, and the one that is prepared. Nil ones are empty.
	Pinned func(ctx context.Context) ([]*container.Set, error)
	// Key is the host's own, for digests of values that must not be shown.
	Key []byte
	// AllowVolumeDelete says whether the signed declaration lets volumes go.
	AllowVolumeDelete func() bool
	Resync            clock.Duration // full look without events
	Log               *slog.Logger
	Now               func() time.Time
}

// Host is the containers of one host.
type Host struct {
	o          Options
	loop       *reconcile.Loop
	workspaces *workspace.Manager
	images     *image.Manager
	networks   *network.Manager
	volumes    *volume.Manager
	snapshots  *snapshot.Manager
	routes     *route.Manager // nil without a router
	output     *output.Store
	gpu        gpu.Host
	secrets    secret.Folder
	guard      *disk.Guard

	builds, pulls, starts *pool.Pool

	disabled atomic.Bool
	resync   clock.Duration // Tune's caller's alone
	mu       sync.Mutex
	shooting map[string]bool // workspaces that are being captured
}

// New registers the kinds on a loop. Run must follow, once the loop runs.
func New(l *reconcile.Loop, o Options) (*Host, error) {
	h := &Host{o: o, loop: l, resync: o.Resync, gpu: gpu.Host{Root: o.HostRoot, Engine: o.Engine}, secrets: secret.Folder(o.Secrets), shooting: map[string]bool{}}
	kick := func(ref string) { h.kick(ref, engine.Cause{Trigger: engine.TriggerSibling, ID: "a slot is free"}) }
	h.builds, h.pulls, h.starts = pool.New(DefaultBuilds, kick), pool.New(DefaultPulls, kick), pool.New(DefaultStarts, kick)
	images, err := ledger.Open(filepath.Join(o.Dir, "images.json"))
	if err != nil {
		return nil, err
	}
	if h.output, err = output.Open(filepath.Join(o.Dir, "output"), 0); err != nil {
		return nil, err
	}
	h.guard = disk.New(engineDisk{o.Engine}, disk.Limits{}, func(ctx context.Context) error { return h.collect(ctx, 0) })
	h.images = image.New(image.Options{
		Engine: o.Engine, Owner: o.Owner, Ledger: images, Content: o.Content, Output: h.output,
		Credentials: credentials.Open(filepath.Join(o.Secrets, "registries")), Pulls: h.pulls, Builds: h.builds, Space: h.guard,
		Log: o.Log, Now: o.Now, Declared: h.declared(container.KindImage),
	})
	h.workspaces = workspace.New(workspace.Options{
		Engine: o.Engine, Owner: o.Owner, Ledger: o.Ledger, Content: o.Content, Secrets: h.secrets,
		Starts: h.starts, Upstreams: h.upstreams(), Declared: h.declared(container.KindWorkspace), Dir: filepath.Join(o.Dir, "mounts"), Halted: h.disabled.Load, Snapshotting: h.captured, GPUs: h.lacksGPUs,
		Replacing: func(title string) bool { return h.networks.Replacing(title) }, Digest: form.Keyed(o.Key), Log: o.Log, Now: o.Now,
	})
	return h, h.register(images)
}

func (h *Host) register(images *ledger.File) error {
	o, l := h.o, h.loop
	h.networks = network.New(network.Options{Engine: o.Engine, Owner: o.Owner, Digest: form.Keyed(o.Key), Declared: h.declared(container.KindNetwork)})
	h.volumes = volume.New(volume.Options{Engine: o.Engine, Owner: o.Owner, Digest: form.Keyed(o.Key), AllowDelete: o.AllowVolumeDelete, Declared: h.declared(container.KindVolume)})
	h.snapshots = snapshot.New(snapshot.Options{
		Engine: o.Engine, Owner: o.Owner, Ledger: images, Running: h.running, Settled: h.settled, Secrets: h.secretsOf, Snapshotting: h.snapshotting,
		Space: h.guard, Now: o.Now,
	})
	p := h.policies()
	err := errors.Join(
		reconcile.Register(l, container.KindNetwork, h.networks, p[container.KindNetwork]),
		reconcile.Register(l, container.KindVolume, h.volumes, p[container.KindVolume]),
		reconcile.Register(l, container.KindImage, h.images, p[container.KindImage]),
		reconcile.Register(l, container.KindWorkspace, h.workspaces, p[container.KindWorkspace]),
		reconcile.Register(l, container.KindSnapshot, h.snapshots, p[container.KindSnapshot]),
		layer.Register(l, o.Owner.Title),
	)
	if o.Router == nil {
		return err
	}
	h.routes = route.New(route.Options{Router: o.Router, Changed: o.RouteChanged, Certificate: o.Certificate})
	return errors.Join(err, reconcile.Register(l, container.KindRoute, h.routes, p[container.KindRoute]))
}

// declared lists the names that have a row of a kind.
func (h *Host) declared(kind string) func(context.Context) (map[string]bool, error) {
	return func(ctx context.Context) (map[string]bool, error) {
		rows, err := h.o.Rows.List(ctx, reconcile.Filter{Kind: kind})
		if err != nil {
			return nil, err
		}
		out := make(map[string]bool, len(rows))
		for i := range rows {
			if !rows[i].Phase.Terminal() {
				out[rows[i].Ref.ID] = true
			}
		}
		return out, nil
	}
}

// Title is the engine's name of what a declaration names.
func (h *Host) Title(title string) string { return h.o.Owner.Title(title) }

// Periods of housekeeping.
const (
	collectEvery = 10 * time.Minute
	collectGrace = 3 * time.Minute
	guardEvery   = 30 * time.Second
)

// Run hears the engine's events and keeps house until ctx ends.
func (h *Host) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		if err := h.o.Engine.Watch(ctx, func(e daemon.Event) { h.hear(ctx, e) }); ctx.Err() == nil {
			return fmt.Errorf("events of the container engine: %w", err)
		}
		return nil
	})
	g.Go(func() error { return h.every(ctx, collectEvery, func() error { return h.collect(ctx, collectGrace) }) })
	g.Go(func() error {
		return h.every(ctx, guardEvery, func() error {
			_, err := h.guard.Relieve(ctx)
			return err
		})
	})
	return g.Wait()
}

// every runs f again and again; what fails is tried the next time.
func (h *Host) every(ctx context.Context, period time.Duration, f func() error) error {
	t := time.NewTicker(period)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
		if err := f(); err != nil && ctx.Err() == nil && !daemon.Unavailable(err) {
			h.o.Log.Warn("housekeeping of containers", "error", err)
		}
	}
}

// Tune applies settings; zero and nil are the defaults.
func (h *Host) Tune(s fleet.Settings) {
	for _, p := range []struct {
		pool *pool.Pool
		size int
		def  int
	}{{h.builds, s.Pools.Builds, DefaultBuilds}, {h.pulls, s.Pools.Pulls, DefaultPulls}, {h.starts, s.Pools.Starts, DefaultStarts}} {
		if p.size == 0 {
			p.size = p.def
		}
		p.pool.Resize(p.size)
	}
	if h.disabled.Swap(s.Disabled()) != s.Disabled() {
		h.kickAll(context.Background(), "settings", container.KindWorkspace)
	}
	if resync := cmp.Or(s.ResyncInterval, h.o.Resync); resync != h.resync {
		h.resync = resync
		for kind, p := range h.policies() {
			if err := h.loop.SetPolicy(kind, p); err != nil {
				h.o.Log.Warn("the interval was not set", "kind", kind, "error", err)
			}
		}
		h.kickAll(context.Background(), "settings", container.Kinds...)
	}
}

// policies are those of every kind, looking as often as the host is told to.
func (h *Host) policies() map[string]engine.Policy {
	out := map[string]engine.Policy{
		container.KindNetwork: network.Policy(), container.KindVolume: volume.Policy(), container.KindImage: image.Policy(),
		container.KindWorkspace: workspace.Policy(), container.KindSnapshot: snapshot.Policy(),
	}
	if h.o.Router != nil {
		out[container.KindRoute] = route.Policy()
	}
	for kind, p := range out {
		if h.resync > 0 {
			p.Resync = h.resync
		}
		out[kind] = p
	}
	return out
}
