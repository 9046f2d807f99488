package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/steadyfleet/steady/reconcile/engine"
)

// columnList are the columns of the resource table, in the order of scan and values.
const columnList = `kind, id, parent_kind, parent_id, created, ord, generation, revision, desired, deleting,
	phase, code, message, attempts, converged_gen, transitions, since, state`

// parentList has no desired: an owner's is as long as all of its children's.
var parentList = strings.Replace(columnList, "desired", "NULL", 1)

// scan reads a row that starts with the extra columns.
func scan(from interface{ Scan(...any) error }, r *engine.Row, extra ...any) error {
	var since int64
	var state []byte
	if err := from.Scan(append(extra, &r.Ref.Kind, &r.Ref.ID, &r.Parent.Kind, &r.Parent.ID, &r.Created, &r.Order, &r.Generation,
		&r.Revision, (*[]byte)(&r.Desired), &r.Delete, &r.Phase, &r.Reason.Code, &r.Reason.Message, &r.Attempts, &r.ConvergedGen,
		&r.Transitions, &since, &state)...); err != nil {
		return err
	}
	return r.SetState(state)
}

func values(r *engine.Row) []any {
	return []any{
		r.Ref.Kind, r.Ref.ID, r.Parent.Kind, r.Parent.ID, r.Created, r.Order, r.Generation,
		r.Revision, []byte(r.Desired), r.Delete, string(r.Phase), string(r.Reason.Code), r.Reason.Message, r.Attempts, r.ConvergedGen,
		r.Transitions, r.Since().UnixMilli(), r.State(),
	}
}

// querier is what *sql.DB and *sql.Tx share.
type querier interface {
	QueryRowContext(ctx context.Context, q string, args ...any) *sql.Row
	ExecContext(ctx context.Context, q string, args ...any) (sql.Result, error)
}

func (s *Store) find(ctx context.Context, q querier, ref engine.Ref) (*engine.Row, error) {
	var r engine.Row
	err := scan(q.QueryRowContext(ctx, getQuery, ref.Kind, ref.ID), &r)
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
		if err := tx.QueryRowContext(ctx, countQuery).Scan(&r.Created); err != nil {
			return fmt.Errorf("number %s: %w", r.Ref, err)
		}
	}
	if _, err := tx.ExecContext(ctx, putQuery, values(&r)...); err != nil {
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
	_, err = tx.ExecContext(ctx, insertQuery,
		t.Ref.Kind, t.Ref.ID, t.N, t.Parent.Kind, t.Parent.ID, t.Generation, string(t.From), string(t.To),
		t.Attempt, string(t.Reason.Code), t.Reason.Message, t.Action, t.Error, string(causes), t.CauseCount,
		t.At.UnixMilli(), t.Duration.Milliseconds(), t.Escalated, t.Alert)
	if err != nil {
		return fmt.Errorf("write transition %s#%d: %w", t.Ref, t.N, err)
	}
	return nil
}

const transitionColumns = `kind, id, n, parent_kind, parent_id, generation, from_phase, to_phase,
	attempt, code, message, action, error, causes, cause_count, at, took, escalated, alert`

func scanTransition(rows *sql.Rows, t *engine.Transition) error {
	var causes []byte
	var at, took int64
	err := rows.Scan(&t.Ref.Kind, &t.Ref.ID, &t.N, &t.Parent.Kind, &t.Parent.ID, &t.Generation, &t.From, &t.To,
		&t.Attempt, &t.Reason.Code, &t.Reason.Message, &t.Action, &t.Error, &causes, &t.CauseCount,
		&at, &took, &t.Escalated, &t.Alert)
	if err != nil {
		return err
	}
	t.At, t.Duration = time.UnixMilli(at).UTC(), time.Duration(took)*time.Millisecond
	return json.Unmarshal(causes, &t.Causes)
}
