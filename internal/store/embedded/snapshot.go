package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/store"
)

const keepSnapshots = 2

func (s *Store) bodyPath(seq uint64, d digest.Digest) string {
	return filepath.Join(s.snapshotDir(), fmt.Sprintf("%020d-%s", seq, d.Hex()))
}

// body is a file of DIR/snapshots.
type body struct {
	seq  uint64
	path string
}

func (s *Store) bodies() ([]body, error) {
	files, err := os.ReadDir(s.snapshotDir())
	if err != nil {
		return nil, err
	}
	var out []body
	for _, f := range files {
		number, _, _ := strings.Cut(f.Name(), "-")
		seq, err := strconv.ParseUint(number, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%w: a foreign file snapshots/%s; remove it", store.ErrCorrupt, f.Name())
		}
		out = append(out, body{seq: seq, path: filepath.Join(s.snapshotDir(), f.Name())})
	}
	return out, nil
}

// SaveSnapshot implements store.Snapshots. The file comes first and the row
// second: a row always has had its file.
func (s *Store) SaveSnapshot(ctx context.Context, snap store.Snapshot) error {
	const op = "save snapshot"
	if err := store.CheckName("format", snap.Format); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.calls.RUnlock()
	s.snapMu.Lock()
	defer s.snapMu.Unlock()
	at, err := s.query(ctx, selectListed, fmt.Sprintf("[%d]", snap.At.Seq))
	if err != nil {
		return s.fail(op, err)
	}
	if len(at) != 1 || at[0].Hash != snap.At.Hash || at[0].Term != snap.At.Term {
		return fmt.Errorf("%s: %w: sequence %d of term %d with that hash is not in the log", op, store.ErrInvalid, snap.At.Seq, snap.At.Term)
	}
	d := digest.Of(snap.Body)
	if err := s.writeFile(op, s.bodyPath(snap.At.Seq, d), snap.Body); err != nil {
		return err
	}
	if err := s.indexSnapshot(snap, d); err != nil {
		return s.fail(op, err)
	}
	return s.pruneBodies(ctx, op)
}

// indexSnapshot writes the row and drops the old ones.
func (s *Store) indexSnapshot(snap store.Snapshot, d digest.Digest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.alive(); err != nil {
		return err
	}
	const insert = `INSERT OR REPLACE INTO snapshots (seq, term, hash, format, digest) VALUES (?, ?, ?, ?, ?)`
	const prune = `DELETE FROM snapshots WHERE seq NOT IN (SELECT seq FROM snapshots ORDER BY seq DESC LIMIT ?)`
	return s.w.tx(func() error {
		if _, err := s.w.exec(insert, int64(snap.At.Seq), int64(snap.At.Term), snap.At.Hash[:], snap.Format, string(d)); err != nil {
			return err
		}
		_, err := s.w.exec(prune, int64(keepSnapshots))
		return err
	})
}

// pruneBodies removes the files of no row.
func (s *Store) pruneBodies(ctx context.Context, op string) error {
	rows, err := s.snapshots(ctx)
	if err != nil {
		return s.fail(op, err)
	}
	keep := map[string]bool{}
	for _, r := range rows {
		keep[s.bodyPath(r.At.Seq, r.digest)] = true
	}
	files, err := s.bodies()
	if err != nil {
		return s.fail(op, err)
	}
	for _, f := range files {
		if !keep[f.path] {
			if err := os.Remove(f.path); err != nil && !errors.Is(err, os.ErrNotExist) {
				return s.fail(op, err)
			}
		}
	}
	return nil
}

// snapshotRow is a snapshot without its body.
type snapshotRow struct {
	store.Snapshot
	digest digest.Digest
}

// snapshots lists the rows, newest first.
func (s *Store) snapshots(ctx context.Context) (out []snapshotRow, err error) {
	rows, err := s.readers.QueryContext(ctx, `SELECT seq, term, hash, format, digest FROM snapshots ORDER BY seq DESC`)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var r snapshotRow
		var seq, term int64
		var hash []byte
		if err := rows.Scan(&seq, &term, &hash, &r.Format, &r.digest); err != nil {
			return nil, err
		}
		r.At = headOf(seq, term, hash)
		out = append(out, r)
	}
	return out, rows.Err()
}

// LatestSnapshot implements store.Snapshots.
func (s *Store) LatestSnapshot(ctx context.Context) (store.Snapshot, error) {
	const op = "read snapshot"
	if err := s.enter(ctx); err != nil {
		return store.Snapshot{}, err
	}
	defer s.calls.RUnlock()
	rows, err := s.snapshots(ctx)
	if err != nil {
		return store.Snapshot{}, s.fail(op, err)
	}
	if len(rows) == 0 {
		return store.Snapshot{}, fmt.Errorf("%s: there is none: %w", op, store.ErrNotFound)
	}
	var skipped []uint64
	for _, r := range rows {
		b, err := os.ReadFile(s.bodyPath(r.At.Seq, r.digest))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return store.Snapshot{}, s.fail(op, err)
		}
		if err != nil || digest.Of(b) != r.digest {
			skipped = append(skipped, r.At.Seq)
			continue
		}
		snap := r.Snapshot
		snap.Body, snap.Skipped = b, skipped
		return snap, nil
	}
	return store.Snapshot{}, fmt.Errorf("%s: %w: the bodies of all (%v) are damaged; fold the log from its start", op, store.ErrCorrupt, skipped)
}
