package state

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
)

// Baseline returns what was recorded of a container right after it was made.
func (s *Store) Baseline(ctx context.Context, container string) ([]byte, bool, error) {
	var record []byte
	err := s.db.QueryRowContext(ctx, "SELECT record FROM baselines WHERE container = ?", container).Scan(&record)
	ok, err := found(err, "read the baseline of container "+container)
	return record, ok, err
}

// SetBaseline records it.
func (s *Store) SetBaseline(ctx context.Context, container string, record []byte) error {
	return s.exec(ctx, "INSERT INTO baselines (container, record) VALUES (?, ?) ON CONFLICT (container) DO UPDATE SET record = excluded.record", container, record)
}

// ForgetBaseline drops it.
func (s *Store) ForgetBaseline(ctx context.Context, container string) error {
	return s.exec(ctx, "DELETE FROM baselines WHERE container = ?", container)
}

// Reported notes what is reported of a resource: its state and everything else
// that makes a report, as one text. It says whether that is news.
func Reported(ctx context.Context, tx *sql.Tx, ref, state, facts string) (bool, error) {
	return changed(tx.ExecContext(ctx, `INSERT INTO reported (ref, state, facts) VALUES (?, ?, ?)
		ON CONFLICT (ref) DO UPDATE SET state = excluded.state, facts = excluded.facts
		WHERE state <> excluded.state OR facts <> excluded.facts`, ref, state, facts))
}

// Refused is an entry of the managed layer that is kept off, and why.
type Refused struct {
	Ref, Detail string
	Version     uint64
}

// SetRefused notes the entries that are kept off now, and lists those that were
// and are no longer, by name.
func SetRefused(ctx context.Context, tx *sql.Tx, now []Refused) (over []string, err error) {
	rows, err := tx.QueryContext(ctx, "DELETE FROM refused RETURNING ref")
	if err != nil {
		return nil, fmt.Errorf("forget what was refused: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var ref string
		if err := rows.Scan(&ref); err != nil {
			return nil, fmt.Errorf("read what was refused: %w", err)
		}
		over = append(over, ref)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read what was refused: %w", err)
	}
	is := map[string]bool{}
	for _, r := range now {
		is[r.Ref] = true
		if _, err := changed(tx.ExecContext(ctx, "INSERT OR REPLACE INTO refused (ref, detail, version) VALUES (?, ?, ?)", r.Ref, r.Detail, int64(r.Version))); err != nil {
			return nil, err
		}
	}
	over = slices.DeleteFunc(over, func(ref string) bool { return is[ref] })
	slices.Sort(over)
	return over, nil
}

// IsRefused says why an entry is kept off; false if it is not.
func IsRefused(ctx context.Context, tx *sql.Tx, ref string) (Refused, bool, error) {
	r := Refused{Ref: ref}
	var version int64
	err := tx.QueryRowContext(ctx, "SELECT detail, version FROM refused WHERE ref = ?", ref).Scan(&r.Detail, &version)
	r.Version = uint64(version)
	ok, err := found(err, "read whether "+ref+" is refused")
	return r, ok, err
}

// ForgetReportedAs forgets a resource that was last reported in a state, and says
// whether it was.
func ForgetReportedAs(ctx context.Context, tx *sql.Tx, ref, state string) (bool, error) {
	return changed(tx.ExecContext(ctx, "DELETE FROM reported WHERE ref = ? AND state = ?", ref, state))
}

// ForgetReported forgets a resource that is gone.
func ForgetReported(ctx context.Context, tx *sql.Tx, ref string) error {
	_, err := changed(tx.ExecContext(ctx, "DELETE FROM reported WHERE ref = ?", ref))
	return err
}
