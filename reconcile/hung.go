package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/steadyfleet/steady/reconcile/engine"
)

// call is what of a reconciler runs in a turn.
type call uint32

const (
	callObserve call = iota
	callDecide
	callGate
	callAct
)

// String is the call's name.
func (c call) String() string { return [...]string{"Observe", "Decide", "the repair gate", "Act"}[c] }

// HungCall is a call of a reconciler that has not returned in time. Its resource gets no other
// one before it has, and its deadlines are kept without it.
type HungCall struct {
	Ref   engine.Ref `json:"ref"`
	Call  string     `json:"call"`  // Observe, Decide, the repair gate, or Act with the action's name
	DueBy time.Time  `json:"dueBy"` // when it should have returned
}

// String is the call in words.
func (h HungCall) String() string {
	return fmt.Sprintf("%s of %s has not returned; it should have by %s", h.Call, h.Ref, h.DueBy.Format(millis))
}

// reason is why the row stays as it is.
func (h HungCall) reason() engine.Reason {
	return engine.NewReason(engine.CodeHung, fmt.Sprintf("%s has not returned; it should have by %s", h.Call, h.DueBy.Format(millis)))
}

// Hung names the calls that have not returned in time, the oldest first.
func (l *Controller) Hung() (all []HungCall) {
	l.onQueue(context.Background(), func(o *queueOwner) {
		for _, r := range o.running {
			if r.hung {
				all = append(all, r.hungCall())
			}
		}
	})
	slices.SortFunc(all, func(a, b HungCall) int {
		return cmp.Or(a.DueBy.Compare(b.DueBy), a.Ref.Compare(b.Ref))
	})
	return all
}

// hungCall names the call that runs; the caller has the owner's lock.
func (r *run) hungCall() HungCall {
	h := HungCall{Ref: r.ref, Call: call(r.call.Load()).String(), DueBy: time.UnixMilli(r.until.Load()).UTC()}
	if a := r.action.Load(); a != nil && h.Call == callAct.String() {
		h.Call += " " + *a
	}
	return h
}

// patience is how long after its end a call is not yet taken for one that hangs: its context ends
// then, and it may return.
func (r *run) patience() time.Duration {
	p := policyOf(r.l.kinds[r.ref.Kind])
	timeout := p.ObserveTimeout
	if call(r.call.Load()) == callAct {
		timeout = p.ActTimeout
	}
	return min(max(timeout/10, 10*time.Millisecond), longestPatience)
}

const longestPatience = time.Second

// noWatch is an instant that never comes.
const noWatch = math.MaxInt64

// enter notes that a call runs which has to return by an instant.
func (r *run) enter(c call, by time.Time) {
	until := by.UnixMilli()
	r.call.Store(uint32(c))
	r.until.Store(until)
	if until+longestPatience.Milliseconds() < r.l.owner.watch.Load() && !r.l.stepped {
		r.l.owner.wake()
	}
}

// findHung replaces the workers of calls that have not returned in time, and says when the next
// one may be such: zero if none runs. The caller has mu.
func (o *queueOwner) findHung(now time.Time) (next time.Time) {
	first := int64(noWatch)
	for _, r := range o.running {
		until := r.until.Load()
		hangs := until + r.patience().Milliseconds()
		switch {
		case r.hung:
		case until == 0: // between two calls: the next one will not wake Run for itself
			first = min(first, now.Add(longestPatience).UnixMilli())
		case hangs > now.UnixMilli():
			first = min(first, hangs)
		default:
			o.hang(r, now)
		}
	}
	o.watch.Store(first)
	if first == noWatch {
		return next
	}
	return time.UnixMilli(first).UTC()
}

// hang takes the worker from a turn whose call does not return. The caller has mu.
func (o *queueOwner) hang(r *run, now time.Time) {
	kind := r.ref.Kind
	r.hung = true
	o.busy--
	o.hung[kind]++
	o.queue.Leave(r.ref)
	o.queue.SetPlaces(kind, max(0, o.l.cfg.workers-o.hung[kind]))
	h := r.hungCall()
	o.l.report(slog.LevelError, r.ref, engine.CodeHung, "a call of a reconciler has not returned in time; its resource gets no other one until it has",
		"call", h.Call, "dueBy", h.DueBy, "hungOfKind", o.hung[kind], "places", o.l.cfg.workers)
	o.late.add(r.ref, now)
}

// returned gives back the place of a turn that is over. The caller has mu.
func (o *queueOwner) returned(r *run) {
	kind := r.ref.Kind
	if !r.hung {
		o.busy--
	} else {
		r.hung = false
		o.hung[kind]--
		o.queue.SetPlaces(kind, max(0, o.l.cfg.workers-o.hung[kind]))
		if o.hung[kind] == 0 {
			delete(o.hung, kind)
		}
		o.l.report(slog.LevelWarn, r.ref, engine.CodeHung, "a call of a reconciler that had not returned in time has", "call", call(r.call.Load()).String())
	}
	o.closeOver()
	if o.gone.Load() && len(o.running) == 0 {
		o.release()
	}
}

// finishTurns waits for the turns that run, for as long as the controller's grace, and leaves
// behind those that do not return.
func (o *queueOwner) finishTurns(others ...<-chan error) {
	grace := time.NewTimer(o.l.cfg.grace)
	defer grace.Stop()
	wait := func(c <-chan struct{}) {
		select {
		case <-c:
		case <-grace.C:
			grace.Reset(0) // nor is there any for the others
		}
	}
	wait(o.over)
	for _, c := range others {
		select {
		case <-c:
		case <-grace.C:
			grace.Reset(0)
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.gone.Store(true)
	for _, r := range o.running {
		o.l.cfg.log.Error("the controller ends while a call of a reconciler runs on; the store stays in use until it returns or the process ends",
			"ref", r.ref.String(), "call", call(r.call.Load()).String())
	}
	if len(o.running) == 0 {
		o.release()
	}
}

// clockWentBack has calls that run be judged by the clock as it is now. The caller has mu.
func (o *queueOwner) clockWentBack(by time.Duration) {
	o.l.cfg.log.Warn("the clock went back; what is due in a while stays due in that while, and deadlines are instants of the new time", "by", by)
	for _, r := range o.running {
		if until := r.until.Load(); until != 0 {
			r.until.CompareAndSwap(until, until-by.Milliseconds())
		}
	}
	o.watch.Store(noWatch)
	o.wake()
}
