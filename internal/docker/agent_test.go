package docker_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	_ "modernc.org/sqlite"

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

// config is what an agent's part of containers is started with. It travels to
// processes of its own as JSON.
type config struct {
	Socket, Dir string
	Owner       convert.Owner
	Resync      clock.Duration
	Timeout     time.Duration // of a call; 0: the default
	Volumes     bool          // may be deleted
	Router      bool
	Log         string // file; empty: nothing
	HostRoot    string // of the engine's machine; empty: nothing is looked at
	Bundles     bool   // a bundle of a release is the owner as well
}

// agent is the loop with the reconcilers of containers, as an agent wires them: on
// a database that survives it, with the managed layer as owner.
type agent struct {
	cfg    config
	db     *sql.DB
	rows   *rows.Store
	loop   *reconcile.Controller
	engine *dockerapi.Engine
	host   *docker.Host
	router *router.Router
	// releases are the bundles that may be desired; away says that no server gives grants for repairs that disrupt.
	releases releases
	away     atomic.Bool

	mu    sync.Mutex
	news  chan struct{} // closed at the next commit
	told  []engine.Transition
	log   *os.File
	done  chan error
	stop  context.CancelFunc
	ended bool // the test ended it
}

// debounce is the agent's.
const debounce = 20 * clock.Millisecond

func openAgent(cfg config) (_ *agent, err error) {
	a := &agent{cfg: cfg, news: make(chan struct{}), done: make(chan error, 2)}
	for _, d := range []string{cfg.Dir, filepath.Join(cfg.Dir, "secrets"), filepath.Join(cfg.Dir, "blobs")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, err
		}
	}
	if err := a.openRows(); err != nil {
		return nil, err
	}
	log := slog.New(slog.DiscardHandler)
	if cfg.Log != "" {
		if a.log, err = os.OpenFile(cfg.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
			return nil, err
		}
		log = slog.New(slog.NewTextHandler(a.log, nil))
	}
	a.loop = reconcile.New(a.rows, reconcile.WithWorkers(16), reconcile.WithLogger(log), reconcile.WithDebounce(debounce.Std()),
		reconcile.WithAfterCommit(a.heard), reconcile.WithPurityChecks(), reconcile.WithRepairGate(a.gate))
	if a.engine, err = dockerapi.Open(dockerapi.Options{Socket: cfg.Socket, Timeout: cfg.Timeout, Log: log}); err != nil {
		return nil, err
	}
	o := docker.Options{
		Engine: a.engine, Owner: cfg.Owner, Dir: cfg.Dir, Secrets: filepath.Join(cfg.Dir, "secrets"), Content: blobs(filepath.Join(cfg.Dir, "blobs")),
		Ledger: baselines{a.db}, Rows: a.rows, Pinned: func(context.Context) ([]*spec.Set, error) { return nil, nil },
		Key: []byte("the key of the host for digests "), AllowVolumeDelete: func() bool { return cfg.Volumes },
		Resync: cfg.Resync, Log: log, Now: time.Now, HostRoot: cfg.HostRoot,
	}
	if cfg.Router {
		a.router = router.New(router.Config{})
		o.Router = a.router
	}
	if a.host, err = docker.New(a.loop, o); err != nil {
		return nil, err
	}
	if cfg.Bundles {
		a.releases = releases{blobs: blobs(filepath.Join(cfg.Dir, "blobs")), at: filepath.Join(cfg.Dir, "bundles")}
		if err := system.Register(a.loop, system.Host{Root: cfg.Dir, Name: cfg.Owner.Host, Content: a.releases, Title: a.host.Title, Log: log, Resync: cfg.Resync}); err != nil {
			return nil, err
		}
	}
	return a, system.RegisterLayer(a.loop, a.host.Title)
}

// gate lets repairs through as an agent's does: what stops something that runs needs a grant of the server.
func (a *agent) gate(_ context.Context, r reconcile.Repair) *engine.Block {
	d, ok := r.Action.(interface{ Disrupts() bool })
	if !ok || !d.Disrupts() || !a.away.Load() {
		return nil
	}
	return &engine.Block{Reason: engine.NewReason("needs-grant", r.Reason.Text())}
}

// releases are bundles in a folder, named by their digests.
type releases struct {
	blobs
	at string
}

func (r releases) put(b *fleet.Bundle) (digest.Digest, error) {
	raw, err := json.Marshal(b)
	if err == nil {
		err = os.MkdirAll(r.at, 0o700)
	}
	d := digest.Of(raw)
	return d, errors.Join(err, os.WriteFile(filepath.Join(r.at, d.Short()), raw, 0o600))
}

func (r releases) Bundle(_ context.Context, d digest.Digest) (*fleet.Bundle, error) {
	var b fleet.Bundle
	return &b, readJSON(filepath.Join(r.at, d.Short()), &b)
}

