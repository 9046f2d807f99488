package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/steadyfleet/steady/reconcile/engine"
)

// act carries out an act whose intent was committed with begun, and records how
// it ended. If the desired state changed meanwhile, the end is not recorded:
// the newer generation's turn observes what the act left behind.
func (r *run) act(ctx context.Context, k kind, begun engine.Record, a engine.Action) (result, bool, error) {
	r.l.stats.acts.Add(1)
	began := r.l.cfg.now()
	snap := engine.Snapshot{Row: begun.Row}
	in := engine.Input{Snap: &snap, Policy: k.policy(), Causes: &r.causes, Now: began}
	var superseded bool
	err := r.l.cfg.trace(ctx, "act "+a.ActionName(), r.ref, func(ctx context.Context) (err error) {
		err, superseded = r.perform(ctx, k, in, begun.Act.DueBy, a)
		return err
	})
	k.acted()
	if err != nil {
		r.l.stats.actErrors.Add(1)
		r.logPanic(err)
	}
	in.Now = r.l.cfg.now()
	if m := r.l.cfg.metrics; m != nil {
		m.Act(r.ref.Kind, a.ActionName(), in.Now.Sub(began), err)
	}
	if superseded {
		r.l.stats.superseded.Add(1)
		if err != nil {
			r.l.report(slog.LevelInfo, r.ref, "superseded", "an act ended with an error after what is desired had changed", "error", err)
		}
		return result{}, false, ErrConflict
	}
	out := classify(err, engine.CodeActFailed)
	switch {
	case err != nil && ctx.Err() != nil:
		out = stopped(err)
	case errors.Is(err, ErrActTimeout):
		out.Reason.Code = engine.CodeActTimeout
	}
	out.Duration = in.Now.Sub(began)
	rec := engine.AfterAct(in, out)
	if err := r.commit(in, rec); err != nil {
		return result{}, false, err
	}
	return r.result(k, rec), false, nil
}

// perform runs Act under its deadline and watches for a newer generation and for earlier deadlines.
// It returns only when Act has returned: two acts on one resource never overlap, even if the first
// ignores its context. in has the row as it stands then.
func (r *run) perform(ctx context.Context, k kind, in engine.Input, dueBy time.Time, a engine.Action) (err error, superseded bool) {
	actx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	tctx, stop := context.WithTimeoutCause(actx, dueBy.Sub(in.Now), ErrActTimeout)
	defer stop()
	if r.l.stepped { // nobody else does anything meanwhile
		return named(tctx, k.act(tctx, in, a)), false
	}
	name := a.ActionName()
	r.action.Store(&name)
	r.enter(callAct, dueBy)
	begun := in
	begun.Snap = &engine.Snapshot{Row: in.Snap.Row} // in changes while it runs
	done := apart("Act", func() error { return k.act(tctx, begun, a) })
	r.acting.Store(true)
	defer r.acting.Store(false)
	sooner := time.AfterFunc(time.Hour, func() { cancel(ErrActTimeout) })
	sooner.Stop()
	defer sooner.Stop()
	for changed := false; ; changed = true {
		select {
		case err := <-done:
			err = named(tctx, err)
			r.until.Store(0)
			if changed {
				r.reread(in)
			}
			return err, superseded
		case <-r.woken:
			if !r.reread(in) {
				superseded = true
				cancel(ErrSuperseded)
				continue
			}
			if by := in.ActBy(); by.Before(dueBy) {
				dueBy = by
				r.enter(callAct, dueBy)
				sooner.Reset(max(0, dueBy.Sub(r.l.cfg.now())))
			}
		}
	}
}

// reread takes the row of an act as it stands by now, so that its end is recorded although
// deadlines changed. It reports false, and leaves the row, if there is a newer generation.
func (r *run) reread(in engine.Input) (same bool) {
	row, err := r.l.store.Get(r.lasting, r.ref)
	switch {
	case err != nil:
		return true // a commit will tell
	case row.Generation != in.Snap.Row.Generation:
		return false
	case row.Phase == engine.Acting:
		in.Snap.Row = row
	}
	return true
}

// named adds the cause of the context's end to an act's error.
func named(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if err == nil || cause == nil || errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w: %w", cause, err)
}
