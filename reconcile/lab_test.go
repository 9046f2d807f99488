package reconcile_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
	"github.com/steadyfleet/steady/reconcile/sqlite"
)

var hand = engine.Cause{Trigger: engine.TriggerOperator, ID: "test"}

var (
	leafPolicy = engine.Policy{
		Retry: engine.RetryPolicy{Max: 3, Base: time.Second, Cap: 10 * time.Second}, ActTimeout: 20 * time.Second,
		OnDrift: engine.Enforce, Resync: 5 * time.Minute, CleanupGrace: 2 * time.Minute, History: engine.History{Keep: 10_000},
	}
	treePolicy = engine.Policy{
		Retry: engine.RetryPolicy{Max: 3}, CleanupGrace: 4 * time.Minute, OnChildFailure: engine.Continue, History: engine.History{Keep: 10_000},
	}
)

// lab is a world, a database file, and one process after another.
type lab struct {
	t      testkit.T
	path   string
	w      *world
	opts   []reconcile.Option
	tree   engine.Policy
	leaf   engine.Policy
	killer *killer
	p      *process
}

// process is one life of a controller.
type process struct {
	db    *sql.DB
	store *sqlite.Store
	loop  *reconcile.Controller
	stop  context.CancelFunc
	done  chan error
}

func newLab(t testkit.T, dir string) *lab {
	return &lab{t: t, path: filepath.Join(dir, "lab.db"), w: newWorld(), tree: treePolicy, leaf: leafPolicy, killer: &killer{at: -1}}
}

func (l *lab) check(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatalf("%v", err)
	}
}

// open opens the store in a file, and makes its tables.
func open(path string) (*sql.DB, *sqlite.Store, error) {
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)&_pragma=synchronous(off)")
	if err != nil {
		return nil, nil, err
	}
	store := sqlite.New(db)
	tx, err := db.Begin()
	if err != nil {
		return nil, nil, err
	}
	if err := store.Migrate(context.Background(), tx); err != nil {
		return nil, nil, err
	}
	return db, store, tx.Commit()
}

// openStore opens an empty store that lasts as long as the test.
func openStore(t *testing.T) *sqlite.Store {
	t.Helper()
	db, store, err := open(filepath.Join(t.TempDir(), "rows.db"))
	testkit.Must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return store
}

func (l *lab) start() {
	l.t.Helper()
	db, store, err := open(l.path)
	l.check(err)
	p := &process{db: db, store: store, done: make(chan error, 1)}
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	l.killer.reset(stop)
	l.w.hook = l.killer.point
	opts := append([]reconcile.Option{reconcile.WithPurityChecks(), reconcile.WithWorkers(4)}, l.opts...)
	p.loop = reconcile.New(&mortal{p.store, l.killer}, opts...)
	l.check(reconcile.Register(p.loop, "leaf", leaves{l.w}, l.leaf))
	l.check(reconcile.Register(p.loop, "tree", trees{l.w}, l.tree))
	go func() { p.done <- p.loop.Run(ctx) }()
	l.p = p
}

func (l *lab) stop() {
	l.t.Helper()
	l.p.stop()
	if err := <-l.p.done; err != nil && !errors.Is(err, errKilled) {
		l.t.Fatalf("the loop ended with %v", err)
	}
	l.check(l.p.db.Close())
	l.p = nil
}

// close ends what a failed check left running.
func (l *lab) close() {
	if l.p != nil {
		l.stop()
	}
}

func (l *lab) restart() { l.t.Helper(); l.stop(); l.start() }

// set applies an intent as an owner does, outside the mortal store.
func (l *lab) set(in engine.Intent) {
	l.t.Helper()
	_, err := l.p.store.Apply(context.Background(), in, time.Now(), hand)
	l.check(err)
	l.p.loop.Enqueue(in.Ref, hand)
}

func (l *lab) row(ref engine.Ref) engine.Row {
	l.t.Helper()
	r, err := l.p.store.Get(context.Background(), ref)
	if err != nil {
		l.t.Fatalf("%s: %v", ref, err)
	}
	return r
}

func (l *lab) rows() []engine.Row {
	l.t.Helper()
	rows, err := l.p.store.List(context.Background(), reconcile.Filter{})
	l.check(err)
	return rows
}

func (l *lab) history(ref engine.Ref) []engine.Transition {
	l.t.Helper()
	h, err := l.p.store.History(context.Background(), ref, 0, 0)
	l.check(err)
	return h
}

func (l *lab) wantPhase(ref engine.Ref, want engine.Phase) {
	l.t.Helper()
	if r := l.row(ref); r.Phase != want {
		l.t.Fatalf("%s is %s (%s), want %s; history:\n%s", ref, r.Phase, r.Reason, want, l.story(ref))
	}
}

func (l *lab) story(ref engine.Ref) string {
	s := ""
	for _, h := range l.history(ref) {
		s += fmt.Sprintf("  %s #%d g%d %s -> %s attempt %d %s %s %v\n", h.At, h.N, h.Generation, h.From, h.To, h.Attempt, h.Reason, h.Error, h.Causes)
	}
	return s
}

