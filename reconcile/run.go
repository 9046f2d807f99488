package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/steadyfleet/steady/reconcile/engine"
)

// run is one turn of one resource, on a worker, which takes the next one with it too.
type run struct {
	l       *Controller
	lasting context.Context // the turn's that does not end: what the store does is done
	snap    engine.Snapshot
	ref     engine.Ref
	causes  engine.Causes
	passed  int           // turns in a row that asked for a time that had passed
	woken   chan struct{} // somebody asked for ref while it runs
	acting  atomic.Bool
	decided string // the name of the last decision

	call   atomic.Uint32          // what of the reconciler runs
	until  atomic.Int64           // when it has to have returned, in ms since 1970; 0: nothing runs
	action atomic.Pointer[string] // the name of that of an Act
	hung   bool                   // it has not returned; the owner's lock guards it
	ended  error                  // of the goroutine that this turn had before: a call ended it
}

// result is what the owner of the queue learns.
type result struct {
	ref      engine.Ref
	again    engine.Causes // take the turn again for these, at wake
	wake     time.Time
	why      engine.Trigger // next turn at wake; 0 none
	deadline time.Time
	keep     bool // the deadline that is queued stays
	passed   bool // it asked for a time that had passed
}

// reset makes it ready for another resource.
func (r *run) reset() {
	r.ref, r.causes, r.decided, r.snap, r.passed, r.ended = engine.Ref{}, engine.Causes{}, "", engine.Snapshot{}, 0, nil
	select {
	case <-r.woken:
	default:
	}
}

// drop forgets all that is kept of a resource that is gone.
func (r *run) drop() {
	r.l.last.drop(r.ref)
	r.l.cache.drop(r.ref)
	if k := r.l.kinds[r.ref.Kind]; k != nil {
		k.drop(r.ref)
	}
}

func (r *run) wake() {
	select {
	case r.woken <- struct{}{}:
	default:
	}
}

// codeStore is the code of lines in the log about a store that fails.
const codeStore engine.Code = "store-failed"

// storeDelay is the wait after the store failed, before the turn is taken again.
const storeDelay = time.Second

// do runs the resource until there is nothing more to do now. It ends without
// a wake only if the row is gone or terminal, or waits for a trigger.
func (r *run) do(ctx context.Context) result {
	r.l.stats.turns.Add(1)
	if r.l.cfg.metrics != nil {
		began := r.l.cfg.now()
		defer func() {
			r.l.measure(func(m Metrics) { m.Turn(r.ref.Kind, r.decided, r.l.cfg.now().Sub(began)) })
		}()
	}
	for {
		unended := r.ended
		res, again, err := r.guarded(ctx)
		switch {
		case r.l.owner.gone.Load():
			return result{ref: r.ref}
		case isPanic(err) && unended == nil:
			r.ended = err // the turn fails with it
		case errors.Is(err, ErrNotFound):
			r.l.stats.unknown.Add(1)
			r.drop()
			return result{ref: r.ref}
		case errors.Is(err, ErrConflict):
			r.l.cache.invalidate() // somebody did, and the Enqueue is still to come
			r.l.stats.conflicts.Add(1)
			return result{ref: r.ref, again: r.causes, wake: r.l.cfg.now(), keep: true}
		case err != nil:
			r.l.storeFailed(err)
			r.l.report(slog.LevelError, r.ref, codeStore, "the store failed, and the turn begins again in a second", "error", err)
			return result{ref: r.ref, again: r.causes, wake: r.l.cfg.now().Add(storeDelay), keep: true}
		case !again:
			return res
		}
	}
}

// guarded is step, in which a panic is an error: whatever code of its user a turn runs, it ends the
// attempt and not the process.
func (r *run) guarded(ctx context.Context) (res result, again bool, err error) {
	defer func() {
		r.until.Store(0)
		if v := recover(); v != nil {
			err = &panicError{in: "a turn", value: v, stack: debug.Stack()}
		}
	}()
	return r.step(ctx)
}

