package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/steadyfleet/steady/internal/core/digest"
)

// The ledger says what the agent itself did to the host: which content it
// wrote, which folders it made, which steps it ran.

// Wrote reports whether content d at path is the agent's own.
func (s *Store) Wrote(ctx context.Context, path string, d digest.Digest) (bool, error) {
	var now, prev digest.Digest
	err := s.db.QueryRowContext(ctx, "SELECT digest, prev FROM files WHERE path = ?", path).Scan(&now, &prev)
	ok, err := found(err, "read the ledger of "+path)
	return ok && d != "" && (d == now || d == prev), err
}

// WillWrite records, before it happens, that d replaces what the agent wrote
// at path before.
func (s *Store) WillWrite(ctx context.Context, path string, d digest.Digest) error {
	return s.exec(ctx, `INSERT INTO files (path, digest, prev) VALUES (?, ?, '')
		ON CONFLICT (path) DO UPDATE SET prev = CASE WHEN digest = excluded.digest THEN prev ELSE digest END, digest = excluded.digest`, path, d)
}

// Forget drops a path from the ledger.
func (s *Store) Forget(ctx context.Context, path string) error {
	return s.exec(ctx, "DELETE FROM files WHERE path = ?", path)
}

// WillMake records, before it happens, that the agent makes a folder.
func (s *Store) WillMake(ctx context.Context, path string) error {
	return s.exec(ctx, "INSERT OR IGNORE INTO folders (path) VALUES (?)", path)
}

// Made reports whether the agent made the folder.
func (s *Store) Made(ctx context.Context, path string) (bool, error) {
	var n int
	err := s.db.QueryRowContext(ctx, "SELECT count(*) FROM folders WHERE path = ?", path).Scan(&n)
	return n > 0, err
}

// Unmake drops a folder from the ledger.
func (s *Store) Unmake(ctx context.Context, path string) error {
	return s.exec(ctx, "DELETE FROM folders WHERE path = ?", path)
}

// Step returns the run in which a step was last begun, and whether it
// succeeded; an empty run if it was never begun or has been undone.
func (s *Store) Step(ctx context.Context, name string) (run string, done bool, err error) {
	err = s.db.QueryRowContext(ctx, "SELECT run, done FROM steps WHERE name = ?", name).Scan(&run, &done)
	_, err = found(err, "read the ledger of step "+name)
	return run, done, err
}

// SetStep records that a step has begun or succeeded in a run.
func (s *Store) SetStep(ctx context.Context, name, run string, done bool) error {
	return s.exec(ctx, `INSERT INTO steps (name, run, done) VALUES (?, ?, ?)
		ON CONFLICT (name) DO UPDATE SET run = excluded.run, done = excluded.done`, name, run, done)
}

// ForgetStep records that a step is undone.
func (s *Store) ForgetStep(ctx context.Context, name string) error {
	return s.exec(ctx, "DELETE FROM steps WHERE name = ?", name)
}

func (s *Store) exec(ctx context.Context, query string, args ...any) error {
	if _, err := s.db.ExecContext(ctx, query, args...); err != nil {
		return s.note(fmt.Errorf("write to agent.db: %w", err))
	}
	return nil
}

// found says whether a query of one row had any, and what it was for if it failed.
func found(err error, what string) (bool, error) {
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("%s: %w", what, err)
	}
	return true, nil
}

func changed(r sql.Result, err error) (bool, error) {
	if err != nil {
		return false, fmt.Errorf("write to agent.db: %w", err)
	}
	n, err := r.RowsAffected()
	return n > 0, err
}
