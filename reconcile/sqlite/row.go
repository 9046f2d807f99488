package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/steadyfleet/steady/reconcile/engine"
)

// columns of the resource table, in the order of fields.
var columns = []string{
	"kind", "id", "parent_kind", "parent_id", "created", "ord", "generation", "revision", "desired", "retire",
	"set_at", "not_after", "retire_cap", "phase", "code", "words", "attempts", "steps", "retry_at",
	"action", "action_ok", "due_by", "episode_at", "failed_at", "given_up", "aborted", "lives",
	"converged_gen", "escalated_gen", "acked_gen", "transitions",
}

var columnList = strings.Join(columns, ", ")

// parentList has no desired: an owner's is as long as all of its children's.
var parentList = strings.Replace(columnList, "desired", "NULL", 1)

// fields are the places of a row that the columns hold.
func fields(r *engine.Row) []any {
	return []any{
		&r.Ref.Kind, &r.Ref.ID, &r.Parent.Kind, &r.Parent.ID, &r.Created, &r.Order, &r.Generation, &r.Revision, (*[]byte)(&r.Desired), &r.Retire,
		&r.SetAt, &r.NotAfter, &r.RetireCap, &r.Phase, &r.Reason.Code, &r.Reason.Words, &r.Attempts, &r.Steps, &r.RetryAt,
		&r.Action, &r.ActionOK, &r.DueBy, &r.EpisodeAt, &r.FailedAt, &r.GivenUp, &r.Aborted, &r.Lives,
		&r.ConvergedGen, &r.EscalatedGen, &r.AckedGen, &r.Transitions,
	}
}

func values(r *engine.Row) []any {
	return []any{
		r.Ref.Kind, r.Ref.ID, r.Parent.Kind, r.Parent.ID, r.Created, r.Order, r.Generation, r.Revision, []byte(r.Desired), r.Retire,
		int64(r.SetAt), int64(r.NotAfter), int64(r.RetireCap), string(r.Phase), string(r.Reason.Code), r.Reason.Words, r.Attempts, r.Steps, int64(r.RetryAt),
		r.Action, r.ActionOK, int64(r.DueBy), int64(r.EpisodeAt), int64(r.FailedAt), r.GivenUp, r.Aborted, r.Lives,
		r.ConvergedGen, r.EscalatedGen, r.AckedGen, r.Transitions,
	}
}

// querier is what *sql.DB and *sql.Tx share.
type querier interface {
	QueryContext(ctx context.Context, q string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, q string, args ...any) *sql.Row
	ExecContext(ctx context.Context, q string, args ...any) (sql.Result, error)
}

func (s *Store) find(ctx context.Context, q querier, ref engine.Ref) (*engine.Row, error) {
	var r engine.Row
	err := q.QueryRowContext(ctx, s.q.get, ref.Kind, ref.ID).Scan(fields(&r)...)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", ref, err)
	}
	return &r, nil
}

// put inserts a row (Created 0) or replaces it.
func (s *Store) put(ctx context.Context, tx fast, r engine.Row) error {
	if r.Created == 0 {
		if err := tx.QueryRowContext(ctx, s.q.count).Scan(&r.Created); err != nil {
			return fmt.Errorf("number %s: %w", r.Ref, err)
		}
	}
	if _, err := tx.ExecContext(ctx, s.q.put, values(&r)...); err != nil {
		return fmt.Errorf("write %s: %w", r.Ref, err)
	}
	return nil
}

// announce writes transitions and tells the owner's callbacks.
func (s *Store) announce(ctx context.Context, tx fast, ts []engine.Transition, skip func(engine.Transition) bool) error {
	for _, t := range ts {
		if !skip(t) {
			if err := s.insert(ctx, tx, t); err != nil {
				return err
			}
		}
		for _, f := range s.on {
			if err := f(ctx, tx.Tx, t); err != nil {
				return fmt.Errorf("announce %s#%d: %w", t.Ref, t.N, err)
			}
		}
	}
	return nil
}

func (s *Store) insert(ctx context.Context, tx fast, t engine.Transition) error {
	causes, err := json.Marshal(t.Causes)
	if err != nil {
		return fmt.Errorf("encode the causes of %s#%d: %w", t.Ref, t.N, err)
	}
	_, err = tx.ExecContext(ctx, s.q.insert,
		t.Ref.Kind, t.Ref.ID, t.N, t.Parent.Kind, t.Parent.ID, t.Generation, string(t.From), string(t.To),
		t.Attempt, string(t.Reason.Code), t.Reason.Words, t.Action, t.Error, string(causes), t.CauseCount,
		int64(t.At), int64(t.Took), t.Escalated, t.Alert)
	if err != nil {
		return fmt.Errorf("write transition %s#%d: %w", t.Ref, t.N, err)
	}
	return nil
}

const transitionColumns = `kind, id, n, parent_kind, parent_id, generation, from_phase, to_phase,
	attempt, code, words, action, error, causes, cause_count, at, took, escalated, alert`

func scanTransition(rows *sql.Rows) (engine.Transition, error) {
	var t engine.Transition
	var causes []byte
	err := rows.Scan(&t.Ref.Kind, &t.Ref.ID, &t.N, &t.Parent.Kind, &t.Parent.ID, &t.Generation, &t.From, &t.To,
		&t.Attempt, &t.Reason.Code, &t.Reason.Words, &t.Action, &t.Error, &causes, &t.CauseCount,
		&t.At, &t.Took, &t.Escalated, &t.Alert)
	if err != nil {
		return t, err
	}
	return t, json.Unmarshal(causes, &t.Causes)
}
