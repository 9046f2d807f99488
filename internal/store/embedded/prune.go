package embedded

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/steadyfleet/steady/internal/store"
)

const (
	// pruneRows is how many records one transaction removes, and prunePause what appends
	// have to themselves after it.
	pruneRows  = 500
	prunePause = 5 * time.Millisecond
)

// prunedTables hold what the log begins behind, and the ends that the hosts' chains had
// there: what is left of the log does not say them.
const prunedTables = `
	CREATE TABLE IF NOT EXISTS pruned (
		id INTEGER PRIMARY KEY CHECK (id = 1), seq INTEGER NOT NULL, term INTEGER NOT NULL,
		hash BLOB NOT NULL CHECK (length(hash) = 32)) STRICT;
	CREATE TABLE IF NOT EXISTS pruned_chains (
		host TEXT NOT NULL, incarnation INTEGER NOT NULL, host_seq INTEGER NOT NULL,
		PRIMARY KEY (host, incarnation)) STRICT, WITHOUT ROWID;`

const selectBase = `SELECT seq, term, hash FROM pruned WHERE id = 1`

// Base implements store.Log.
func (s *Store) Base(ctx context.Context) (store.Head, error) {
	if err := s.enter(ctx); err != nil {
		return store.Head{}, err
	}
	defer s.calls.RUnlock()
	base, err := s.base(ctx)
	return base, s.fail("read the beginning of the log", err)
}

func (s *Store) base(ctx context.Context) (store.Head, error) {
	var seq, term int64
	var hash []byte
	err := s.readers.QueryRowContext(ctx, selectBase).Scan(&seq, &term, &hash)
	if errors.Is(err, sql.ErrNoRows) {
		return store.Head{}, nil
	}
	return headOf(seq, term, hash), err
}

// gone says why the log does not go on behind a sequence: it was pruned, or the record is
// missing.
func (s *Store) gone(ctx context.Context, after uint64) error {
	base, err := s.base(ctx)
	switch {
	case err != nil:
		return err
	case after < base.Seq:
		return &store.PrunedError{Base: base}
	}
	return missing(after + 1)
}

// Prune implements store.Log.
func (s *Store) Prune(ctx context.Context, term uint64, through store.Head) error {
	const op = "prune"
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.calls.RUnlock()
	if b := s.SetBack(); b != nil {
		return fmt.Errorf("%s: %w: %s", op, store.ErrSetBack, b.Reason)
	}
	if err := s.prunable(ctx, term, through); err != nil {
		return s.fail(op, err)
	}
	for {
		done, err := s.pruneSome(ctx, term, through)
		if err != nil {
			return s.fail(op, err)
		}
		if done {
			return s.fail(op, s.pruneIndex(ctx, through.Seq))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(prunePause):
		}
	}
}

// prunable refuses an end that is not a record of the log with others behind it, and has
// the database say that it is pruned.
func (s *Store) prunable(ctx context.Context, term uint64, through store.Head) error {
	head, err := s.readHead(ctx)
	if err != nil {
		return err
	}
	base, err := s.base(ctx)
	if err != nil {
		return err
	}
	is := base.Seq == through.Seq && base.Hash == through.Hash
	if through.Seq > base.Seq && through.Seq < head.Seq {
		is, err = s.hasHash(ctx, through)
	}
	switch {
	case err != nil:
		return err
	case term != head.Term:
		return fmt.Errorf("%w: the head is of term %d, the call of %d", store.ErrFenced, head.Term, term)
	case !is || through.Seq == 0:
		return fmt.Errorf("%w: sequence %d with that hash is not in the log, or its end", store.ErrInvalid, through.Seq)
	case base.Seq == 0:
		return s.migrate(ctx, true)
	}
	return nil
}

