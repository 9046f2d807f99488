// Package docker puts the reconcilers of container resources together on one engine:
// it registers the kinds, bounds what runs at once, turns events of the engine
// into turns of the loop, and answers for people's logs and commands.
package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/secret"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/convert"
	"github.com/steadyfleet/steady/internal/docker/dockerapi"
	"github.com/steadyfleet/steady/internal/docker/image"
	"github.com/steadyfleet/steady/internal/docker/network"
	"github.com/steadyfleet/steady/internal/docker/storage"
	"github.com/steadyfleet/steady/internal/docker/workspace"
	"github.com/steadyfleet/steady/internal/router"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// Default sizes of the pools: four starts at once are the fastest on two cores.
const (
	DefaultBuilds = 1
	DefaultPulls  = 3
	DefaultStarts = 4
	// mostHooks is how many workspaces run commands after a start at once: such a command may take minutes, in which
	// others are to be stopped.
	mostHooks = 16
)

// Rows reads what is declared.
type Rows interface {
	List(ctx context.Context, f reconcile.Filter) ([]engine.Row, error)
}

// Options are what a host's containers need. All but Router and RouteChanged are
// required.
type Options struct {
	Engine *dockerapi.Engine
	Owner  convert.Owner
	Dir    string // for ledgers, logs, and what containers mount
	// HostRoot is the folder of the files of the machine that the engine runs on, for
	// what containers need of it; empty where that is another machine.
	HostRoot string
	Secrets  string // folder of the host's secrets and its registries' credentials
	// SessionSecrets is the folder of what sessions give to workspaces.
	SessionSecrets string
	Content        image.Content
	Ledger         workspace.Ledger
	Rows           Rows
	Router         *router.Router
	// RouteChanged is notified of each new table of routes, and of new addresses.
	RouteChanged func(router.Table) error
	// Certificate reports why a certificate of a route cannot be served; may be nil.
	Certificate func(name string) error
	// Pinned lists the sets whose images stay: of the generation that runs, the
	// one that may come back, and the one that is prepared. Nil ones are empty.
	Pinned func(ctx context.Context) ([]*spec.Set, error)
	// Key is the host's own, for digests of values that must not be shown.
	Key []byte
	// AllowVolumeDelete reports whether the signed declaration lets volumes go.
	AllowVolumeDelete func() bool
	// AllowSessions reports whether it lets sessions in, whose volumes go with them.
	AllowSessions func() bool
	// BinChanged is called when the list of Bin changed; may be nil. It must not block.
	BinChanged func()
	// Wall is the wall clock, as far as it is trusted.
	Wall func() clock.Instant
	// Clock is the clock of the ends of resources; nil takes Now.
	Clock  func() time.Time
	Resync clock.Duration // full look without events
	Log    *slog.Logger
	Now    func() time.Time
}

// Host is the containers of one host.
type Host struct {
	o          Options
	loop       *reconcile.Controller
	workspaces *workspace.Reconciler
	images     *image.Reconciler
	networks   *network.Reconciler
	volumes    *storage.Volumes
	snapshots  *storage.Snapshots
	routes     *network.Routes // nil without a router
	output     *image.Store
	gpu        GPUHost
	secrets    dockerapi.SecretStores
	guard      *image.Guard

	builds, pulls, starts *dockerapi.Pool

	disabled  atomic.Bool
	resync    clock.Duration // Tune's caller's alone
	mu        sync.Mutex
	capturing map[string]bool // workspaces that are being captured
}

