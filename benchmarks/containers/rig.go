package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/steadyfleet/steady/internal/agent/state"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/deploy"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker"
	"github.com/steadyfleet/steady/internal/docker/convert"
	"github.com/steadyfleet/steady/internal/docker/dockerapi"
	"github.com/steadyfleet/steady/internal/router"
	"github.com/steadyfleet/steady/internal/system"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
	rows "github.com/steadyfleet/steady/reconcile/sqlite"
)

// rig is the agent's part of containers in this process, as the agent wires it:
// the loop with 16 workers, a database that waits for the disk, the reconcilers and
// the router. What is declared is the managed layer.
type rig struct {
	t      *host
	store  *state.Store
	rows   *rows.Store
	loop   *reconcile.Controller
	engine *dockerapi.Engine
	router *router.Router
	stop   context.CancelFunc
	done   chan error
	ahead  atomic.Int64 // how far the reconcilers' clock is ahead
	blobs  blobs        // what sets mount, put there before they are declared
	within time.Duration

	mu     sync.Mutex
	phases map[engine.Ref]engine.Phase
	count  int // transitions
	news   chan struct{}
}

// resync of the rig: cycles are asked for.
const resync = 24 * 3600 * clock.Second

// openRig opens one. Starts is how many containers start at once, 0 for what is
// the default.
func openRig(t *host, dir, socket string, starts int) *rig {
	r := &rig{t: t, within: patience, blobs: blobs{}, phases: map[engine.Ref]engine.Phase{}, news: make(chan struct{}), done: make(chan error, 2)}
	ctx := context.Background()
	var err error
	r.store, err = state.Open(ctx, filepath.Join(dir, "state"), state.Options{Migrate: func(ctx context.Context, db *sql.DB, tx *sql.Tx) error {
		r.rows = rows.New(db)
		return r.rows.Migrate(ctx, tx)
	}})
	t.ok(err)
	_, err = r.rows.Open(ctx)
	t.ok(err)
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	r.loop = reconcile.New(r.rows, reconcile.WithWorkers(16), reconcile.WithLogger(log),
		reconcile.WithDebounce(20*time.Millisecond), reconcile.WithAfterCommit(r.heard))
	r.engine, err = dockerapi.Open(dockerapi.Options{Socket: socket, Log: log})
	t.ok(err)
	secrets := filepath.Join(dir, "secrets")
	t.ok(os.MkdirAll(secrets, 0o700))
	r.router = router.New(router.Config{})
	h, err := docker.New(r.loop, docker.Options{
		Engine: r.engine, Owner: convert.Owner{Fleet: "bench", Host: "host", Prefix: "bench."},
		Dir: filepath.Join(dir, "state"), Secrets: secrets, Content: r.blobs, Ledger: baselines{r.store}, Rows: r.rows,
		Router: r.router, Pinned: func(context.Context) ([]*spec.Set, error) { return nil, nil },
		Key: []byte("the key of the host for digests "), AllowVolumeDelete: func() bool { return false },
		Resync: resync, Log: log,
		Now: func() time.Time { return time.Now().Add(time.Duration(r.ahead.Load())) },
	})
	t.ok(err)
	t.ok(system.RegisterLayer(r.loop, h.Title))
	h.Tune(fleet.Settings{Pools: fleet.Pools{Starts: starts}})
	ctx, r.stop = context.WithCancel(ctx)
	go func() { r.done <- r.loop.Run(ctx) }()
	go func() { r.done <- h.Run(ctx) }()
	// The agent is at home long before something is declared: it hears events.
	time.Sleep(300 * time.Millisecond)
	return r
}

// close ends the rig and leaves the containers.
func (r *rig) close() {
	if os.Getenv("STEADY_BENCH_STATS") != "" {
		fmt.Fprintf(os.Stderr, "%+v\n", r.loop.Stats())
	}
	r.stop()
	err := errors.Join(<-r.done, <-r.done)
	r.router.Close()
	r.t.ok(errors.Join(err, r.engine.Close(), r.store.Close()))
}

// heard notes how resources stand.
func (r *rig) heard(ts []engine.Transition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range ts {
		r.phases[t.Ref] = t.To
		r.count++
		if os.Getenv("STEADY_BENCH_TRACE") != "" || t.To == engine.Failed {
			fmt.Fprintln(os.Stderr, time.Now().Format("05.000"), t.Ref, t.From, t.To, t.Action, t.Reason, t.Error)
		}
	}
	close(r.news)
	r.news = make(chan struct{})
}

func (r *rig) transitions() int { r.mu.Lock(); defer r.mu.Unlock(); return r.count }

// patience bounds every wait.
const patience = 10 * time.Minute

// converge declares a set and waits until all has come to rest as declared.
func (r *rig) converge(s spec.Set) {
	_, err := r.loop.Apply(context.Background(), engine.Upsert(deploy.ManagedLayer, deploy.Layer{Set: s}), engine.Cause{Trigger: engine.TriggerOperator})
	r.t.ok(err)
	limit := time.After(r.within)
	for {
		r.mu.Lock()
		next, left := r.news, engine.Ref{}
		for ref, p := range r.phases {
			if p != engine.Converged && p != engine.Deleted {
				left = ref
			}
			if p == engine.Failed {
				r.mu.Unlock()
				r.t.Fatalf("%s failed", ref)
			}
		}
		r.mu.Unlock()
		if left.IsZero() {
			return
		}
		select {
		case <-next:
		case <-limit:
			r.t.Fatalf("%s does not converge within %s", left, r.within)
		}
	}
}

// open lists the resources that a cycle looks at.
func (r *rig) open() (out []engine.Ref) {
	all, err := r.rows.List(context.Background(), reconcile.Filter{})
	r.t.ok(err)
	for i := range all {
		if !all[i].Phase.Terminal() {
			out = append(out, all[i].Ref)
		}
	}
	return out
}

// cycle has resources looked at as their interval does, so long after the last.
func (r *rig) cycle(refs []engine.Ref, after time.Duration) {
	r.ahead.Store(int64(after))
	defer r.ahead.Store(0)
	n, before := int64(len(refs)), r.loop.Stats()
	for _, ref := range refs {
		r.loop.Enqueue(ref, engine.Cause{Trigger: engine.TriggerResync})
	}
	limit := time.Now().Add(patience)
	for {
		time.Sleep(500 * time.Microsecond) // asking costs too, and is not to be measured
		now := r.loop.Stats()
		if now.Turns-before.Turns >= n && now.Running == 0 && now.NoOps-before.NoOps >= n {
			return
		}
		if time.Now().After(limit) {
			r.t.Fatalf("a cycle over %d resources did not end, or wrote: %+v after %+v", n, now, before)
		}
	}
}

// baselines is the ledger of containers in the agent's database.
type baselines struct{ *state.Store }

func (b baselines) Forget(ctx context.Context, id string) error { return b.ForgetBaseline(ctx, id) }

// blobs is the content that travels beside a bundle.
type blobs map[digest.Digest][]byte

func (b blobs) Blob(_ context.Context, d digest.Digest, _ int64) (io.ReadCloser, error) {
	raw, ok := b[d]
	if !ok {
		return nil, os.ErrNotExist
	}
	return io.NopCloser(bytes.NewReader(raw)), nil
}
func (blobs) Damaged(digest.Digest) error { return nil }
