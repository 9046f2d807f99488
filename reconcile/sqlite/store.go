// Package sqlite keeps the rows, history and trigger outbox of the reconcile
// framework in tables of a SQLite database that its owner opened and shares
// with other tables.
package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// OnTransition is called inside the transaction that writes t, for example to
// put an event into the owner's outbox. Its error rolls the transaction back.
type OnTransition func(ctx context.Context, tx *sql.Tx, t engine.Transition) error

// Option configures a Store.
type Option func(*Store)

// WithOnTransition adds a callback; see OnTransition.
func WithOnTransition(f OnTransition) Option { return func(s *Store) { s.on = append(s.on, f) } }

// Store implements reconcile.Store on a *sql.DB that it does not own. The
// database should have WAL mode, a busy timeout, and immediate transactions
// (_txlock=immediate with modernc.org/sqlite).
type Store struct {
	db *sql.DB
	on []OnTransition

	mu       sync.Mutex
	prepared map[string]*sql.Stmt // by text; they end with the database
}

var _ reconcile.Store = (*Store)(nil)

// What every commit uses.
var (
	getQuery  = `SELECT ` + columnList + ` FROM reconcile_resource WHERE kind = ? AND id = ?`
	loadQuery = `SELECT 0, (SELECT coalesce(max(n), 0) FROM reconcile_trigger WHERE kind = ?1 AND id = ?2),
			(SELECT coalesce(max(n), 0) FROM reconcile_event WHERE kind = ?1 AND id = ?2), ` + columnList + `
			FROM reconcile_resource WHERE kind = ?1 AND id = ?2
		UNION ALL SELECT 1, 0, 0, ` + parentList + ` FROM reconcile_resource WHERE (kind, id) =
			(SELECT parent_kind, parent_id FROM reconcile_resource WHERE kind = ?1 AND id = ?2)
		UNION ALL SELECT 2, 0, 0, ` + columnList + ` FROM reconcile_resource INDEXED BY reconcile_resource_live
			WHERE parent_kind = ?1 AND parent_id = ?2 AND phase <> 'deleted'
		ORDER BY 1, 9, 8`
	putQuery    = `INSERT OR REPLACE INTO reconcile_resource (` + columnList + `) VALUES (?` + strings.Repeat(", ?", strings.Count(columnList, ",")) + `)`
	countQuery  = `UPDATE reconcile_counter SET value = value + 1 WHERE name = 'created' RETURNING value`
	insertQuery = `INSERT INTO reconcile_transition (` + transitionColumns + `) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	raiseQuery  = `INSERT INTO reconcile_trigger (kind, id, cause) VALUES (?, ?, ?)`
	ackQuery    = `DELETE FROM reconcile_trigger WHERE kind = ? AND id = ? AND n <= ?`
	casQuery    = `SELECT count(*) FROM reconcile_resource WHERE kind = ? AND id = ? AND revision = ?`
)

// New makes a store. Call Migrate before first use.
func New(db *sql.DB, opts ...Option) *Store {
	s := &Store{db: db, prepared: map[string]*sql.Stmt{}}
	for _, o := range opts {
		o(s)
	}
	return s
}

// prepare returns a statement that is parsed once per connection. It must not
// be called inside a transaction: it may need a connection of its own.
func (s *Store) prepare(ctx context.Context, text string) (*sql.Stmt, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st := s.prepared[text]; st != nil {
		return st, nil
	}
	st, err := s.db.PrepareContext(ctx, text)
	if err != nil {
		return nil, fmt.Errorf("prepare: %w", err)
	}
	s.prepared[text] = st
	return st, nil
}

// warm prepares what every commit uses.
func (s *Store) warm(ctx context.Context) error {
	for _, text := range []string{getQuery, loadQuery, putQuery, countQuery, insertQuery, raiseQuery, ackQuery, casQuery} {
		if _, err := s.prepare(ctx, text); err != nil {
			return err
		}
	}
	return nil
}

// fast is a transaction that uses the prepared statements where there are any.
type fast struct {
	*sql.Tx
	s *Store
}

func (f fast) stmt(ctx context.Context, text string) *sql.Stmt {
	f.s.mu.Lock()
	st := f.s.prepared[text]
	f.s.mu.Unlock()
	if st == nil {
		return nil
	}
	return f.StmtContext(ctx, st)
}

func (f fast) ExecContext(ctx context.Context, text string, args ...any) (sql.Result, error) {
	if st := f.stmt(ctx, text); st != nil {
		return st.ExecContext(ctx, args...)
	}
	return f.Tx.ExecContext(ctx, text, args...)
}

func (f fast) QueryRowContext(ctx context.Context, text string, args ...any) *sql.Row {
	if st := f.stmt(ctx, text); st != nil {
		return st.QueryRowContext(ctx, args...)
	}
	return f.Tx.QueryRowContext(ctx, text, args...)
}

// Load implements reconcile.Store. One statement is one consistent read; an event that comes
// after it has a trigger that is not acknowledged with it.
func (s *Store) Load(ctx context.Context, ref engine.Ref) (snap engine.Snapshot, err error) {
	stmt, err := s.prepare(ctx, loadQuery)
	if err != nil {
		return snap, fmt.Errorf("load %s: %w", ref, err)
	}
	rows, err := stmt.QueryContext(ctx, ref.Kind, ref.ID)
	if err != nil {
		return snap, fmt.Errorf("load %s: %w", ref, err)
	}
	defer rows.Close()
	found, newest := false, int64(0)
	for rows.Next() {
		var what int
		var trigger, event int64
		var r engine.Row
		if err := scan(rows, &r, &what, &trigger, &event); err != nil {
			return snap, fmt.Errorf("load %s: %w", ref, err)
		}
		switch what {
		case 0:
			snap.Row, snap.TriggerN, newest, found = r, trigger, event, true
		case 1:
			snap.Parent = &r
		case 2:
			snap.Children = append(snap.Children, r)
		}
	}
	if err := rows.Err(); err != nil {
		return snap, fmt.Errorf("load %s: %w", ref, err)
	}
	if !found {
		return snap, reconcile.ErrNotFound
	}
	if newest > snap.Row.Handled() {
		snap.Events, err = s.events(ctx, s.db, &snap.Row)
	}
	return snap, err
}

// Commit implements reconcile.Store.
func (s *Store) Commit(ctx context.Context, rec engine.Record) (out reconcile.Committed, err error) {
	err = s.inTx(ctx, func(tx *sql.Tx) error {
		out, err = s.commit(ctx, tx, rec)
		return err
	})
	if err != nil {
		return reconcile.Committed{}, err
	}
	return out, nil
}

func (s *Store) inTx(ctx context.Context, f func(*sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	if err := f(tx); err != nil {
		_ = tx.Rollback() // f's error is the one that matters
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

func (s *Store) commit(ctx context.Context, plain *sql.Tx, rec engine.Record) (reconcile.Committed, error) {
	tx := fast{plain, s}
	var none reconcile.Committed
	ref := rec.Row.Ref
	var match int
	if err := tx.QueryRowContext(ctx, casQuery, ref.Kind, ref.ID, rec.Expect).Scan(&match); err != nil {
		return none, fmt.Errorf("read the revision of %s: %w", ref, err)
	}
	if match == 0 {
		return none, reconcile.ErrConflict
	}
	rows, ts, err := engine.Expand(rec, func(r engine.Ref) (*engine.Row, error) { return s.find(ctx, tx, r) })
	if err != nil {
		return none, err
	}
	if err := s.put(ctx, tx, rec.Row); err != nil {
		return none, err
	}
	for _, r := range rows {
		if err := s.put(ctx, tx, r); err != nil {
			return none, err
		}
	}
	out := reconcile.Committed{Transitions: append(rec.Transitions[:len(rec.Transitions):len(rec.Transitions)], ts...)}
	skip := func(t engine.Transition) bool { return rec.NoHistory && t.Ref == ref }
	if err := s.announce(ctx, tx, out.Transitions, skip); err != nil {
		return none, err
	}
	for _, r := range rec.Raises {
		if err := s.raise(ctx, tx, &r); err != nil {
			return none, err
		}
		out.Raised = append(out.Raised, r)
	}
	if err := s.handled(ctx, tx, ref, rec.Handled); err != nil {
		return none, err
	}
	return out, s.ack(ctx, tx, ref, rec.AckTrigger)
}

// raise writes a trigger and numbers it.
func (s *Store) raise(ctx context.Context, tx fast, r *engine.Raise) error {
	cause, err := json.Marshal(r.Cause)
	if err != nil {
		return fmt.Errorf("encode a cause for %s: %w", r.Ref, err)
	}
	res, err := tx.ExecContext(ctx, raiseQuery, r.Ref.Kind, r.Ref.ID, string(cause))
	if err != nil {
		return fmt.Errorf("raise a trigger for %s: %w", r.Ref, err)
	}
	if r.N, err = res.LastInsertId(); err != nil {
		return fmt.Errorf("number a trigger for %s: %w", r.Ref, err)
	}
	return nil
}

func (s *Store) ack(ctx context.Context, q querier, ref engine.Ref, n int64) error {
	if n == 0 {
		return nil
	}
	if _, err := q.ExecContext(ctx, ackQuery, ref.Kind, ref.ID, n); err != nil {
		return fmt.Errorf("acknowledge triggers of %s: %w", ref, err)
	}
	return nil
}

// Ack implements reconcile.Store.
func (s *Store) Ack(ctx context.Context, ref engine.Ref, n int64) error {
	return s.ack(ctx, s.db, ref, n)
}

// Apply implements reconcile.Store.
func (s *Store) Apply(ctx context.Context, in engine.Intent, now time.Time, cause engine.Cause) (ch engine.Change, err error) {
	err = s.inTx(ctx, func(tx *sql.Tx) error {
		ch, err = s.ApplyTx(ctx, tx, in, now, cause)
		return err
	})
	return ch, err
}

// ApplyTx sets what is desired of a root inside the owner's transaction. After
// the commit call Controller.Enqueue with the same cause. tx must be of the database
// given to New.
func (s *Store) ApplyTx(ctx context.Context, plain *sql.Tx, in engine.Intent, now time.Time, cause engine.Cause) (engine.Change, error) {
	tx := fast{plain, s}
	cur, err := s.find(ctx, tx, in.Ref)
	if err != nil {
		return engine.Change{}, err
	}
	row, ch, err := engine.ApplyIntent(cur, nil, in, now, cause)
	if err != nil || !ch.Changed {
		return ch, err
	}
	if err := s.put(ctx, tx, row); err != nil {
		return engine.Change{}, err
	}
	return ch, s.announce(ctx, tx, ch.Transition, func(engine.Transition) bool { return false })
}
