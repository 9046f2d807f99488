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

// WithPrefix sets the prefix of the table names; the default is "reconcile_".
func WithPrefix(p string) Option { return func(s *Store) { s.prefix = p } }

// WithOnTransition adds a callback; see OnTransition.
func WithOnTransition(f OnTransition) Option { return func(s *Store) { s.on = append(s.on, f) } }

// Store implements reconcile.Store on a *sql.DB that it does not own. The
// database should have WAL mode, a busy timeout, and immediate transactions
// (_txlock=immediate with modernc.org/sqlite).
type Store struct {
	db     *sql.DB
	prefix string
	on     []OnTransition
	q      queries

	mu       sync.Mutex
	prepared map[string]*sql.Stmt // by text; they end with the database
}

var _ reconcile.Store = (*Store)(nil)

// queries are the statements with the prefix filled in.
type queries struct {
	get, load, put, count, insert, raise, ack, cas string
}

// New makes a store. Call Migrate before first use.
func New(db *sql.DB, opts ...Option) *Store {
	s := &Store{db: db, prefix: "reconcile_", prepared: map[string]*sql.Stmt{}}
	for _, o := range opts {
		o(s)
	}
	marks := "?" + strings.Repeat(", ?", strings.Count(columnList, ","))
	s.q = queries{
		get: s.sql(`SELECT ` + columnList + ` FROM {p}resource WHERE kind = ? AND id = ?`),
		load: s.sql(`SELECT 0, (SELECT coalesce(max(n), 0) FROM {p}trigger WHERE kind = ?1 AND id = ?2), ` + columnList + `
				FROM {p}resource WHERE kind = ?1 AND id = ?2
			UNION ALL SELECT 1, 0, ` + parentList + ` FROM {p}resource WHERE (kind, id) =
				(SELECT parent_kind, parent_id FROM {p}resource WHERE kind = ?1 AND id = ?2)
			UNION ALL SELECT 2, 0, ` + columnList + ` FROM {p}resource WHERE parent_kind = ?1 AND parent_id = ?2
			ORDER BY 1, 8, 7`),
		put:    s.sql(`INSERT OR REPLACE INTO {p}resource (` + columnList + `) VALUES (` + marks + `)`),
		count:  s.sql(`UPDATE {p}counter SET value = value + 1 WHERE name = 'created' RETURNING value`),
		insert: s.sql(`INSERT INTO {p}transition (` + transitionColumns + `) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`),
		raise:  s.sql(`INSERT INTO {p}trigger (kind, id, cause) VALUES (?, ?, ?)`),
		ack:    s.sql(`DELETE FROM {p}trigger WHERE kind = ? AND id = ? AND n <= ?`),
		cas:    s.sql(`SELECT count(*) FROM {p}resource WHERE kind = ? AND id = ? AND revision = ?`),
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
	q := &s.q
	for _, text := range []string{q.get, q.load, q.put, q.count, q.insert, q.raise, q.ack, q.cas} {
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

// Load implements reconcile.Store. One statement is one consistent read.
func (s *Store) Load(ctx context.Context, ref engine.Ref) (snap engine.Snapshot, err error) {
	stmt, err := s.prepare(ctx, s.q.load)
	if err != nil {
		return snap, fmt.Errorf("load %s: %w", ref, err)
	}
	rows, err := stmt.QueryContext(ctx, ref.Kind, ref.ID)
	if err != nil {
		return snap, fmt.Errorf("load %s: %w", ref, err)
	}
	defer rows.Close()
	found := false
	for rows.Next() {
		var what int
		var trigger int64
		var r engine.Row
		if err := scan(rows, &r, &what, &trigger); err != nil {
			return snap, fmt.Errorf("load %s: %w", ref, err)
		}
		switch what {
		case 0:
			snap.Row, snap.TriggerN, found = r, trigger, true
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
	return snap, nil
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
	if err := tx.QueryRowContext(ctx, s.q.cas, ref.Kind, ref.ID, rec.Expect).Scan(&match); err != nil {
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
		cause, err := json.Marshal(r.Cause)
		if err != nil {
			return none, fmt.Errorf("encode a cause for %s: %w", r.Ref, err)
		}
		res, err := tx.ExecContext(ctx, s.q.raise, r.Ref.Kind, r.Ref.ID, string(cause))
		if err != nil {
			return none, fmt.Errorf("raise a trigger for %s: %w", r.Ref, err)
		}
		if r.N, err = res.LastInsertId(); err != nil {
			return none, fmt.Errorf("number a trigger for %s: %w", r.Ref, err)
		}
		out.Raised = append(out.Raised, r)
	}
	return out, s.ack(ctx, tx, ref, rec.AckTrigger)
}

func (s *Store) ack(ctx context.Context, q querier, ref engine.Ref, n int64) error {
	if n == 0 {
		return nil
	}
	if _, err := q.ExecContext(ctx, s.q.ack, ref.Kind, ref.ID, n); err != nil {
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
