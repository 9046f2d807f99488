// Package memory keeps the rows, history, inbox and trigger outbox of the reconcile framework
// in memory. What it writes can be journalled, and a store be made again of a journal: its
// state is a fold over its writes.
package memory

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// Store implements reconcile.Store.
type Store struct {
	journal func(context.Context, Write) error

	mu                        sync.Mutex
	rows                      map[engine.Ref]*resource
	children                  map[engine.Ref]map[engine.Ref]struct{}
	created, raised, received int64 // numbers given out
}

// resource is all that is kept of one.
type resource struct {
	row     engine.Row
	history []engine.Transition
	inbox   []engine.Event
	outbox  []engine.Raise
}

var _ reconcile.Store = (*Store)(nil)

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
	s := &Store{
		journal: func(context.Context, Write) error { return nil },
		rows:    map[engine.Ref]*resource{}, children: map[engine.Ref]map[engine.Ref]struct{}{},
	}
	for _, o := range opts {
		o(s)
	}
	return s
}

// of is what is kept of ref, which has a row; the caller has mu.
func (s *Store) of(ref engine.Ref) *resource {
	r := s.rows[ref]
	if r == nil {
		r = &resource{}
		s.rows[ref] = r
	}
	return r
}

func (s *Store) put(row engine.Row) {
	r := s.of(row.Ref)
	if old := r.row.Parent; old != row.Parent {
		delete(s.children[old], row.Ref)
	}
	if p := row.Parent; !p.IsZero() {
		if s.children[p] == nil {
			s.children[p] = map[engine.Ref]struct{}{}
		}
		s.children[p][row.Ref] = struct{}{}
	}
	s.created = max(s.created, row.Created)
	r.row = row
}

func (s *Store) remove(ref engine.Ref) {
	if r := s.rows[ref]; r != nil {
		delete(s.children[r.row.Parent], ref)
	}
	delete(s.rows, ref)
	if len(s.children[ref]) == 0 {
		delete(s.children, ref)
	}
}

// write journals a write and folds it; the caller has mu.
func (s *Store) write(ctx context.Context, w Write) error {
	if err := s.journal(ctx, w); err != nil {
		return err
	}
	return s.fold(w)
}

// row is the row of ref, nil if there is none; the caller has mu.
func (s *Store) row(ref engine.Ref) *engine.Row {
	if r := s.rows[ref]; r != nil {
		row := r.row
		return &row
	}
	return nil
}

// number gives a new row its place in the order of creation, behind the other new rows of a write.
func (s *Store) number(rows []engine.Row) []Row {
	out, next := make([]Row, len(rows)), s.created
	for i, r := range rows {
		if r.Created == 0 {
			next++
			r.Created = next
		}
		out[i] = rowOf(r)
	}
	return out
}

// Load implements reconcile.Store.
func (s *Store) Load(_ context.Context, ref engine.Ref) (snap engine.Snapshot, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.rows[ref]
	if r == nil {
		return snap, reconcile.ErrNotFound
	}
	snap.Row, snap.Parent = r.row, s.row(r.row.Parent)
	for c := range s.children[ref] {
		snap.Children = append(snap.Children, s.rows[c].row)
	}
	slices.SortFunc(snap.Children, func(a, b engine.Row) int {
		return cmp.Or(cmp.Compare(a.Order, b.Order), cmp.Compare(a.Created, b.Created))
	})
	for _, e := range r.inbox {
		if e.N > r.row.Handled() {
			snap.Events = append(snap.Events, e)
		}
	}
	if n := len(r.outbox); n > 0 {
		snap.TriggerN = r.outbox[n-1].N
	}
	return snap, nil
}

// Commit implements reconcile.Store.
func (s *Store) Commit(ctx context.Context, rec engine.Record) (out reconcile.Committed, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ref := rec.Row.Ref
	if cur := s.row(ref); cur == nil || cur.Revision != rec.Expect {
		return out, reconcile.ErrConflict
	}
	rows, ts, err := engine.Expand(rec, func(r engine.Ref) (*engine.Row, error) { return s.row(r), nil })
	if err != nil {
		return out, err
	}
	out.Transitions = slices.Concat(rec.Transitions, ts)
	w := Write{At: rec.Now, Rows: s.number(append([]engine.Row{rec.Row}, rows...)), Transitions: out.Transitions}
	if rec.NoHistory {
		w.Transitions = ts
	}
	for i, r := range rec.Raises {
		r.N = s.raised + int64(i) + 1
		out.Raised = append(out.Raised, r)
		w.Raised = append(w.Raised, Raised(r))
	}
	if rec.AckTrigger != 0 {
		w.Acked = &UpTo{ref, rec.AckTrigger}
	}
	if rec.Handled != 0 {
		w.Handled = &UpTo{ref, rec.Handled}
	}
	if err := s.write(ctx, w); err != nil {
		return reconcile.Committed{}, err
	}
	return out, nil
}

// Ack implements reconcile.Store.
func (s *Store) Ack(ctx context.Context, ref engine.Ref, n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rows[ref] == nil || n == 0 {
		return nil
	}
	return s.write(ctx, Write{Acked: &UpTo{ref, n}})
}

// Apply implements reconcile.Store.
func (s *Store) Apply(ctx context.Context, in engine.Intent, now time.Time, cause engine.Cause) (engine.Change, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	row, ch, err := engine.ApplyIntent(s.row(in.Ref), nil, in, now, cause)
	if err != nil || !ch.Changed {
		return ch, err
	}
	return ch, s.write(ctx, Write{At: now, Rows: s.number([]engine.Row{row}), Transitions: ch.Transition})
}

// Deliver implements reconcile.Store.
func (s *Store) Deliver(ctx context.Context, ref engine.Ref, e engine.Event, now time.Time) (none engine.Raise, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	cur, unhandled := s.row(ref), 0
	if cur != nil {
		for _, known := range s.rows[ref].inbox {
			if known.Source == e.Source && known.ID == e.ID {
				return none, nil
			}
			if known.N > cur.Handled() {
				unhandled++
			}
		}
	}
	if err := engine.Receive(cur, ref, e, unhandled); err != nil {
		return none, err
	}
	e.N, e.At = s.received+1, now.UTC().Truncate(time.Millisecond)
	r := engine.Raise{N: s.raised + 1, Ref: ref, Cause: e.Cause()}
	if err := s.write(ctx, Write{At: now, Events: []Received{{ref, e}}, Raised: []Raised{Raised(r)}}); err != nil {
		return none, err
	}
	return r, nil
}
