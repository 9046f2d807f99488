package sqlite

import (
	"context"
	"database/sql"
	"fmt"
)

// version is the newest schema this code knows.
const version = 1

// schema holds the statements of each version.
var schema = [version][]string{
	{
		`CREATE TABLE reconcile_resource (
			kind TEXT NOT NULL, id TEXT NOT NULL,
			parent_kind TEXT NOT NULL, parent_id TEXT NOT NULL,
			created INTEGER NOT NULL, ord INTEGER NOT NULL,
			generation INTEGER NOT NULL, revision INTEGER NOT NULL,
			deleting INTEGER NOT NULL,
			phase TEXT NOT NULL, code TEXT NOT NULL, message TEXT NOT NULL,
			attempts INTEGER NOT NULL, converged_gen INTEGER NOT NULL, transitions INTEGER NOT NULL,
			since INTEGER NOT NULL, -- when the present episode began, for purging
			state BLOB NOT NULL, -- what only the framework reads
			desired BLOB, -- last: what is long is not read on the way to the others
			PRIMARY KEY (kind, id)) STRICT, WITHOUT ROWID`,
		`CREATE INDEX reconcile_resource_parent ON reconcile_resource (parent_kind, parent_id)`,
		`CREATE TABLE reconcile_transition (
			kind TEXT NOT NULL, id TEXT NOT NULL, n INTEGER NOT NULL,
			parent_kind TEXT NOT NULL, parent_id TEXT NOT NULL,
			generation INTEGER NOT NULL, from_phase TEXT NOT NULL, to_phase TEXT NOT NULL,
			attempt INTEGER NOT NULL, code TEXT NOT NULL, message TEXT NOT NULL,
			action TEXT NOT NULL, error TEXT NOT NULL, causes TEXT NOT NULL, cause_count INTEGER NOT NULL,
			at INTEGER NOT NULL, took INTEGER NOT NULL, escalated INTEGER NOT NULL, alert INTEGER NOT NULL,
			PRIMARY KEY (kind, id, n)) STRICT, WITHOUT ROWID`,
		`CREATE TABLE reconcile_trigger (
			n INTEGER PRIMARY KEY AUTOINCREMENT,
			kind TEXT NOT NULL, id TEXT NOT NULL, cause TEXT NOT NULL) STRICT`,
		`CREATE INDEX reconcile_trigger_ref ON reconcile_trigger (kind, id, n)`,
		`CREATE TABLE reconcile_counter (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID`,
		`INSERT INTO reconcile_counter (name, value) VALUES ('created', 0)`,
	},
}

// additions are tables and indexes that programs of the same version need not know: one that goes back to
// such a program finds its own as they were.
var additions = []string{
	`CREATE TABLE IF NOT EXISTS reconcile_event (
			n INTEGER PRIMARY KEY AUTOINCREMENT,
			kind TEXT NOT NULL, id TEXT NOT NULL,
			source TEXT NOT NULL, event_id TEXT NOT NULL, type TEXT NOT NULL,
			at INTEGER NOT NULL,
			data BLOB) STRICT`,
	`CREATE UNIQUE INDEX IF NOT EXISTS reconcile_event_once ON reconcile_event (kind, id, source, event_id)`,
	`CREATE INDEX IF NOT EXISTS reconcile_event_ref ON reconcile_event (kind, id, n)`,
	// The children that a parent sees: those that are deleted, and stay for their retention, are not in it.
	`CREATE INDEX IF NOT EXISTS reconcile_resource_live ON reconcile_resource (parent_kind, parent_id) WHERE phase <> 'deleted'`,
}

// Forget removes every resource with its history, inside the owner's transaction. No
// Controller may run over the tables.
func Forget(ctx context.Context, tx *sql.Tx) error {
	for _, table := range []string{"reconcile_resource", "reconcile_transition", "reconcile_trigger", "reconcile_event"} {
		if _, err := tx.ExecContext(ctx, "DELETE FROM "+table); err != nil {
			return fmt.Errorf("forget all resources: %w", err)
		}
	}
	return nil
}

// Open makes a store and brings its tables up to date in a transaction of its own. An owner
// with tables of its own calls New, and Migrate inside its migration. db needs its driver's
// settings of Store.
func Open(ctx context.Context, db *sql.DB, opts ...Option) (*Store, error) {
	s := New(db, opts...)
	if err := s.inTx(ctx, func(tx *sql.Tx) error { return s.Migrate(ctx, tx) }); err != nil {
		return nil, err
	}
	return s, nil
}

// Migrate creates or upgrades the tables, inside the owner's transaction. It
// refuses a schema newer than this code.
func (s *Store) Migrate(ctx context.Context, tx *sql.Tx) error {
	if _, err := tx.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS reconcile_schema (version INTEGER NOT NULL) STRICT`); err != nil {
		return fmt.Errorf("create reconcile_schema: %w", err)
	}
	var have int
	if err := tx.QueryRowContext(ctx, `SELECT coalesce(max(version), 0) FROM reconcile_schema`).Scan(&have); err != nil {
		return fmt.Errorf("read the schema version of reconcile_ tables: %w", err)
	}
	if have > version {
		return fmt.Errorf("the reconcile_ tables have schema %d and this program knows up to %d: run a newer one", have, version)
	}
	for v := have; v < version; v++ {
		for _, stmt := range schema[v] {
			if _, err := tx.ExecContext(ctx, stmt); err != nil {
				return fmt.Errorf("migrate the reconcile_ tables to schema %d: %w", v+1, err)
			}
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO reconcile_schema (version) VALUES (?)`, v+1); err != nil {
			return fmt.Errorf("record schema %d of the reconcile_ tables: %w", v+1, err)
		}
	}
	for _, stmt := range additions {
		if _, err := tx.ExecContext(ctx, stmt); err != nil {
			return fmt.Errorf("add to the reconcile_ tables: %w", err)
		}
	}
	return nil
}