// step loads, does what needs no observation, and else observes and decides.
func (r *run) step(ctx context.Context) (res result, again bool, err error) {
	k := r.l.kinds[r.ref.Kind]
	if err := r.load(k); err != nil {
		return res, false, err
	}
	in := engine.Input{Snap: &r.snap, Policy: policyOf(k), Causes: &r.causes, Now: r.l.cfg.now(), Passed: r.passed}
	if k == nil {
		r.l.stats.unknown.Add(1)
		r.l.report(slog.LevelError, r.ref, engine.CodeNoReconciler, "no reconciler for this kind; its resources stay as they are until their deadlines")
		rec, step := engine.Unattended(in, noReconciler(r.ref))
		err := r.commit(in, rec)
		return r.result(nil, rec), step == engine.Again, err
	}
	rec, step := engine.BeforeObserve(in)
	if step != engine.Proceed {
		err := r.commit(in, rec)
		return r.result(k, rec), step == engine.Again, err
	}
	return r.observeAndDecide(ctx, k, in)
}

// load reads the resource, or takes what was read before if the turn only looks
// again and nothing was written since. What no resync will look at is not kept.
func (r *run) load(k kind) (err error) {
	q := &r.l.cache
	writes := q.writes.Load()
	if !r.mustRead() && q.get(r.ref, writes, &r.snap) {
		return nil
	}
	r.snap, err = r.l.store.Load(r.lasting, r.ref)
	if err == nil && k != nil && k.policy().Resync != 0 {
		q.keep(r.ref, writes, &r.snap)
	}
	return err
}

// observeAndDecide observes and decides, and records what follows.
func (r *run) observeAndDecide(ctx context.Context, k kind, in engine.Input) (result, bool, error) {
	if err := r.ended; err != nil {
		r.ended = nil
		return r.observeFailed(ctx, k, in, err)
	}
	r.enter(callObserve, in.Now.Add(in.Policy.ObserveTimeout))
	octx := withTimeout(ctx, in.Policy.ObserveTimeout)
	var observed any
	err := r.l.cfg.trace(octx, "observe", r.ref, func(ctx context.Context) (err error) {
		observed, err = k.observe(ctx, in, r.mustRead(), r.l.cfg.now)
		return err
	})
	octx.end()
	defer func() { k.release(observed) }()
	var d engine.Decision
	if err == nil {
		in.Now = r.l.cfg.now()
		r.call.Store(uint32(callDecide))
		d, err = k.decide(in, observed, r.l.cfg.pure)
	}
	if err != nil {
		return r.observeFailed(ctx, k, in, err)
	}
	r.decided = d.Name()
	r.l.last.remember(r.ref, decidedTurn{decided(&d), r.causes, in.Now, len(in.Snap.Children)})
	if r.l.newer {
		d = d.Versioned(r.l.versionOf)
	}
	rec := engine.AfterDecide(in, d, r.askRepairGate(ctx, in, d))
	r.until.Store(0)
	if err = r.l.checkChildren(&rec); err != nil {
		refused := engine.Fail(engine.NewReason(engine.CodeBadIntent, err.Error()))
		rec = engine.AfterDecide(in, refused, nil)
	}
	err = r.commit(in, rec)
	if owned, ok := errors.AsType[*engine.OwnerError](err); ok {
		refused := engine.Fail(engine.NewReason(engine.CodeChildConflict, owned.Error()))
		rec = engine.AfterDecide(in, refused, nil)
		err = r.commit(in, rec)
	}
	if err != nil {
		return result{}, false, err
	}
	if rec.Write && r.l.cfg.recorder != nil {
		r.record(k, in, observed, d)
	}
	if rec.Act == nil {
		return r.result(k, rec), false, nil
	}
	return r.act(ctx, k, rec, d.Action())
}

// mustRead reports whether the turn must not be answered from an older listing.
func (r *run) mustRead() bool {
	for _, c := range r.causes.List() {
		if c.Trigger != engine.TriggerStartup && c.Trigger != engine.TriggerResync {
			return true
		}
	}
	return false
}

// observeFailed records that the world could not be read. When the controller stops it
// records nothing: the resource is looked at after the next start.
func (r *run) observeFailed(ctx context.Context, k kind, in engine.Input, err error) (result, bool, error) {
	if ctx.Err() != nil {
		return result{ref: r.ref}, false, nil
	}
	r.logPanic(err)
	in.Now = r.l.cfg.now()
	out := classify(err, engine.CodeObserveFailed)
	rec := engine.ObserveFailed(in, out)
	if len(rec.Transitions) == 0 { // given up: its phase stays
		r.l.report(slog.LevelWarn, r.ref, out.Reason.Code, "an observation failed", "error", err)
	}
	return r.result(k, rec), false, r.commit(in, rec)
}

