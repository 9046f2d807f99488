package disk

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/steadyfleet/steady/internal/core/digest"
)

// Migration is one step of a schema. Once released, its text never changes: its digest is
// stored with it and compared whenever the database is opened.
type Migration struct{ Name, SQL string }

// Migrate applies the steps that an SQLite database lacks, in the caller's transaction. It
// refuses a database with steps that are not the first of these.
func Migrate(ctx context.Context, tx *sql.Tx, steps []Migration) error {
	const table = `CREATE TABLE IF NOT EXISTS migrations (
		number INTEGER PRIMARY KEY, name TEXT NOT NULL, digest TEXT NOT NULL) STRICT`
	if _, err := tx.ExecContext(ctx, table); err != nil {
		return err
	}
	done, err := applied(ctx, tx, steps)
	if err != nil {
		return err
	}
	for i, s := range steps[done:] {
		if _, err := tx.ExecContext(ctx, s.SQL); err != nil {
			return fmt.Errorf("migration %s: %w", s.Name, err)
		}
		const insert = `INSERT INTO migrations (number, name, digest) VALUES (?, ?, ?)`
		if _, err := tx.ExecContext(ctx, insert, done+i+1, s.Name, string(digest.Of([]byte(s.SQL)))); err != nil {
			return fmt.Errorf("migration %s: %w", s.Name, err)
		}
	}
	return nil
}

// ErrDamaged says that a database is not as this program wrote it.
var ErrDamaged = errors.New("the database is damaged")

// applied counts the steps that the database has.
func applied(ctx context.Context, tx *sql.Tx, steps []Migration) (n int, err error) {
	rows, err := tx.QueryContext(ctx, `SELECT number, name, digest FROM migrations ORDER BY number`)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for ; rows.Next(); n++ {
		var number int
		var name, sum string
		if err := rows.Scan(&number, &name, &sum); err != nil {
			return 0, fmt.Errorf("%w: its list of migrations cannot be read: %w", ErrDamaged, err)
		}
		if n >= len(steps) {
			return 0, fmt.Errorf("the database has migration %s, which this version does not know: run the version that wrote it or a newer one", name)
		}
		if want := digest.Of([]byte(steps[n].SQL)); number != n+1 || digest.Digest(sum) != want {
			return 0, fmt.Errorf("the database was made by migration %s (%s), but this version has %s (%s): run the version that wrote it",
				name, digest.Digest(sum).Short(), steps[n].Name, want.Short())
		}
	}
	return n, rows.Err()
}
