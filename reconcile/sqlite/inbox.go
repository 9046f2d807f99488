package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/steadyfleet/steady/reconcile/engine"
)

// Deliver implements reconcile.Store.
func (s *Store) Deliver(ctx context.Context, ref engine.Ref, e engine.Event, now time.Time) (r engine.Raise, err error) {
	err = s.inTx(ctx, func(tx *sql.Tx) error {
		r, err = s.DeliverTx(ctx, tx, ref, e, now)
		return err
	})
	return r, err
}

// DeliverTx is Deliver inside the owner's transaction. After the commit call
// Controller.Enqueue with the cause that it returns, if there is one.
func (s *Store) DeliverTx(ctx context.Context, plain *sql.Tx, ref engine.Ref, e engine.Event, now time.Time) (engine.Raise, error) {
	tx, none := fast{plain, s}, engine.Raise{}
	var known, unhandled int
	cur, err := s.find(ctx, tx, ref)
	if err != nil {
		return none, err
	}
	handled := int64(0)
	if cur != nil {
		handled = cur.Handled()
	}
	err = tx.QueryRowContext(ctx, `SELECT
		(SELECT count(*) FROM reconcile_event WHERE kind = ?1 AND id = ?2 AND source = ?3 AND event_id = ?4),
		(SELECT count(*) FROM reconcile_event WHERE kind = ?1 AND id = ?2 AND n > ?5)`,
		ref.Kind, ref.ID, e.Source, e.ID, handled).Scan(&known, &unhandled)
	if err != nil {
		return none, fmt.Errorf("look for an event of %s: %w", ref, err)
	}
	if cur != nil && known > 0 {
		return none, nil
	}
	if e, err = engine.Receive(cur, ref, e, unhandled, now); err != nil {
		return none, err
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO reconcile_event (kind, id, source, event_id, type, at, data) VALUES (?, ?, ?, ?, ?, ?, ?)`,
		ref.Kind, ref.ID, e.Source, e.ID, e.Type, e.At.UnixMilli(), []byte(e.Data)); err != nil {
		return none, fmt.Errorf("write an event of %s: %w", ref, err)
	}
	r := engine.Raise{Ref: ref, Cause: e.Cause()}
	return r, s.raise(ctx, tx, &r)
}

// events reads what was not handled.
func (s *Store) events(ctx context.Context, db *sql.DB, row *engine.Row) ([]engine.Event, error) {
	rows, err := db.QueryContext(ctx, `SELECT n, source, event_id, type, at, data FROM reconcile_event
		WHERE kind = ? AND id = ? AND n > ? ORDER BY n`, row.Ref.Kind, row.Ref.ID, row.Handled())
	return collect(rows, err, "events of "+row.Ref.String(), func(e *engine.Event) error {
		var at int64
		if err := rows.Scan(&e.N, &e.Source, &e.ID, &e.Type, &at, (*[]byte)(&e.Data)); err != nil {
			return err
		}
		e.At = time.UnixMilli(at).UTC()
		return nil
	})
}

// handled drops the data of events up to n.
func (s *Store) handled(ctx context.Context, tx fast, ref engine.Ref, n int64) error {
	if n == 0 {
		return nil
	}
	if _, err := tx.ExecContext(ctx, `UPDATE reconcile_event SET data = NULL WHERE kind = ? AND id = ? AND n <= ? AND data IS NOT NULL`, ref.Kind, ref.ID, n); err != nil {
		return fmt.Errorf("drop the events that %s handled: %w", ref, err)
	}
	return nil
}
