package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/steadyfleet/steady/reconcile/engine"
)

// lateOwner keeps the deadlines of resources whose turn cannot run: a call of theirs hangs, or their
// kind has no place. It reads and writes rows alone, one after the other, and calls no
// reconciler; that a turn of the same row may run meanwhile is what revisions are for.
type lateOwner struct {
	l *Controller
	c chan struct{}

	mu    sync.Mutex
	queue *engine.Queue
}

func newLateOwner(l *Controller) *lateOwner {
	return &lateOwner{l: l, c: make(chan struct{}, 1), queue: engine.NewQueue()}
}

func (d *lateOwner) add(ref engine.Ref, at time.Time) {
	d.mu.Lock()
	d.queue.Add(ref, at, engine.PriorityEvent, engine.Cause{Trigger: engine.TriggerDeadline})
	d.mu.Unlock()
	select {
	case d.c <- struct{}{}:
	default:
	}
}

// next pops what is due, or says how long to wait for what is next.
func (d *lateOwner) next() (ref engine.Ref, wait time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.l.cfg.now()
	if it, ok := d.queue.Pop(now); ok {
		d.queue.Done(it.Ref)
		return it.Ref, 0
	}
	wait = time.Hour
	if at, ok := d.queue.Next(); ok {
		wait = min(wait, max(at.Sub(now), time.Millisecond))
	}
	return ref, wait
}

func (d *lateOwner) serve(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for ctx.Err() == nil {
		ref, wait := d.next()
		if !ref.IsZero() {
			d.attend(ctx, ref)
			continue
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
		case <-d.c:
		case <-timer.C:
		}
	}
}

// attend keeps the deadlines of one resource, and comes back at the next one.
func (d *lateOwner) attend(ctx context.Context, ref engine.Ref) {
	hung, isHung, full := d.l.owner.unable(ref)
	if !isHung && !full {
		return // its own turns do
	}
	r := &run{l: d.l, lasting: context.WithoutCancel(ctx), ref: ref, causes: engine.CausesOf(engine.Cause{Trigger: engine.TriggerDeadline})}
	next, err := d.keep(r, hung, isHung)
	switch {
	case errors.Is(err, ErrNotFound):
		return
	case errors.Is(err, ErrConflict):
		next = d.l.cfg.now()
	case err != nil && d.l.owner.gone.Load():
		return
	case err != nil:
		d.l.storeFailed(err)
		d.l.report(slog.LevelError, ref, codeStore, "keep the deadlines of a resource whose turn cannot run", "error", err)
		next = d.l.cfg.now().Add(storeDelay)
	}
	if !next.IsZero() {
		d.add(ref, next)
	}
}

// keep takes the steps of a row that need no reconciler.
func (d *lateOwner) keep(r *run, hung HungCall, isHung bool) (next time.Time, err error) {
	why := engine.Reason{}
	if isHung {
		why = hung.reason()
	}
	for first := true; ; first = false {
		if r.snap, err = d.l.store.Load(r.lasting, r.ref); err != nil {
			return next, err
		}
		row := &r.snap.Row
		in := engine.Input{Snap: &r.snap, Policy: policyOf(d.l.kinds[r.ref.Kind]), Causes: &r.causes, Now: d.l.cfg.now(), Hung: true}
		rec, step := engine.Record{}, engine.Again
		if first && isHung && !row.Phase.Terminal() && row.Reason.Code != engine.CodeHung {
			rec = engine.Hung(in, why)
		} else {
			rec, step = engine.Unattended(in, why)
		}
		rec.AckTrigger = 0 // its turn is still to come
		if err := r.commit(in, rec); err != nil {
			return next, err
		}
		if rec.Write { // a turn follows as soon as one can, and the call that hangs learns of it
			d.l.Enqueue(r.ref, engine.Cause{Trigger: engine.TriggerDeadline})
		}
		if step != engine.Again {
			return rec.Deadline, nil
		}
	}
}

// unable reports why no turn of ref can run now: its call that hangs, or that its kind has no place.
func (o *queueOwner) unable(ref engine.Ref) (h HungCall, hung, full bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if r := o.running[ref]; r != nil && r.hung {
		return r.hungCall(), true, false
	}
	return h, false, o.full[ref.Kind]
}

// fullSoon is for how long a kind may have no place for what is due before it gets one of its own, or
// the deadlines of what waits are kept without turns.
const fullSoon = time.Second

// findFull finds kinds that have had no place for what is due for a while, and has the deadlines
// of what waits kept. It reports whether all kinds with something due are such. The caller has mu.
func (o *queueOwner) findFull(now time.Time) bool {
	all := true
	for name := range o.l.kinds {
		due, running := o.noPlace(name)
		since, waits := o.waits[name]
		switch {
		case due == 0:
			delete(o.waits, name)
			delete(o.full, name)
		case !waits:
			o.waits[name], all = now, false
		case o.full[name]:
		case now.Sub(since) < fullSoon:
			all = false
		case running == 0 && o.hung[name] < o.l.cfg.workers:
			o.own = true
		default:
			o.full[name] = true
			o.l.cfg.log.Warn("a kind has no place for what is due; its deadlines are kept meanwhile",
				"kind", name, "due", due, "running", running, "hung", o.hung[name], "workers", o.l.cfg.workers)
			o.queue.EachDue(name, func(ref engine.Ref) { o.late.add(ref, now) })
		}
	}
	return all
}

// noPlace counts what is due of a kind that has no place for it, and its turns that run and do not
// hang. The caller has mu.
func (o *queueOwner) noPlace(kind string) (due, running int) {
	due, running = o.queue.Waiting(kind)
	if running+o.hung[kind] < o.l.cfg.workers && o.busy < o.l.cfg.workers {
		due = 0
	}
	return due, running
}

// fullReason is the reason that a resource of a kind without a free place waits; empty if there
// is one. The caller has mu.
func (o *queueOwner) fullReason(kind string) string {
	due, running := o.noPlace(kind)
	if due == 0 {
		return ""
	}
	return fmt.Sprintf("no worker is free for kind %s: %d of its calls have not returned in time, %d turns of it and %d of others run, of %d",
		kind, o.hung[kind], running, o.busy-running, o.l.cfg.workers)
}

// noReconciler is why nothing is done about a resource of a kind that nobody registered.
func noReconciler(ref engine.Ref) engine.Reason {
	return engine.NewReason(engine.CodeNoReconciler, fmt.Sprintf("no reconciler is registered for kind %q", ref.Kind))
}