// invariants checks what must hold at any time: P1, P4, P5 and P8.
func (l *lab) invariants() {
	l.t.Helper()
	l.w.mu.Lock()
	overlap := l.w.overlap
	l.w.mu.Unlock()
	if len(overlap) > 0 {
		l.t.Fatalf("P1: two turns at once of %v", overlap)
	}
	for _, r := range l.rows() {
		h := l.history(r.Ref)
		escalated, begun := map[int64]int{}, map[int64]int{}
		last := engine.Phase("")
		for i, t := range h {
			if t.From != last || t.N != int64(i+1) {
				l.t.Fatalf("P8: the history of %s does not chain at #%d:\n%s", r.Ref, t.N, l.story(r.Ref))
			}
			last = t.To
			if t.Reason.Code == engine.CodeRetryRequested {
				clear(escalated)
				clear(begun)
			}
			if t.Escalated {
				escalated[t.Generation]++
			}
			switch t.To {
			case engine.Acting:
				begun[t.Generation]++
			case engine.Converged, engine.Degraded:
				begun[t.Generation] = 0
			case engine.Waiting: // blocked, or the controller stopped: not counted
				begun[t.Generation] = max(0, begun[t.Generation]-1)
			}
			// One action converges a leaf, so no step is ever given back.
			if n := begun[t.Generation]; n > 3 {
				l.t.Fatalf("P4: %d acts of %s in generation %d:\n%s", n, r.Ref, t.Generation, l.story(r.Ref))
			}
			if escalated[t.Generation] > 1 {
				l.t.Fatalf("P5: %s escalated %d times in one generation:\n%s", r.Ref, escalated[t.Generation], l.story(r.Ref))
			}
		}
		got, want := engine.Fold(h), r.Status()
		if now := l.row(r.Ref); now.Transitions != int64(len(h)) || now.Revision != r.Revision {
			continue // it moved while we read
		}
		if got != want {
			l.t.Fatalf("P8: fold of %s is %+v, the row says %+v:\n%s", r.Ref, got, want, l.story(r.Ref))
		}
	}
}

// quiet checks what must hold once everything has settled: P2, P6 and P10.
func (l *lab) quiet() {
	l.t.Helper()
	l.invariants()
	rows := l.rows()
	for _, r := range rows {
		l.w.mu.Lock()
		seen := l.w.seen[r.Ref]
		l.w.mu.Unlock()
		if seen < r.Generation && !r.Phase.Terminal() {
			l.t.Fatalf("P2: no turn of %s saw generation %d:\n%s", r.Ref, r.Generation, l.story(r.Ref))
		}
		var kids []engine.Row
		for _, c := range rows {
			if c.Parent == r.Ref {
				kids = append(kids, c)
			}
		}
		if r.Phase.Terminal() {
			for _, c := range kids {
				if !c.Phase.Terminal() {
					l.t.Fatalf("P6: %s is %s and its child %s is %s", r.Ref, r.Phase, c.Ref, c.Phase)
				}
			}
		}
		if r.Ref.Kind == "tree" && !r.Delete && r.Phase != engine.Failed {
			if want, _ := engine.RollUp(kids); r.Phase != want {
				kidStories := ""
				for _, c := range kids {
					kidStories += c.Ref.String() + "\n" + l.story(c.Ref)
				}
				l.t.Fatalf("P10: %s is %s, the roll-up of its children is %s:\n%s%s", r.Ref, r.Phase, want, l.story(r.Ref), kidStories)
			}
		}
	}
}

var errKilled = errors.New("killed")

// killer ends a process between two writes: from its point on, no store call
// and no act of that process has any effect.
type killer struct {
	mu     sync.Mutex
	at     int // the point to die at; negative never
	points int // passed so far
	dead   bool
	stop   func()
}

func (k *killer) reset(stop func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stop, k.dead = stop, false
}

func (k *killer) point(string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.dead {
		return errKilled
	}
	if k.points == k.at {
		k.dead = true
		k.stop()
	}
	k.points++
	if k.dead {
		return errKilled
	}
	return nil
}

func (k *killer) isDead() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.dead
}

// kill ends the process wherever it is.
func (k *killer) kill() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.dead = true
	k.stop()
}

// mortal is a store with a crash point before and after each write.
type mortal struct {
	reconcile.Store
	k *killer
}

func (m *mortal) Load(ctx context.Context, ref engine.Ref) (engine.Snapshot, error) {
	if m.k.isDead() {
		return engine.Snapshot{}, errKilled
	}
	return m.Store.Load(ctx, ref)
}

func (m *mortal) Commit(ctx context.Context, rec engine.Record) (reconcile.Committed, error) {
	if err := m.k.point("before commit"); err != nil {
		return reconcile.Committed{}, err
	}
	c, err := m.Store.Commit(ctx, rec)
	if err != nil {
		return c, err
	}
	if err := m.k.point("after commit"); err != nil {
		return reconcile.Committed{}, err
	}
	return c, nil
}

func (m *mortal) Ack(ctx context.Context, ref engine.Ref, n int64) error {
	if err := m.k.point("before ack"); err != nil {
		return err
	}
	return m.Store.Ack(ctx, ref, n)
}