func (r *run) logPanic(err error) {
	if p, ok := errors.AsType[*panicError](err); ok {
		r.l.stats.panics.Add(1)
		r.l.report(slog.LevelError, r.ref, engine.CodePanic, "a reconciler panicked", "error", err, "stack", string(p.stack))
	}
}

// askRepairGate asks the repair gate.
func (r *run) askRepairGate(ctx context.Context, in engine.Input, d engine.Decision) *engine.Block {
	row := &in.Snap.Row
	if r.l.cfg.gate == nil || in.Policy.OnDrift != engine.Enforce || !engine.IsRepair(row, d) {
		return nil
	}
	r.call.Store(uint32(callGate))
	b := r.l.cfg.gate(ctx, Repair{
		Ref: row.Ref, Parent: row.Parent, Generation: row.Generation,
		Action: d.Action(), Reason: d.Reason(), Causes: r.causes.List(),
	})
	if b != nil && b.Reason.Code == "" {
		b.Reason.Code = engine.CodeBlocked
	}
	return b
}

// commit writes the record, if it has anything to write, and passes on what it
// raised.
func (r *run) commit(in engine.Input, rec engine.Record) error {
	if r.l.owner.gone.Load() {
		return ErrStopped // Run has returned: nothing is written any more
	}
	if !rec.Write {
		r.l.stats.noops.Add(1)
		if rec.AckTrigger != 0 {
			defer r.l.cache.invalidate()
			return r.l.store.Ack(r.lasting, r.ref, rec.AckTrigger)
		}
		return nil
	}
	done, err := r.l.store.Commit(r.lasting, rec)
	r.l.cache.invalidate()
	if err != nil {
		return err
	}
	requests := make([]request, 0, len(done.Raised))
	for _, x := range done.Raised {
		at := rec.Now
		if x.Cause.Trigger == engine.TriggerChild {
			at = r.l.last.spaced(x.Ref, at)
		}
		requests = append(requests, request{x.Ref, at, x.Cause.Trigger.Priority(), x.Cause})
	}
	if len(requests) > 0 {
		r.l.enqueue(requests...)
	}
	r.l.announce(done.Transitions)
	r.trim(in, rec)
	return nil
}

// trim applies the history policy now and then: every Keep/2 transitions.
func (r *run) trim(in engine.Input, rec engine.Record) {
	h := in.Policy.History
	every := int64(max(1, h.Keep/2))
	if h.Keep < 0 || rec.Row.Transitions/every == in.Snap.Row.Transitions/every {
		return
	}
	if err := r.l.store.Trim(r.lasting, r.ref, h, rec.Now); err != nil {
		r.l.storeFailed(err)
		r.l.report(slog.LevelError, r.ref, codeStore, "trim history", "error", err)
	}
}

// result is the next wake: the record's, or the resync if that comes first.
func (r *run) result(k kind, rec engine.Record) result {
	if rec.Row.Phase.Terminal() {
		r.drop()
		return result{ref: r.ref}
	}
	res := result{ref: r.ref, wake: rec.Wake, why: rec.Why, deadline: rec.Deadline, passed: rec.Passed}
	if rec.Stuck() {
		r.l.unqueued(r.ref, rec.Row.Phase, rec.Now)
		res.wake, res.why = rec.Now.Add(storeDelay), engine.TriggerRetry
	}
	if k == nil {
		return res
	}
	p := k.policy()
	if p.Resync == 0 {
		return res
	}
	at := rec.Now.Add(p.ResyncDelay(r.ref))
	if k.listed() {
		// Resources that are listed together resync together, at multiples of the period.
		at = rec.Now.Truncate(p.Resync).Add(p.Resync)
	}
	if res.why == 0 || at.Before(res.wake) {
		res.wake, res.why = at, engine.TriggerResync
	}
	return res
}

// stopped is the outcome of an act that ended because the controller stops: not counted.
func stopped(err error) engine.Outcome {
	return engine.Outcome{
		Class:  engine.Blocked,
		Reason: engine.NewReason(engine.CodeInterrupted, "the controller stopped"),
		Error:  fmt.Sprint(err),
	}
}
