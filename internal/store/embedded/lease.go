package embedded

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/store"
)

// Acquire implements store.Lease.
func (s *Store) Acquire(ctx context.Context, holder string, at clock.Instant) (store.Head, error) {
	const op = "acquire lease"
	if err := store.CheckName("holder", holder); err != nil {
		return store.Head{}, fmt.Errorf("%s: %w", op, err)
	}
	if err := s.enter(ctx); err != nil {
		return store.Head{}, err
	}
	defer s.calls.RUnlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := errors.Join(ctx.Err(), s.alive()); err != nil {
		return store.Head{}, err
	}
	if err := s.reopenAnchor(); err != nil {
		return store.Head{}, s.fail(op, err)
	}
	var head store.Head
	err := s.w.tx(func() error {
		if _, err := s.w.exec(`UPDATE head SET term = max(term, ?) + 1 WHERE id = 1`, int64(s.anchor.last.Term)); err != nil {
			return err
		}
		row, err := s.w.row(selectHead)
		if err != nil {
			return err
		}
		head = headOf(row[0].(int64), row[1].(int64), row[2].([]byte))
		_, err = s.w.exec(`INSERT INTO leases (term, holder, at) VALUES (?, ?, ?)`, row[1], holder, int64(at))
		return err
	})
	if err == nil && s.SetBack() == nil {
		err = s.acknowledge(op, head, false)
	}
	if err != nil {
		return store.Head{}, s.fail(op, err)
	}
	s.advance(head)
	return head, nil
}

// Holder implements store.Lease.
func (s *Store) Holder(ctx context.Context) (store.Holder, error) {
	const op = "read lease"
	if err := s.enter(ctx); err != nil {
		return store.Holder{}, err
	}
	defer s.calls.RUnlock()
	var term, at int64
	var h store.Holder
	const query = `SELECT term, holder, at FROM leases ORDER BY term DESC LIMIT 1`
	err := s.readers.QueryRowContext(ctx, query).Scan(&term, &h.Name, &at)
	if errors.Is(err, sql.ErrNoRows) {
		return store.Holder{}, fmt.Errorf("%s: nobody has acquired it: %w", op, store.ErrNotFound)
	}
	if err != nil {
		return store.Holder{}, s.fail(op, err)
	}
	h.Term, h.At = uint64(term), clock.Instant(at)
	return h, nil
}