func (a *agent) openRows() (err error) {
	path := filepath.Join(a.cfg.Dir, "agent.db")
	a.db, err = sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)&_pragma=synchronous(normal)")
	if err != nil {
		return err
	}
	a.rows = rows.New(a.db)
	tx, err := a.db.Begin()
	if err != nil {
		return err
	}
	if err := a.rows.Migrate(context.Background(), tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	if _, err := tx.Exec(`CREATE TABLE IF NOT EXISTS baselines (id TEXT PRIMARY KEY, body BLOB NOT NULL)`); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// run runs the loop and hears the engine until end.
func (a *agent) run(ctx context.Context) {
	ctx, a.stop = context.WithCancel(ctx)
	go func() { a.done <- a.loop.Run(ctx) }()
	go func() { a.done <- a.host.Run(ctx) }()
}

func (a *agent) end() error {
	a.stop()
	err := errors.Join(<-a.done, <-a.done, a.engine.Close())
	if a.router != nil {
		a.router.Close()
	}
	if a.log != nil {
		err = errors.Join(err, a.log.Close())
	}
	return errors.Join(err, a.db.Close())
}

// heard notes transitions and wakes who waits for news.
func (a *agent) heard(ts []engine.Transition) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.told = append(a.told, ts...)
	close(a.news)
	a.news = make(chan struct{})
}

// next is closed at the next commit.
func (a *agent) next() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.news
}

// transitions are those told since n.
func (a *agent) transitions(n int) []engine.Transition {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]engine.Transition(nil), a.told[n:]...)
}

func (a *agent) count() int { a.mu.Lock(); defer a.mu.Unlock(); return len(a.told) }

// declare sets what is declared.
func (a *agent) declare(ctx context.Context, l deploy.Layer) error {
	_, err := a.loop.Apply(ctx, engine.Upsert(deploy.ManagedLayer, l), engine.Cause{Trigger: engine.TriggerOperator})
	return err
}

// unsettled names the first resource that has not come to rest as declared; empty
// if all have.
func (a *agent) unsettled(ctx context.Context) (string, error) {
	all, err := a.rows.List(ctx, reconcile.Filter{})
	if err != nil {
		return "", err
	}
	for i := range all {
		r := &all[i]
		switch {
		case r.Phase == engine.Deleted:
		case r.Delete || r.Phase != engine.Converged || r.ConvergedGen != r.Generation:
			return fmt.Sprintf("%s %s %s (generation %d, converged %d, attempts %d, retire %v)", r.Ref, r.Phase, r.Reason, r.Generation, r.ConvergedGen, r.Attempts, r.Delete), nil
		}
	}
	return "", nil
}

// phases are how all resources stand, for messages.
func (a *agent) phases(ctx context.Context) string {
	all, err := a.rows.List(ctx, reconcile.Filter{})
	if err != nil {
		return err.Error()
	}
	var out bytes.Buffer
	for i := range all {
		r := &all[i]
		fmt.Fprintf(&out, "%s %s %s\n", r.Ref, r.Phase, r.Reason)
	}
	return out.String()
}

// blobs are files named by their digests.
type blobs string

func (b blobs) file(d digest.Digest) string { return filepath.Join(string(b), d.Short()) }

func (b blobs) Blob(_ context.Context, d digest.Digest, _ int64) (io.ReadCloser, error) {
	return os.Open(b.file(d))
}

func (b blobs) Damaged(d digest.Digest) error { return os.Remove(b.file(d)) }

// baselines is the ledger of containers in the agent's database.
type baselines struct{ db *sql.DB }

func (b baselines) Baseline(ctx context.Context, id string) (body []byte, ok bool, err error) {
	err = b.db.QueryRowContext(ctx, `SELECT body FROM baselines WHERE id = ?`, id).Scan(&body)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, false, nil
	}
	return body, err == nil, err
}

func (b baselines) SetBaseline(ctx context.Context, id string, body []byte) error {
	_, err := b.db.ExecContext(ctx, `INSERT INTO baselines VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET body = excluded.body`, id, body)
	return err
}

func (b baselines) Forget(ctx context.Context, id string) error {
	_, err := b.db.ExecContext(ctx, `DELETE FROM baselines WHERE id = ?`, id)
	return err
}

// How an agent in a process of its own talks with the test.
const (
	childEnv  = "STEADY_DOCKER_AGENT" // folder of the files
	childConf = "config.json"

	childDeclared, childConverged = "declared", "converged" // what it prints
)

// child is an agent in a process of its own. It declares each layer that it reads,
// the first before it runs, and prints that it did. It prints a line whenever all
// is as declared or no longer is, and runs until it is killed.
func child(dir string) error {
	var cfg config
	if err := readJSON(filepath.Join(dir, childConf), &cfg); err != nil {
		return err
	}
	a, err := openAgent(cfg)
	if err != nil {
		return err
	}
	ctx := context.Background()
	want, broken := make(chan deploy.Layer), make(chan error, 1)
	go func() {
		for in := json.NewDecoder(os.Stdin); ; {
			var l deploy.Layer
			if err := in.Decode(&l); err != nil {
				broken <- fmt.Errorf("read what to declare: %w", err)
				return
			}
			want <- l
		}
	}()
	last := ""
	declare := func(l deploy.Layer) error {
		fmt.Println(childDeclared)
		last = "?"
		return a.declare(ctx, l)
	}
	if err := declare(<-want); err != nil {
		return err
	}
	a.run(ctx)
	for {
		next := a.next()
		words, err := a.unsettled(ctx)
		if err != nil {
			return err
		}
		if words != last {
			if words == "" {
				fmt.Println(childConverged)
			} else {
				fmt.Println("pending " + words)
			}
			last = words
		}
		select {
		case <-next:
		case l := <-want:
			if err := declare(l); err != nil {
				return err
			}
		case err := <-broken:
			return err
		case err := <-a.done:
			return err
		}
	}
}

func readJSON(path string, v any) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, v)
}

func writeJSON(path string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return os.WriteFile(path, raw, 0o600)
}
