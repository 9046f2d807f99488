package reconcile

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/steadyfleet/steady/reconcile/engine"
)

// MemoryStore is a Store without a disk, for examples, benchmarks and simulations of many
// controllers. Its zero value is not usable; see NewMemory.
type MemoryStore struct {
	mu       sync.Mutex
	rows     map[engine.Ref]engine.Row
	children map[engine.Ref][]engine.Ref // by parent, in order of creation
	history  map[engine.Ref][]engine.Transition
	outbox   []engine.Raise
	created  int64
	raised   int64
}

var _ Store = (*MemoryStore)(nil)

// NewMemory returns an empty store.
func NewMemory() *MemoryStore {
	return &MemoryStore{
		rows:     map[engine.Ref]engine.Row{},
		children: map[engine.Ref][]engine.Ref{},
		history:  map[engine.Ref][]engine.Transition{},
	}
}

// Load implements reconcile.Store.
func (s *MemoryStore) Load(_ context.Context, ref engine.Ref) (engine.Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	row, ok := s.rows[ref]
	if !ok {
		return engine.Snapshot{}, ErrNotFound
	}
	snap := engine.Snapshot{Row: row}
	if p, ok := s.rows[row.Parent]; ok {
		snap.Parent = &p
	}
	for _, c := range s.children[ref] {
		snap.Children = append(snap.Children, s.rows[c])
	}
	slices.SortStableFunc(snap.Children, func(a, b engine.Row) int { return a.Order - b.Order })
	for _, r := range s.outbox {
		if r.Ref == ref {
			snap.TriggerN = r.N
		}
	}
	return snap, nil
}

func (s *MemoryStore) find(ref engine.Ref) (*engine.Row, error) {
	if r, ok := s.rows[ref]; ok {
		return &r, nil
	}
	return nil, nil
}

func (s *MemoryStore) put(r engine.Row) {
	old, ok := s.rows[r.Ref]
	if !ok {
		s.created++
		r.Created = s.created
	}
	if ok && old.Parent != r.Parent {
		s.unlink(old)
	}
	if (!ok || old.Parent != r.Parent) && !r.Parent.IsZero() {
		s.children[r.Parent] = append(s.children[r.Parent], r.Ref)
	}
	s.rows[r.Ref] = r
}

func (s *MemoryStore) unlink(r engine.Row) {
	s.children[r.Parent] = slices.DeleteFunc(s.children[r.Parent], func(c engine.Ref) bool { return c == r.Ref })
}

// Commit implements reconcile.Store.
func (s *MemoryStore) Commit(_ context.Context, rec engine.Record) (Committed, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	cur, ok := s.rows[rec.Row.Ref]
	if !ok || cur.Revision != rec.Expect {
		return Committed{}, ErrConflict
	}
	rows, ts, err := engine.Expand(rec, s.find)
	if err != nil {
		return Committed{}, err
	}
	s.put(rec.Row)
	for _, r := range rows {
		s.put(r)
	}
	out := Committed{Transitions: append(slices.Clone(rec.Transitions), ts...)}
	for _, t := range out.Transitions {
		if rec.NoHistory && t.Ref == rec.Row.Ref {
			continue
		}
		s.history[t.Ref] = append(s.history[t.Ref], t)
	}
	for _, r := range rec.Raises {
		s.raised++
		r.N = s.raised
		s.outbox = append(s.outbox, r)
		out.Raised = append(out.Raised, r)
	}
	s.ack(rec.Row.Ref, rec.AckTrigger)
	return out, nil
}

func (s *MemoryStore) ack(ref engine.Ref, n int64) {
	if n > 0 {
		s.outbox = slices.DeleteFunc(s.outbox, func(r engine.Raise) bool { return r.Ref == ref && r.N <= n })
	}
}

// Ack implements reconcile.Store.
func (s *MemoryStore) Ack(_ context.Context, ref engine.Ref, n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ack(ref, n)
	return nil
}

// Open implements reconcile.Store.
func (s *MemoryStore) Open(context.Context) (Opened, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := Opened{Raised: slices.Clone(s.outbox)}
	for _, r := range s.sorted() {
		if !r.Phase.Terminal() {
			out.Refs = append(out.Refs, OpenRef{Ref: r.Ref, Acting: r.Phase == engine.Acting})
		}
	}
	return out, nil
}

func (s *MemoryStore) sorted() []engine.Row {
	all := make([]engine.Row, 0, len(s.rows))
	for _, r := range s.rows {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b engine.Row) int { return a.Ref.Compare(b.Ref) })
	return all
}

// Apply implements reconcile.Store.
func (s *MemoryStore) Apply(_ context.Context, in engine.Intent, now time.Time, cause engine.Cause) (engine.Change, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	cur, _ := s.find(in.Ref)
	row, ch, err := engine.ApplyIntent(cur, nil, in, now, cause)
	if err != nil || !ch.Changed {
		return ch, err
	}
	s.put(row)
	s.history[in.Ref] = append(s.history[in.Ref], ch.Transition...)
	return ch, nil
}

// Get implements reconcile.Store.
func (s *MemoryStore) Get(_ context.Context, ref engine.Ref) (engine.Row, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.rows[ref]
	if !ok {
		return engine.Row{}, ErrNotFound
	}
	return r, nil
}

// List implements reconcile.Store.
func (s *MemoryStore) List(_ context.Context, f Filter) ([]engine.Row, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(s.sorted(), func(r engine.Row) bool { return !f.Match(r) }), nil
}

// History implements reconcile.Store.
func (s *MemoryStore) History(_ context.Context, ref engine.Ref, after int64, limit int) ([]engine.Transition, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []engine.Transition
	for _, t := range s.history[ref] {
		if t.N > after && (limit == 0 || len(out) < limit) {
			out = append(out, t)
		}
	}
	return out, nil
}

// Trim implements reconcile.Store.
func (s *MemoryStore) Trim(_ context.Context, ref engine.Ref, h engine.History, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	drop := h.Drop(s.history[ref], now)
	s.history[ref] = slices.DeleteFunc(s.history[ref], func(t engine.Transition) bool { return slices.Contains(drop, t.N) })
	return nil
}

// Purge implements reconcile.Store.
func (s *MemoryStore) Purge(_ context.Context, kind string, before time.Time) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, r := range s.sorted() {
		if r.Ref.Kind != kind || r.Phase != engine.Deleted || !r.Since().Before(before) || len(s.children[r.Ref]) > 0 {
			continue
		}
		delete(s.rows, r.Ref)
		delete(s.history, r.Ref)
		s.unlink(r)
		n++
	}
	return n, nil
}