// pruneSome removes the oldest records, with what is left of them in one transaction.
func (s *Store) pruneSome(ctx context.Context, term uint64, through store.Head) (done bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.derivedMu.Lock()
	defer s.derivedMu.Unlock()
	if err := s.alive(); err != nil {
		return false, err
	}
	err = s.w.tx(func() error {
		row, err := s.w.row(selectHead)
		if err != nil {
			return err
		}
		if head := headOf(row[0].(int64), row[1].(int64), row[2].([]byte)); head.Term != term {
			return fmt.Errorf("%w: the head is of term %d, the call of %d", store.ErrFenced, head.Term, term)
		} else if err := s.catchUp(ctx, head.Seq); err != nil {
			return err
		}
		if row, err = s.w.row(selectBase); err != nil {
			return err
		}
		upTo := min(row[0].(int64)+pruneRows, int64(through.Seq))
		if done = upTo == int64(through.Seq); row[0].(int64) >= upTo {
			return nil
		}
		// A host's chain grows in order: its end is in its last record.
		for _, step := range []string{
			`INSERT INTO pruned_chains (host, incarnation, host_seq) SELECT subject_name, incarnation, host_seq FROM
				(SELECT subject_name, incarnation, host_seq, max(seq) FROM events WHERE seq <= ? AND host_seq <> 0 GROUP BY subject_name, incarnation)
				WHERE true ON CONFLICT DO UPDATE SET host_seq = excluded.host_seq`,
			`UPDATE pruned SET (seq, term, hash) = (SELECT seq, term, hash FROM events WHERE seq = ?) WHERE id = 1`,
			`DELETE FROM events WHERE seq <= ?`,
		} {
			if _, err := s.w.exec(step, upTo); err != nil {
				return err
			}
		}
		return nil
	})
	if s.pages += pruneRows / 4; s.pages >= checkpointPages {
		s.checkpoint()
	}
	s.startRest()
	return done, err
}

// pruneIndex removes the blocks of the index that name nothing behind a sequence. While
// others are being written they stay for the next time.
func (s *Store) pruneIndex(ctx context.Context, upTo uint64) error {
	last := &block{}
	for last != nil && ctx.Err() == nil {
		var err error
		if last, err = s.pruneBlocks(ctx, upTo, last); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// pruneBlocks is pruneIndex for some blocks behind one; it returns the last of them, nil
// at the end.
func (s *Store) pruneBlocks(ctx context.Context, upTo uint64, after *block) (*block, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.derivedMu.Lock()
	defer s.derivedMu.Unlock()
	d := &s.derived
	if !d.loaded || d.clear || d.flushing != nil {
		return nil, s.alive()
	}
	blocks, err := s.blocksBehind(ctx, after)
	if err != nil || len(blocks) == 0 {
		return nil, err
	}
	sum := d.sum
	err = s.w.tx(func() error {
		if same, err := s.ownTables(); err != nil || !same {
			sum, blocks = d.sum, nil // another handle has written them
			return err
		}
		for _, b := range blocks {
			seqs, err := b.sequences()
			if err != nil || seqs[len(seqs)-1] > upTo {
				continue // damage is found by who reads it
			}
			sum -= b.sum()
			if _, err := s.w.exec(`DELETE FROM about WHERE kind = ? AND name = ? AND first = ?`, b.subject.Kind, b.subject.Name, int64(b.first)); err != nil {
				return err
			}
		}
		_, err := s.w.exec(`UPDATE derived SET sum = ? WHERE id = 1`, sealed(d.mark, sum))
		return err
	})
	if err != nil || len(blocks) == 0 {
		return nil, err
	}
	d.sum = sum
	return blocks[len(blocks)-1], nil
}

func (s *Store) blocksBehind(ctx context.Context, after *block) (out []*block, err error) {
	const query = `SELECT kind, name, first, rest FROM about WHERE (kind, name, first) > (?, ?, ?) AND first <= ? ORDER BY kind, name, first LIMIT 200`
	var b block
	var first int64
	args := []any{after.subject.Kind, after.subject.Name, int64(after.first), int64(s.derived.mark)}
	err = s.each(ctx, query, args, []any{&b.subject.Kind, &b.subject.Name, &first, &b.rest}, func() error {
		out = append(out, &block{subject: b.subject, first: uint64(first), rest: slices.Clone(b.rest)})
		return nil
	})
	return out, err
}
