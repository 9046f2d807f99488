package reconcile_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	_ "modernc.org/sqlite"

	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
	"github.com/steadyfleet/steady/reconcile/reconciletest"
	"github.com/steadyfleet/steady/reconcile/sqlite"
)

var hand = engine.Cause{Trigger: engine.TriggerOperator, ID: "test"}

var (
	leafPolicy = engine.Policy{
		Retry: engine.RetryPolicy{Max: 3, Base: time.Second, Cap: 10 * time.Second}, ActTimeout: 20 * time.Second,
		OnDrift: engine.Enforce, Resync: 5 * time.Minute, CleanupGrace: 2 * time.Minute, Revive: engine.Never, History: engine.History{Keep: 10_000},
	}
	treePolicy = engine.Policy{
		Retry: engine.RetryPolicy{Max: 3}, CleanupGrace: 4 * time.Minute, Revive: engine.Never, OnChildFailure: engine.Continue, History: engine.History{Keep: 10_000},
	}
)

// kept opens one store again and again, as one process after another does, and says how to
// close it.
type kept func() (store reconcile.Store, closeIt func() error, err error)

// storages are the stores that lives are led over; each makes an empty one.
var storages = map[string]func(dir string) kept{
	"sqlite":  inFile,
	"journal": func(string) kept { return inJournal() },
}

func inFile(dir string) kept {
	return func() (reconcile.Store, func() error, error) {
		db, store, err := open(filepath.Join(dir, "lab.db"))
		if err != nil {
			return nil, nil, err
		}
		return store, db.Close, nil
	}
}

func inJournal() kept {
	j := &reconciletest.Journal{}
	return func() (reconcile.Store, func() error, error) {
		store, err := j.Open()
		return store, func() error { return nil }, err
	}
}

// lab is a world, what is kept of it in a store, and one process after another.
type lab struct {
	t      testkit.T
	kept   kept
	w      *world
	opts   []reconcile.Option
	tree   engine.Policy
	leaf   engine.Policy
	killer *reconciletest.Crasher
	note   func(engine.Ref, engine.Decision) // of every decision
	first  func(*reconcile.Controller)       // before a process runs
	p      *process
}

// noting is a reconciler whose decisions are noted.
type noting[D, O any] struct {
	reconcile.Reconciler[D, O]
	note func(engine.Ref, engine.Decision)
}

func (n noting[D, O]) Decide(v engine.View[D, O]) engine.Decision {
	d := n.Reconciler.Decide(v)
	n.note(v.Resource.Ref, d)
	return d
}

// process is one life of a controller.
type process struct {
	store   reconcile.Store
	closeIt func() error
	loop    *reconcile.Controller
	stop    context.CancelFunc
	done    chan error
}

func newLab(t testkit.T, in kept) *lab {
	return &lab{
		t: t, kept: in, w: newWorld(), tree: treePolicy, leaf: leafPolicy, killer: reconciletest.NewCrasher(-1),
		note: func(engine.Ref, engine.Decision) {}, first: func(*reconcile.Controller) {},
	}
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
	store, closeIt, err := l.kept()
	l.check(err)
	p := &process{store: store, closeIt: closeIt, done: make(chan error, 1)}
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	l.killer.Begin(stop)
	l.w.hook = l.killer.Point
	opts := append([]reconcile.Option{reconcile.WithPurityChecks(), reconcile.WithWorkers(4)}, l.opts...)
	p.loop = reconcile.New(l.killer.Store(p.store), opts...)
	l.check(reconcile.Register(p.loop, "leaf", noting[leaf, leafSeen]{leaves{l.w}, l.note}, l.leaf))
	l.check(reconcile.Register(p.loop, "tree", noting[tree, struct{}]{trees{l.w}, l.note}, l.tree))
	l.first(p.loop)
	go func() { p.done <- p.loop.Run(ctx) }()
	l.p = p
}

func (l *lab) stop() {
	l.t.Helper()
	l.p.stop()
	if err := <-l.p.done; err != nil && !errors.Is(err, reconciletest.ErrCrashed) {
		l.t.Fatalf("the loop ended with %v", err)
	}
	l.check(l.p.closeIt())
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

// queued checks that no resource is left with nothing queued. It waits until nothing can happen
// without time: between a commit of the lab and its Enqueue there is such a resource.
func (l *lab) queued() {
	l.t.Helper()
	synctest.Wait()
	left, err := l.p.loop.LeftAlone(context.Background())
	l.check(err)
	for _, ref := range left {
		l.t.Fatalf("nothing is queued of %s, which wants a turn:\n%s", ref, l.story(ref))
	}
	if n := l.p.loop.Stats().Repaired; n != 0 {
		l.t.Fatalf("%d resources were left with nothing queued", n)
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
