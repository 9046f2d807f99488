package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// Get implements reconcile.Store.
func (s *Store) Get(ctx context.Context, ref engine.Ref) (engine.Row, error) {
	return s.getFrom(ctx, s.db, ref)
}

// GetTx reads one row inside the owner's transaction.
func (s *Store) GetTx(ctx context.Context, tx *sql.Tx, ref engine.Ref) (engine.Row, error) {
	return s.getFrom(ctx, tx, ref)
}

func (s *Store) getFrom(ctx context.Context, q querier, ref engine.Ref) (engine.Row, error) {
	r, err := s.find(ctx, q, ref)
	if err != nil {
		return engine.Row{}, err
	}
	if r == nil {
		return engine.Row{}, reconcile.ErrNotFound
	}
	return *r, nil
}

// List implements reconcile.Store.
func (s *Store) List(ctx context.Context, f reconcile.Filter) ([]engine.Row, error) {
	where, args := []string{"1"}, []any{}
	if f.Kind != "" {
		where, args = append(where, "kind = ?"), append(args, f.Kind)
	}
	if !f.Parent.IsZero() {
		where, args = append(where, "parent_kind = ? AND parent_id = ?"), append(args, f.Parent.Kind, f.Parent.ID)
	}
	if len(f.Phases) > 0 {
		where = append(where, "phase IN (?"+strings.Repeat(", ?", len(f.Phases)-1)+")")
		for _, p := range f.Phases {
			args = append(args, string(p))
		}
	}
	rows, err := s.db.QueryContext(ctx, `SELECT `+columnList+` FROM reconcile_resource WHERE `+strings.Join(where, " AND ")+` ORDER BY kind, id`, args...)
	return collect(rows, err, "list resources", func(r *engine.Row) error { return scan(rows, r) })
}

// collect reads all rows of a query into values.
func collect[T any](rows *sql.Rows, err error, what string, read func(*T) error) ([]T, error) {
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	defer rows.Close()
	var out []T
	for rows.Next() {
		var v T
		if err := read(&v); err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		out = append(out, v)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return out, nil
}

// Open implements reconcile.Store.
func (s *Store) Open(ctx context.Context) (reconcile.Opened, error) {
	var out reconcile.Opened
	if err := s.warm(ctx); err != nil {
		return out, err
	}
	rows, err := s.db.QueryContext(ctx, `SELECT kind, id, phase = 'acting' FROM reconcile_resource
		WHERE phase NOT IN ('deleted', 'orphaned') ORDER BY created`)
	out.Refs, err = collect(rows, err, "list open resources", func(o *reconcile.OpenRef) error {
		return rows.Scan(&o.Ref.Kind, &o.Ref.ID, &o.Acting)
	})
	if err != nil {
		return out, err
	}
	rows, err = s.db.QueryContext(ctx, `SELECT n, kind, id, cause FROM reconcile_trigger ORDER BY n`)
	out.Raised, err = collect(rows, err, "list triggers", func(r *engine.Raise) error {
		var cause []byte
		if err := rows.Scan(&r.N, &r.Ref.Kind, &r.Ref.ID, &cause); err != nil {
			return err
		}
		return json.Unmarshal(cause, &r.Cause)
	})
	return out, err
}

// History implements reconcile.Store.
func (s *Store) History(ctx context.Context, ref engine.Ref, after int64, limit int) ([]engine.Transition, error) {
	if limit == 0 {
		limit = -1
	}
	rows, err := s.db.QueryContext(ctx, `SELECT `+transitionColumns+` FROM reconcile_transition
		WHERE kind = ? AND id = ? AND n > ? ORDER BY n LIMIT ?`, ref.Kind, ref.ID, after, limit)
	return collect(rows, err, "history of "+ref.String(), func(t *engine.Transition) error { return scanTransition(rows, t) })
}

// Trim implements reconcile.Store.
func (s *Store) Trim(ctx context.Context, ref engine.Ref, h engine.History, now time.Time) error {
	ts, err := s.History(ctx, ref, 0, 0)
	if err != nil {
		return err
	}
	drop := h.Drop(ts, now)
	if len(drop) == 0 {
		return nil
	}
	return s.inTx(ctx, func(tx *sql.Tx) error {
		for _, n := range drop {
			if _, err := tx.ExecContext(ctx, `DELETE FROM reconcile_transition WHERE kind = ? AND id = ? AND n = ?`, ref.Kind, ref.ID, n); err != nil {
				return fmt.Errorf("trim the history of %s: %w", ref, err)
			}
		}
		return nil
	})
}

// Purge implements reconcile.Store.
func (s *Store) Purge(ctx context.Context, kind string, before time.Time) (n int, err error) {
	const gone = `FROM reconcile_resource AS r WHERE r.kind = ? AND r.phase = 'deleted' AND r.since < ?
		AND NOT EXISTS (SELECT 1 FROM reconcile_resource AS c WHERE c.parent_kind = r.kind AND c.parent_id = r.id)`
	err = s.inTx(ctx, func(tx *sql.Tx) error {
		for _, table := range []string{"transition", "event", "trigger"} {
			if _, err := tx.ExecContext(ctx, `DELETE FROM reconcile_`+table+` WHERE (kind, id) IN (SELECT r.kind, r.id `+gone+`)`, kind, before.UnixMilli()); err != nil {
				return fmt.Errorf("purge each %s of deleted %s: %w", table, kind, err)
			}
		}
		res, err := tx.ExecContext(ctx, `DELETE FROM reconcile_resource WHERE (kind, id) IN (SELECT r.kind, r.id `+gone+`)`, kind, before.UnixMilli())
		if err != nil {
			return fmt.Errorf("purge deleted %s: %w", kind, err)
		}
		rows, err := res.RowsAffected()
		n = int(rows)
		return err
	})
	return n, err
}
