// Package sqlite keeps the rows, history and trigger outbox of the reconcile
// framework in tables of a SQLite database that its owner opened and shares
// with other tables.
package sqlite

import (
	"context"
	"database/sql"

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
}

// New makes a store. Call Migrate before first use.
func New(db *sql.DB, opts ...Option) *Store {
	s := &Store{db: db, prefix: "reconcile_"}
	for _, o := range opts {
		o(s)
	}
	return s
}

// Migrate creates or upgrades the tables, inside the owner's transaction. It
// refuses a schema newer than this code.
func (s *Store) Migrate(ctx context.Context, tx *sql.Tx) error { panic("filled in by the next commit") }

// ApplyTx sets what is desired of a root inside the owner's transaction. After
// the commit call Loop.Kick with the same cause.
func (s *Store) ApplyTx(ctx context.Context, tx *sql.Tx, in engine.Intent, now engine.Instant, cause engine.Cause) (engine.Change, error) {
	panic("filled in by the next commit")
}

// GetTx reads one row inside the owner's transaction.
func (s *Store) GetTx(ctx context.Context, tx *sql.Tx, ref engine.Ref) (engine.Row, error) {
	panic("filled in by the next commit")
}
