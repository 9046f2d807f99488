package sessions

import (
	"context"
	"errors"
	"fmt"

	"github.com/steadyfleet/steady/internal/core/session"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// copied are rows of sessions as they were read, to be described outside of the reducer.
type copied map[engine.Ref]engine.Row

// Get implements session.Rows.
func (c copied) Get(ref engine.Ref) (engine.Row, error) {
	if row, there := c[ref]; there {
		return row, nil
	}
	return engine.Row{}, engine.ErrNotFound
}

// copyOf copies the row of a session and all that its description is made of.
func (r *Runner) copyOf(ctx context.Context, row engine.Row) (copied, error) {
	out := copied{row.Ref: row}
	refs, err := session.Below(&row)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", row.Ref, err)
	}
	return out, logStore{r}.each(ctx, refs, func(row *engine.Row) { out[row.Ref] = *row })
}

// Show is one session.
func (r *Runner) Show(ctx context.Context, name string) (st session.Status, err error) {
	row, err := r.loop.Get(ctx, session.Ref(name))
	if errors.Is(err, engine.ErrNotFound) {
		return st, unknown(name)
	}
	if err != nil {
		return st, err
	}
	return r.describe(ctx, row)
}

func (r *Runner) describe(ctx context.Context, row engine.Row) (st session.Status, err error) {
	rows, err := r.copyOf(ctx, row)
	if err != nil {
		return st, err
	}
	return session.Describe(rows, row.Ref.ID, r.now())
}

// List is all sessions that are kept, in the order of their names, each as it is when it is read.
func (r *Runner) List(ctx context.Context) (out []session.Status, err error) {
	rows, err := r.loop.List(ctx, engine.Filter{Kind: session.KindSession})
	if err != nil {
		return nil, err
	}
	for i := range rows {
		st, err := r.describe(ctx, rows[i])
		if err != nil {
			return out, err
		}
		out = append(out, st)
	}
	return out, nil
}