// New registers the kinds on a loop. Run must follow, once the loop runs.
func New(l *reconcile.Controller, o Options) (*Host, error) {
	h := &Host{o: o, loop: l, resync: o.Resync, gpu: GPUHost{Root: o.HostRoot, Engine: o.Engine}, secrets: dockerapi.SecretStores{Host: dockerapi.Secrets(o.Secrets), Sessions: dockerapi.SessionSecrets(o.SessionSecrets)}, capturing: map[string]bool{}}
	enqueue := func(ref string) { h.enqueue(ref, engine.Cause{Trigger: engine.TriggerSibling, ID: "a slot is free"}) }
	h.builds, h.pulls, h.starts = dockerapi.NewPool(DefaultBuilds, enqueue), dockerapi.NewPool(DefaultPulls, enqueue), dockerapi.NewPool(DefaultStarts, enqueue)
	images, err := image.Open(filepath.Join(o.Dir, "images.json"))
	if err != nil {
		return nil, err
	}
	if h.output, err = image.OpenOutput(filepath.Join(o.Dir, "output"), 0); err != nil {
		return nil, err
	}
	h.guard = image.NewGuard(h.imageDisk, func(ctx context.Context) error { return h.collect(ctx, 0) })
	h.images = image.New(image.Options{
		Engine: o.Engine, Owner: o.Owner, Ledger: images, Content: o.Content, Output: h.output,
		Credentials: dockerapi.OpenCredentials(filepath.Join(o.Secrets, "registries")), Pulls: h.pulls, Builds: h.builds, Space: h.guard,
		Log: o.Log, Now: o.Now, Declared: h.declared(spec.KindImage),
	})
	h.workspaces = workspace.New(workspace.Options{
		Engine: o.Engine, Owner: o.Owner, Ledger: o.Ledger, Content: o.Content, Secrets: h.secrets,
		Starts: h.starts, Upstreams: h.upstreams(), Declared: h.declared(spec.KindWorkspace), Dir: filepath.Join(o.Dir, "mounts"), HostRoot: o.HostRoot, Halted: h.disabled.Load, Snapshotting: h.isCapturing, GPUs: h.missingGPUs,
		Replacing: func(title string) bool { return h.networks.Replacing(title) }, Digest: secret.Keyed(o.Key), Log: o.Log, Now: o.Now, Clock: o.Clock,
		Hooks: dockerapi.NewPool(mostHooks, enqueue), Wake: func(ref engine.Ref) {
			l.Enqueue(ref, engine.Cause{Trigger: engine.TriggerExternal, ID: "a stop ended"})
		},
	})
	bin, err := storage.OpenBin(filepath.Join(o.Dir, "bin.json"), o.BinChanged)
	if err != nil {
		return nil, err
	}
	return h, h.register(images, bin)
}

func (h *Host) register(images *image.File, bin *storage.Bin) error {
	o, l := h.o, h.loop
	h.networks = network.New(network.Options{Engine: o.Engine, Owner: o.Owner, Digest: secret.Keyed(o.Key), Declared: h.declared(spec.KindNetwork)})
	h.volumes = storage.NewVolumes(storage.VolumeOptions{Engine: o.Engine, Owner: o.Owner, Digest: secret.Keyed(o.Key), AllowDelete: o.AllowVolumeDelete,
		AllowSessions: o.AllowSessions, Bin: bin, Wall: o.Wall, Declared: h.declared(spec.KindVolume)})
	h.snapshots = storage.NewSnapshots(storage.SnapshotOptions{
		Engine: o.Engine, Owner: o.Owner, Ledger: images, Running: h.running, Deployed: h.deployed, Secrets: h.secretsOf, Snapshotting: h.setCapturing,
		Space: h.guard, Now: o.Now,
	})
	p := h.policies()
	err := errors.Join(
		reconcile.Register(l, spec.KindNetwork, h.networks, p[spec.KindNetwork]),
		reconcile.Register(l, spec.KindVolume, h.volumes, p[spec.KindVolume]),
		reconcile.Register(l, spec.KindImage, h.images, p[spec.KindImage]),
		reconcile.Register(l, spec.KindWorkspace, h.workspaces, p[spec.KindWorkspace]),
		reconcile.Register(l, spec.KindSnapshot, h.snapshots, p[spec.KindSnapshot]),
	)
	if o.Router == nil {
		return err
	}
	h.routes = network.NewRoutes(network.RouteOptions{Router: o.Router, Changed: o.RouteChanged, Certificate: o.Certificate})
	return errors.Join(err, reconcile.Register(l, spec.KindRoute, h.routes, p[spec.KindRoute]))
}

