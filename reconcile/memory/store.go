// Package memory keeps the rows, history, inboxes and trigger outbox of the reconcile framework
// in memory. What it writes can be journalled, and a store be made again of a journal. It is a
// package of its own because a program links the one store that it uses.
package memory

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// Write is what one call changed, as data.
type Write = engine.Write

// Store implements reconcile.Store: a table behind a lock.
type Store struct {
	journal func(context.Context, Write) error

	mu    sync.RWMutex
	table *engine.Table

	claimed atomic.Bool
}

var (
	_ reconcile.Store   = (*Store)(nil)
	_ reconcile.Claimer = (*Store)(nil)
)

// Claim implements reconcile.Claimer.
func (s *Store) Claim() (release func(), err error) {
	if !s.claimed.CompareAndSwap(false, true) {
		return nil, reconcile.ErrStoreInUse
	}
	return sync.OnceFunc(func() { s.claimed.Store(false) }), nil
}

// Option configures a Store.
type Option func(*Store)

// WithJournal hands every write to f before it counts: an error of f is that of the call, and
// nothing has changed. Calls wait for each other: f has the writes in their order. It must
// not call the store.
func WithJournal(f func(context.Context, Write) error) Option {
	return func(s *Store) { s.journal = f }
}

// New makes an empty store.
func New(opts ...Option) *Store {
	s := &Store{journal: func(context.Context, Write) error { return nil }, table: engine.NewTable()}
	for _, o := range opts {
		o(s)
	}
	return s
}

// Fold applies a write of another store, which is not journalled. It fails on a row that does not
// decode, with nothing changed.
func (s *Store) Fold(w Write) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.table.Fold(w)
}

// write has f decide what to write, journals that and folds it.
func (s *Store) write(ctx context.Context, f func(*engine.Table) (Write, error)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	w, err := f(s.table)
	if err != nil || w.IsZero() {
		return err
	}
	if err := s.journal(ctx, w); err != nil {
		return err
	}
	return s.table.Fold(w)
}

// Commit implements reconcile.Store.
func (s *Store) Commit(ctx context.Context, rec engine.Record) (out reconcile.Committed, err error) {
	err = s.write(ctx, func(t *engine.Table) (w Write, err error) {
		w, out, err = t.Commit(rec)
		return w, err
	})
	if err != nil {
		return reconcile.Committed{}, err
	}
	return out, nil
}

// Ack implements reconcile.Store.
func (s *Store) Ack(ctx context.Context, ref engine.Ref, n int64) error {
	return s.write(ctx, func(t *engine.Table) (Write, error) { return t.Ack(ref, n), nil })
}

// Apply implements reconcile.Store.
func (s *Store) Apply(ctx context.Context, in engine.Intent, now time.Time, cause engine.Cause) (ch engine.Change, err error) {
	err = s.write(ctx, func(t *engine.Table) (w Write, err error) {
		w, ch, err = t.Apply(in, now, cause)
		return w, err
	})
	return ch, err
}

// Deliver implements reconcile.Store.
func (s *Store) Deliver(ctx context.Context, ref engine.Ref, e engine.Event, now time.Time) (r engine.Raise, err error) {
	err = s.write(ctx, func(t *engine.Table) (w Write, err error) {
		w, r, err = t.Deliver(ref, e, now)
		return w, err
	})
	return r, err
}

// Trim implements reconcile.Store.
func (s *Store) Trim(ctx context.Context, ref engine.Ref, h engine.History, now time.Time) error {
	return s.write(ctx, func(t *engine.Table) (Write, error) { return t.Trim(ref, h, now), nil })
}

// Purge implements reconcile.Store.
func (s *Store) Purge(ctx context.Context, kind string, before time.Time) (n int, err error) {
	err = s.write(ctx, func(t *engine.Table) (Write, error) {
		w := t.Purge(kind, before)
		n = len(w.Purged)
		return w, nil
	})
	return n, err
}

// Load implements reconcile.Store.
func (s *Store) Load(_ context.Context, ref engine.Ref) (engine.Snapshot, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.table.Load(ref)
}

// Get implements reconcile.Store.
func (s *Store) Get(_ context.Context, ref engine.Ref) (engine.Row, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.table.Get(ref)
}

// List implements reconcile.Store.
func (s *Store) List(_ context.Context, f reconcile.Filter) ([]engine.Row, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.table.List(f), nil
}

// Open implements reconcile.Store.
func (s *Store) Open(context.Context) (reconcile.Opened, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.table.Open(), nil
}

// History implements reconcile.Store.
func (s *Store) History(_ context.Context, ref engine.Ref, after int64, limit int) ([]engine.Transition, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.table.History(ref, after, limit), nil
}
