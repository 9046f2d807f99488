package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// Baseline returns what was recorded of a container right after it was made.
func (s *Store) Baseline(ctx context.Context, container string) ([]byte, bool, error) {
	var record []byte
	err := s.db.QueryRowContext(ctx, "SELECT record FROM baselines WHERE container = ?", container).Scan(&record)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read the baseline of container %s: %w", container, err)
	}
	return record, true, nil
}

// SetBaseline records it.
func (s *Store) SetBaseline(ctx context.Context, container string, record []byte) error {
	return s.exec(ctx, "INSERT INTO baselines (container, record) VALUES (?, ?) ON CONFLICT (container) DO UPDATE SET record = excluded.record", container, record)
}

// ForgetBaseline drops it.
func (s *Store) ForgetBaseline(ctx context.Context, container string) error {
	return s.exec(ctx, "DELETE FROM baselines WHERE container = ?", container)
}

// Stated notes how a resource stands, and reports whether that is news.
func Stated(ctx context.Context, tx *sql.Tx, ref, state, detail string) (bool, error) {
	return changed(tx.ExecContext(ctx, `INSERT INTO stated (ref, state, detail) VALUES (?, ?, ?)
		ON CONFLICT (ref) DO UPDATE SET state = excluded.state, detail = excluded.detail
		WHERE state <> excluded.state OR detail <> excluded.detail`, ref, state, detail))
}

// UnstatedAs forgets a resource that stands as noted, and reports whether it did.
func UnstatedAs(ctx context.Context, tx *sql.Tx, ref, state string) (bool, error) {
	return changed(tx.ExecContext(ctx, "DELETE FROM stated WHERE ref = ? AND state = ?", ref, state))
}

// Unstated forgets a resource that is gone.
func Unstated(ctx context.Context, tx *sql.Tx, ref string) error {
	_, err := changed(tx.ExecContext(ctx, "DELETE FROM stated WHERE ref = ?", ref))
	return err
}
