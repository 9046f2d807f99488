package embedded

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/store"
)

// ReadAbout implements store.Log.
func (s *Store) ReadAbout(ctx context.Context, subject event.Subject, after uint64, limit int) ([]event.Record, error) {
	return s.readAbout(ctx, subject, after, limit, false)
}

// LastAbout implements store.Log.
func (s *Store) LastAbout(ctx context.Context, subject event.Subject, limit int) ([]event.Record, error) {
	return s.readAbout(ctx, subject, 0, limit, true)
}

func (s *Store) readAbout(ctx context.Context, subject event.Subject, after uint64, limit int, newest bool) ([]event.Record, error) {
	const op = "read about"
	if err := errors.Join(store.CheckName("kind", subject.Kind), store.CheckName("name", subject.Name), store.CheckLimit(limit)); err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.calls.RUnlock()
	if after >= math.MaxInt64 {
		return nil, nil
	}
	seqs, err := s.sequences(ctx, subject, after, limit, newest)
	if errors.Is(err, errDamaged) {
		s.derivedMu.Lock()
		s.derived.loaded = false // the next load finds the damage
		s.derivedMu.Unlock()
		seqs, err = s.sequences(ctx, subject, after, limit, newest)
	}
	if err != nil || len(seqs) == 0 {
		return nil, s.fail(op, err)
	}
	list, err := json.Marshal(seqs)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	query := selectListed
	if newest {
		query += ` DESC`
	}
	records, err := s.query(ctx, query, string(list))
	if err == nil {
		err = complete(seqs, records)
	}
	return records, s.fail(op, err)
}

// complete refuses records that lack one of the sequences, up to where the budget ends them.
func complete(seqs []uint64, records []event.Record) error {
	bytes := 0
	for i, seq := range seqs {
		if bytes >= store.ReadBudget {
			break
		}
		if i == len(records) || records[i].Seq != seq {
			return missing(seq)
		}
		bytes += len(records[i].Body)
	}
	return nil
}

func missing(seq uint64) error { return &store.ChainError{Seq: seq, Reason: "the record is missing"} }

// sequences returns the first sequences of a subject's events behind after or, with
// newest, the last ones, newest first; at most limit.
func (s *Store) sequences(ctx context.Context, subject event.Subject, after uint64, limit int, newest bool) (out []uint64, err error) {
	memory, mark, err := s.recent(ctx, subject)
	if err != nil {
		return nil, err
	}
	base, err := s.base(ctx)
	if err != nil {
		return nil, err
	}
	after = max(after, base.Seq) // what was pruned the index may still name
	add := func(seqs []uint64) {
		if newest {
			slices.Reverse(seqs)
		}
		for _, seq := range seqs {
			if seq > after && len(out) < limit {
				out = append(out, seq)
			}
		}
	}
	const last = `SELECT first, rest FROM about WHERE kind = ?1 AND name = ?2 AND first <= ?3 AND ?4 >= 0 ORDER BY first DESC`
	const behind = `SELECT first, rest FROM about WHERE kind = ?1 AND name = ?2 AND first <= ?3
		AND first >= coalesce((SELECT max(first) FROM about WHERE kind = ?1 AND name = ?2 AND first <= ?4), 0) ORDER BY first`
	query := behind
	if newest {
		query = last
		add(memory)
	}
	if len(out) < limit {
		var first int64
		var rest sql.RawBytes
		args := []any{subject.Kind, subject.Name, int64(mark), int64(after) + 1}
		err = s.each(ctx, query, args, []any{&first, &rest}, func() error {
			seqs, err := (&block{first: uint64(first), rest: rest}).sequences()
			add(seqs)
			if err == nil && len(out) == limit {
				return errEnough
			}
			return err
		})
		if err != nil && !errors.Is(err, errEnough) {
			return nil, err
		}
	}
	if !newest {
		add(memory)
	}
	return out, nil
}

var errEnough = errors.New("enough")

// recent returns the sequences of a subject behind the mark, and the mark.
func (s *Store) recent(ctx context.Context, subject event.Subject) ([]uint64, uint64, error) {
	s.derivedMu.Lock()
	defer s.derivedMu.Unlock()
	head, err := s.readHead(ctx)
	if err != nil {
		return nil, 0, err
	}
	if err := s.catchUp(ctx, head.Seq); err != nil {
		return nil, 0, err
	}
	var out []uint64
	if f := s.derived.flushing; f != nil {
		out = f.postings.of(subject)
	}
	return append(out, s.derived.newest.of(subject)...), s.derived.mark, nil
}
