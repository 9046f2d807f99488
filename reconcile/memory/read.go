package memory

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// Get implements reconcile.Store.
func (s *Store) Get(_ context.Context, ref engine.Ref) (engine.Row, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.row(ref); r != nil {
		return *r, nil
	}
	return engine.Row{}, reconcile.ErrNotFound
}

// List implements reconcile.Store.
func (s *Store) List(_ context.Context, f reconcile.Filter) ([]engine.Row, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []engine.Row
	for ref, r := range s.rows {
		if f.Kind != "" && f.Kind != ref.Kind || !f.Parent.IsZero() && f.Parent != r.row.Parent ||
			len(f.Phases) > 0 && !slices.Contains(f.Phases, r.row.Phase) {
			continue
		}
		out = append(out, r.row)
	}
	slices.SortFunc(out, func(a, b engine.Row) int { return a.Ref.Compare(b.Ref) })
	return out, nil
}

// Open implements reconcile.Store.
func (s *Store) Open(context.Context) (reconcile.Opened, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out reconcile.Opened
	created := map[engine.Ref]int64{}
	for ref, r := range s.rows {
		created[ref] = r.row.Created
		if !r.row.Phase.Terminal() {
			out.Refs = append(out.Refs, reconcile.OpenRef{Ref: ref, Acting: r.row.Phase == engine.Acting})
		}
		out.Raised = append(out.Raised, r.outbox...)
	}
	slices.SortFunc(out.Refs, func(a, b reconcile.OpenRef) int { return cmp.Compare(created[a.Ref], created[b.Ref]) })
	slices.SortFunc(out.Raised, func(a, b engine.Raise) int { return cmp.Compare(a.N, b.N) })
	return out, nil
}

// History implements reconcile.Store.
func (s *Store) History(_ context.Context, ref engine.Ref, after int64, limit int) ([]engine.Transition, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.rows[ref]
	if r == nil {
		return nil, nil
	}
	from, _ := slices.BinarySearchFunc(r.history, after+1, func(t engine.Transition, n int64) int { return cmp.Compare(t.N, n) })
	ts := r.history[from:]
	if limit > 0 {
		ts = ts[:min(limit, len(ts))]
	}
	return slices.Clone(ts), nil
}

// Trim implements reconcile.Store.
func (s *Store) Trim(ctx context.Context, ref engine.Ref, h engine.History, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.rows[ref]
	if r == nil {
		return nil
	}
	drop := h.Drop(r.history, now)
	if len(drop) == 0 {
		return nil
	}
	return s.write(ctx, Write{At: now, Trimmed: &Trimmed{ref, drop}})
}

// Purge implements reconcile.Store.
func (s *Store) Purge(ctx context.Context, kind string, before time.Time) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var gone []engine.Ref
	for ref, r := range s.rows {
		if ref.Kind == kind && r.row.Phase == engine.Deleted && r.row.Since().Before(before) && len(s.children[ref]) == 0 {
			gone = append(gone, ref)
		}
	}
	if len(gone) == 0 {
		return 0, nil
	}
	slices.SortFunc(gone, engine.Ref.Compare)
	return len(gone), s.write(ctx, Write{Purged: gone})
}
