package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/agent/state"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/container"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/docker/layer"
	"github.com/steadyfleet/steady/internal/system"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// Rows reads the resource of a transition in the transaction that records it, or
// gives reconcile.ErrNotFound.
type Rows interface {
	GetTx(ctx context.Context, tx *sql.Tx, ref engine.Ref) (engine.Row, error)
}

// ofContainer reports where a container resource stands, in the transaction that
// records it: the event waits in the outbox until the server has it. The removal
// of what is refused is reported as the refusal, which is why it went.
func ofContainer(ctx context.Context, tx *sql.Tx, at clock.Instant, rows Rows, t engine.Transition) error {
	row, err := rows.GetTx(ctx, tx, t.Ref)
	if err != nil && !errors.Is(err, reconcile.ErrNotFound) {
		return err
	}
	ev := event.ResourceReported{Resource: t.Ref.String(), Layer: event.LayerBundle, Detail: t.Reason.Words}
	ev.State = string(container.StateOf(container.Stage{Kind: t.Ref.Kind, Phase: t.To, Code: t.Reason.Code, Action: t.Action}))
	if t.Error != "" {
		ev.Detail = t.Error
	}
	if t.Parent == layer.Current {
		ev.Layer = event.LayerManaged
	}
	if ev.Version, err = versionOf(row); err != nil {
		return err
	}
	if ev.State == string(container.Removed) {
		r, refused, err := state.IsRefused(ctx, tx, ev.Resource)
		if err != nil {
			return err
		}
		if refused {
			_, err := Refused(ctx, tx, at, r)
			return err
		}
	}
	_, err = stands(ctx, tx, at, ev)
	return err
}

// versionOf is the version of the managed layer that a row is of.
func versionOf(row engine.Row) (uint64, error) {
	if len(row.Desired) == 0 {
		return 0, nil
	}
	var d container.Desired[json.RawMessage]
	if err := json.Unmarshal(row.Desired, &d); err != nil {
		return 0, fmt.Errorf("read what is desired of %s: %w", row.Ref, err)
	}
	return d.Version, nil
}

// stands reports a state if it is news, and says whether it was.
func stands(ctx context.Context, tx *sql.Tx, at clock.Instant, ev event.ResourceReported) (news bool, err error) {
	ev.Detail = system.Scrub(ev.Detail, 2048)
	news, err = state.Stated(ctx, tx, ev.Resource, ev.State, ev.Detail, ev.Version)
	if err != nil || !news {
		return false, err
	}
	if ev.State == string(container.Removed) {
		if err := state.Unstated(ctx, tx, ev.Resource); err != nil {
			return false, err
		}
	}
	return true, Append(ctx, tx, at, ev)
}

// Refused reports an entry of the managed layer that is kept off, if that is news,
// and says whether it was.
func Refused(ctx context.Context, tx *sql.Tx, at clock.Instant, r state.Refused) (news bool, err error) {
	return stands(ctx, tx, at, event.ResourceReported{Resource: r.Ref, State: string(container.ErrorState), Detail: r.Detail,
		Layer: event.LayerManaged, Version: r.Version})
}

// NotRefused reports where a resource stands whose entry is refused no longer:
// that it is gone, unless the entry is taken now.
func NotRefused(ctx context.Context, tx *sql.Tx, at clock.Instant, rows Rows, ref engine.Ref, taken bool) error {
	row, err := engine.Row{}, error(reconcile.ErrNotFound)
	if slices.Contains(container.Kinds, ref.Kind) { // a server may name any other resource of the host
		row, err = rows.GetTx(ctx, tx, ref)
	}
	if err != nil && !errors.Is(err, reconcile.ErrNotFound) {
		return err
	}
	if err != nil || row.Phase == engine.Retired {
		if taken { // its first transition follows
			return nil
		}
		told, err := state.UnstatedAs(ctx, tx, ref.String(), string(container.ErrorState))
		if err != nil || !told {
			return err
		}
		return Append(ctx, tx, at, event.ResourceReported{Resource: ref.String(), State: string(container.Removed), Layer: event.LayerManaged})
	}
	action, _, _ := strings.Cut(row.Action, " ")
	return ofContainer(ctx, tx, at, rows, engine.Transition{Ref: ref, Parent: row.Parent, To: row.Phase, Reason: row.Reason, Action: action})
}