// declared lists the names that have a row of a kind.
func (h *Host) declared(kind string) func(context.Context) (map[string]bool, error) {
	return func(ctx context.Context) (map[string]bool, error) {
		rows, err := h.rows(ctx, kind)
		if err != nil {
			return nil, err
		}
		out := make(map[string]bool, len(rows))
		for i := range rows {
			out[rows[i].Ref.ID] = true
		}
		return out, nil
	}
}

// rows lists what is declared of a kind.
func (h *Host) rows(ctx context.Context, kind string) ([]engine.Row, error) {
	rows, err := h.o.Rows.List(ctx, reconcile.Filter{Kind: kind})
	return slices.DeleteFunc(rows, func(r engine.Row) bool { return r.Phase.Terminal() }), err
}

// row finds one resource as declared; nil if there is none.
func (h *Host) row(ctx context.Context, kind, name string) (*engine.Row, error) {
	rows, err := h.rows(ctx, kind)
	i := slices.IndexFunc(rows, func(r engine.Row) bool { return r.Ref.ID == name })
	if err != nil || i < 0 {
		return nil, err
	}
	return &rows[i], nil
}

// Title is the engine's name of what a declaration names.
func (h *Host) Title(title string) string { return h.o.Owner.Title(title) }

// Periods of housekeeping.
const (
	collectEvery = 10 * time.Minute
	collectGrace = 3 * time.Minute
	guardEvery   = 30 * time.Second
	binEvery     = 30 * time.Second
)

// Run watches the engine's events and collects garbage until ctx ends.
func (h *Host) Run(ctx context.Context) error {
	defer h.workspaces.Close()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		if err := h.o.Engine.Watch(ctx, func(e dockerapi.Event) { h.onEvent(ctx, e) }); ctx.Err() == nil {
			return fmt.Errorf("events of the container engine: %w", err)
		}
		return nil
	})
	g.Go(func() error { return h.every(ctx, collectEvery, func() error { return h.collect(ctx, collectGrace) }) })
	g.Go(func() error { return h.every(ctx, binEvery, func() error { return h.volumes.Empty(ctx) }) })
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
		if err := f(); err != nil && ctx.Err() == nil && !dockerapi.Unavailable(err) {
			h.o.Log.Warn("housekeeping of containers", "error", err)
		}
	}
}

// Tune applies settings; zero and nil are the defaults.
func (h *Host) Tune(s fleet.Settings) {
	for _, p := range []struct {
		pool *dockerapi.Pool
		size int
		def  int
	}{{h.builds, s.Pools.Builds, DefaultBuilds}, {h.pulls, s.Pools.Pulls, DefaultPulls}, {h.starts, s.Pools.Starts, DefaultStarts}} {
		p.pool.Resize(cmp.Or(p.size, p.def))
	}
	if h.disabled.Swap(s.Disabled()) != s.Disabled() {
		h.enqueueAll(context.Background(), "settings", spec.KindWorkspace)
	}
	if resync := cmp.Or(s.ResyncInterval, h.o.Resync); resync != h.resync {
		h.resync = resync
		for kind, p := range h.policies() {
			if err := h.loop.SetPolicy(kind, p); err != nil {
				h.o.Log.Warn("the interval was not set", "kind", kind, "error", err)
			}
		}
		h.enqueueAll(context.Background(), "settings", spec.Kinds...)
	}
}

// policies are those of every kind, looking as often as the host is asked to.
func (h *Host) policies() map[string]engine.Policy {
	out := map[string]engine.Policy{
		spec.KindNetwork: network.Policy(), spec.KindVolume: storage.VolumePolicy(), spec.KindImage: image.Policy(),
		spec.KindWorkspace: workspace.Policy(), spec.KindSnapshot: storage.SnapshotPolicy(),
	}
	if h.o.Router != nil {
		out[spec.KindRoute] = network.RoutePolicy()
	}
	for kind, p := range out {
		if h.resync > 0 {
			p.Resync = h.resync.Std()
		}
		out[kind] = p
	}
	return out
}
