package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

// version is the newest schema this code knows.
const version = 1

// schema holds the statements of each version; {p} is the table prefix.
var schema = [version][]string{
	{
		`CREATE TABLE {p}resource (
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
		`CREATE INDEX {p}resource_parent ON {p}resource (parent_kind, parent_id)`,
		`CREATE TABLE {p}transition (
			kind TEXT NOT NULL, id TEXT NOT NULL, n INTEGER NOT NULL,
			parent_kind TEXT NOT NULL, parent_id TEXT NOT NULL,
			generation INTEGER NOT NULL, from_phase TEXT NOT NULL, to_phase TEXT NOT NULL,
			attempt INTEGER NOT NULL, code TEXT NOT NULL, message TEXT NOT NULL,
			action TEXT NOT NULL, error TEXT NOT NULL, causes TEXT NOT NULL, cause_count INTEGER NOT NULL,
			at INTEGER NOT NULL, took INTEGER NOT NULL, escalated INTEGER NOT NULL, alert INTEGER NOT NULL,
			PRIMARY KEY (kind, id, n)) STRICT, WITHOUT ROWID`,
		`CREATE TABLE {p}trigger (
			n INTEGER PRIMARY KEY AUTOINCREMENT,
			kind TEXT NOT NULL, id TEXT NOT NULL, cause TEXT NOT NULL) STRICT`,
		`CREATE INDEX {p}trigger_ref ON {p}trigger (kind, id, n)`,
		`CREATE TABLE {p}counter (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID`,
		`INSERT INTO {p}counter (name, value) VALUES ('created', 0)`,
	},
}

// Migrate creates or upgrades the tables, inside the owner's transaction. It
// refuses a schema newer than this code.
func (s *Store) Migrate(ctx context.Context, tx *sql.Tx) error {
	if _, err := tx.ExecContext(ctx, s.sql(`CREATE TABLE IF NOT EXISTS {p}schema (version INTEGER NOT NULL) STRICT`)); err != nil {
		return fmt.Errorf("create %sschema: %w", s.prefix, err)
	}
	var have int
	if err := tx.QueryRowContext(ctx, s.sql(`SELECT coalesce(max(version), 0) FROM {p}schema`)).Scan(&have); err != nil {
		return fmt.Errorf("read the schema version of %s tables: %w", s.prefix, err)
	}
	if have > version {
		return fmt.Errorf("the %s tables have schema %d and this program knows up to %d: run a newer one", s.prefix, have, version)
	}
	for v := have; v < version; v++ {
		for _, stmt := range schema[v] {
			if _, err := tx.ExecContext(ctx, s.sql(stmt)); err != nil {
				return fmt.Errorf("migrate the %s tables to schema %d: %w", s.prefix, v+1, err)
			}
		}
		if _, err := tx.ExecContext(ctx, s.sql(`INSERT INTO {p}schema (version) VALUES (?)`), v+1); err != nil {
			return fmt.Errorf("record schema %d of the %s tables: %w", v+1, s.prefix, err)
		}
	}
	return nil
}

func (s *Store) sql(q string) string { return strings.ReplaceAll(q, "{p}", s.prefix) }
