package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/steadyfleet/steady/internal/core/digest"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migration is one numbered step of the schema. Once released, its text never
// changes: its digest is stored with it and compared at every open.
type migration struct {
	number int
	name   string
	sql    string
	sum    digest.Digest
}

// migrations lists the steps NNNN_name.sql, which must count from 1.
func migrations(fsys fs.FS) ([]migration, error) {
	names, err := fs.Glob(fsys, "migrations/*.sql") // sorted
	if err != nil {
		return nil, err
	}
	steps := make([]migration, 0, len(names))
	for i, name := range names {
		text, err := fs.ReadFile(fsys, name)
		if err != nil {
			return nil, err
		}
		base := strings.TrimPrefix(name, "migrations/")
		number, _, ok := strings.Cut(base, "_")
		if n, err := strconv.Atoi(number); !ok || err != nil || n != i+1 {
			return nil, fmt.Errorf("migration %s: expected number %04d", base, i+1)
		}
		steps = append(steps, migration{number: i + 1, name: base, sql: string(text), sum: digest.Of(text)})
	}
	return steps, nil
}

// migrate brings the schema up to date in one transaction.
func migrate(ctx context.Context, db *sql.DB, steps []migration) (err error) {
	tx, err := db.BeginTx(ctx, nil) // immediate: two processes take turns
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, ignoreDone(tx.Rollback()))
		}
	}()
	const table = `CREATE TABLE IF NOT EXISTS migrations (
		number INTEGER PRIMARY KEY, name TEXT NOT NULL, digest TEXT NOT NULL) STRICT`
	if _, err := tx.ExecContext(ctx, table); err != nil {
		return err
	}
	done, err := applied(ctx, tx, steps)
	if err != nil {
		return err
	}
	for _, m := range steps[done:] {
		if _, err := tx.ExecContext(ctx, m.sql); err != nil {
			return fmt.Errorf("migration %s: %w", m.name, err)
		}
		const insert = `INSERT INTO migrations (number, name, digest) VALUES (?, ?, ?)`
		if _, err := tx.ExecContext(ctx, insert, m.number, m.name, string(m.sum)); err != nil {
			return fmt.Errorf("migration %s: %w", m.name, err)
		}
	}
	return tx.Commit()
}

// applied counts the steps that the file has, and refuses a file whose steps
// are not ours.
func applied(ctx context.Context, tx *sql.Tx, steps []migration) (n int, err error) {
	rows, err := tx.QueryContext(ctx, `SELECT number, name, digest FROM migrations ORDER BY number`)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for ; rows.Next(); n++ {
		var number int
		var name, sum string
		if err := rows.Scan(&number, &name, &sum); err != nil {
			return 0, err
		}
		if n >= len(steps) {
			return 0, fmt.Errorf("the store has migration %s, which this version does not know: run the version that wrote it or a newer one", name)
		}
		if m := steps[n]; number != m.number || digest.Digest(sum) != m.sum {
			return 0, fmt.Errorf("the store was made by migration %s (%s), but this version has %s (%s): run the version that wrote it",
				name, digest.Digest(sum).Short(), m.name, m.sum.Short())
		}
	}
	return n, rows.Err()
}

func ignoreDone(err error) error {
	if errors.Is(err, sql.ErrTxDone) {
		return nil
	}
	return err
}
