package state

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/deploy"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/system"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// Rows reads the resource of a transition in the transaction that records it, or
// gives reconcile.ErrNotFound.
type Rows interface {
	GetTx(ctx context.Context, tx *sql.Tx, ref engine.Ref) (engine.Row, error)
}

// ReportTransition reports the status of a resource in the transaction that records it,
// if that is news: the event waits in the outbox until the server has it. What only
// groups others is left out, since its parts report themselves. The removal of what
// is refused is reported as the refusal, which is why it went.
func ReportTransition(ctx context.Context, tx *sql.Tx, at clock.Instant, rows Rows, t engine.Transition) error {
	if t.Ref.Kind == system.KindGeneration || t.Ref.Kind == deploy.LayerKind || passing(t) {
		return nil
	}
	row, err := rows.GetTx(ctx, tx, t.Ref)
	if err != nil && !errors.Is(err, reconcile.ErrNotFound) {
		return err
	}
	ev := event.ResourceReported{Resource: t.Ref.String(), Phase: t.To, Reason: t.Reason.Code, Message: t.Reason.Message,
		Attempts: t.Attempt, Layer: event.LayerBundle}
	ev.State = string(spec.Known.StateOf(spec.Stage{Kind: t.Ref.Kind, Phase: t.To, Code: t.Reason.Code, Action: t.Action}))
	if t.Error != "" {
		ev.Message = t.Error
	}
	if t.Parent == deploy.ManagedLayer {
		ev.Layer = event.LayerManaged
	}
	if row.Phase == t.To && (t.To == engine.Retrying || row.GivenUp()) {
		ev.NextAttempt = clock.FromTime(row.NextAttempt())
	}
	if ev.Version, ev.BrokenBefore, err = desiredOf(row); err != nil {
		return err
	}
	ev.BrokenBefore = ev.BrokenBefore && row.ConvergedGen != row.Generation
	if ev.State == string(spec.Removed) {
		r, refused, err := IsRefused(ctx, tx, ev.Resource)
		if err != nil {
			return err
		}
		if refused {
			_, err := ReportRefused(ctx, tx, at, r)
			return err
		}
	}
	_, err = report(ctx, tx, at, ev)
	return err
}

// passing reports whether a transition is one of the steps that each file of each
// release goes through. Where it stops is reported, and that it had drifted.
func passing(t engine.Transition) bool {
	if t.Ref.Kind != system.KindFile {
		return false
	}
	switch t.To {
	case engine.Pending, engine.Deleting:
		return true
	case engine.Acting, engine.Verifying, engine.Waiting:
		return t.From != engine.Converged
	}
	return false
}

// desiredOf is the version of the managed layer that a row is of, and whether the run that set
// it found it broken.
func desiredOf(row engine.Row) (version uint64, brokenBefore bool, err error) {
	if len(row.Desired) == 0 || !slices.Contains(append([]string{system.KindFile}, spec.Kinds...), row.Ref.Kind) {
		return 0, false, nil
	}
	var d spec.Desired[json.RawMessage]
	if err := json.Unmarshal(row.Desired, &d); err != nil {
		return 0, false, fmt.Errorf("read what is desired of %s: %w", row.Ref, err)
	}
	return d.Version, d.BrokenBefore, nil
}

// report appends a report if it is news, and says whether it was.
func report(ctx context.Context, tx *sql.Tx, at clock.Instant, ev event.ResourceReported) (news bool, err error) {
	ev.Message = system.Scrub(ev.Message, 2048)
	news, err = Reported(ctx, tx, ev.Resource, ev.State, facts(ev))
	if err != nil || !news {
		return false, err
	}
	if ev.State == string(spec.Removed) {
		if err := ForgetReported(ctx, tx, ev.Resource); err != nil {
			return false, err
		}
	}
	return true, Append(ctx, tx, at, ev)
}

// facts is what makes a report news, beside its state. The phases of one act are
// one.
func facts(ev event.ResourceReported) string {
	phase := ev.Phase
	switch phase {
	case engine.Pending, engine.Acting, engine.Verifying:
		phase = engine.Acting
	}
	out := fmt.Sprintf("%s %s %d %d %s", phase, ev.Reason, ev.Version, ev.Attempts, ev.Message)
	if ev.BrokenBefore {
		out += " before"
	}
	return out
}

// CodeRefused is the reason of an entry of the managed layer that is kept off.
const CodeRefused engine.Code = "refused"

// ReportRefused reports an entry of the managed layer that is kept off, if that is news,
// and says whether it was.
func ReportRefused(ctx context.Context, tx *sql.Tx, at clock.Instant, r Refused) (news bool, err error) {
	return report(ctx, tx, at, event.ResourceReported{Resource: r.Ref, Phase: engine.Failed, State: string(spec.ErrorState), Reason: CodeRefused, Message: r.Detail,
		Layer: event.LayerManaged, Version: r.Version})
}

// ReportAdmitted reports where a resource stands whose entry is refused no longer:
// that it is gone, unless the entry is taken now.
func ReportAdmitted(ctx context.Context, tx *sql.Tx, at clock.Instant, rows Rows, ref engine.Ref, taken bool) error {
	row, err := engine.Row{}, error(reconcile.ErrNotFound)
	if slices.Contains(spec.Kinds, ref.Kind) { // a server may name any other resource of the host
		row, err = rows.GetTx(ctx, tx, ref)
	}
	if err != nil && !errors.Is(err, reconcile.ErrNotFound) {
		return err
	}
	if err != nil || row.Phase == engine.Deleted {
		if taken { // its first transition follows
			return nil
		}
		told, err := ForgetReportedAs(ctx, tx, ref.String(), string(spec.ErrorState))
		if err != nil || !told {
			return err
		}
		return Append(ctx, tx, at, event.ResourceReported{Resource: ref.String(), State: string(spec.Removed), Layer: event.LayerManaged})
	}
	action, _, _ := strings.Cut(row.Action(), " ")
	return ReportTransition(ctx, tx, at, rows, engine.Transition{Ref: ref, Parent: row.Parent, To: row.Phase, Reason: row.Reason, Action: action})
}
