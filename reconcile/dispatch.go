package reconcile

import (
	"context"
	"sync"
	"time"

	"github.com/steadyfleet/steady/reconcile/engine"
)

// queueOwner has the queue. A worker that ends a turn takes the next one itself, so that
// no goroutine waits for another between two turns; Run starts those that are missing.
type queueOwner struct {
	l       *Controller
	ctx     context.Context // of the turns; cancelled with ErrStopped
	workers sync.WaitGroup

	mu      sync.Mutex // held for no longer than the queue takes
	queue   *engine.Queue
	running map[engine.Ref]*run
	idle    []*run    // for workers to come
	armed   time.Time // when Run looks by itself; zero: when it is woken
	ended   bool      // no turn begins any more
}

// open enqueues what was open when the controller started.
func (o *queueOwner) open(ctx context.Context, opened Opened) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ctx = ctx
	now := o.l.cfg.now()
	cause := engine.Cause{Trigger: engine.TriggerStartup}
	for _, r := range opened.Refs {
		p := engine.PriorityStartup
		if r.Acting {
			p = engine.PriorityInterrupted
		}
		o.queue.Add(r.Ref, now, p, cause)
	}
	for _, r := range opened.Raised {
		o.queue.Add(r.Ref, now, r.Cause.Trigger.Priority(), r.Cause)
	}
	close(o.l.loaded)
}

// serve hands out due turns while there are free workers, and otherwise waits for
// requests and time.
func (o *queueOwner) serve(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for ctx.Err() == nil {
		var due <-chan time.Time
		if wait, ok := o.fill(); ok {
			timer.Reset(wait)
			due = timer.C
		}
		select {
		case <-ctx.Done():
		case <-o.l.wake:
		case <-due:
		}
	}
	o.mu.Lock()
	o.ended = true
	o.mu.Unlock()
}

// fill starts workers for what is due, and says how long to wait for what is due next if
// one is free for it.
func (o *queueOwner) fill() (wait time.Duration, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.l.cfg.now()
	o.startAll(now)
	o.armed = time.Time{}
	at, ok := o.queue.Next()
	if !ok || len(o.running) >= o.l.cfg.workers {
		return 0, false
	}
	o.armed = at
	return max(0, at.Sub(now)), true
}

// startAll starts a worker for each turn that is due, while some are free; the caller has mu.
func (o *queueOwner) startAll(now time.Time) {
	o.drain()
	for r := o.take(now); r != nil; r = o.take(now) {
		o.workers.Go(func() { o.work(r) })
	}
}

// work takes turns while some are due.
func (o *queueOwner) work(r *run) {
	for r != nil {
		r = o.next(r, r.do(o.ctx))
	}
}

// next ends a turn, and begins another one on the same worker if one is due.
func (o *queueOwner) next(r *run, res result) *run {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.finish(r, res)
	if o.ended {
		return nil
	}
	o.drain()
	now := o.l.cfg.now()
	r = o.take(now)
	if len(o.running) < o.l.cfg.workers {
		o.l.busy.Store(false)
		o.startAll(now) // and what came before that was seen
		if at, ok := o.queue.Next(); ok && (o.armed.IsZero() || at.Before(o.armed)) {
			o.l.poke()
		}
	}
	return r
}

func (o *queueOwner) drain() {
	o.l.mu.Lock()
	requests := o.l.inbox
	o.l.inbox = nil
	o.l.mu.Unlock()
	for _, f := range requests {
		o.queue.Add(f.ref, f.at, f.priority, f.cause)
		if r, ok := o.running[f.ref]; ok {
			r.wake()
		}
	}
}

// take begins the turn that is due first; nil if none is, or no worker free.
func (o *queueOwner) take(now time.Time) *run {
	if o.ended || len(o.running) >= o.l.cfg.workers {
		return nil
	}
	it, ok := o.queue.Pop(now)
	if !ok {
		return nil
	}
	var r *run
	if n := len(o.idle); n > 0 {
		r, o.idle = o.idle[n-1], o.idle[:n-1]
	} else {
		r = &run{l: o.l, woken: make(chan struct{}, 1), lasting: context.WithoutCancel(o.ctx)}
	}
	r.ref, r.causes = it.Ref, it.Causes
	o.running[it.Ref] = r
	o.l.busy.Store(len(o.running) >= o.l.cfg.workers)
	if m := o.l.cfg.metrics; m != nil {
		m.Queue(o.queue.Len(), len(o.running))
	}
	return r
}

// finish gives back the key and the run.
func (o *queueOwner) finish(r *run, res result) {
	delete(o.running, res.ref)
	o.queue.Done(res.ref)
	for _, c := range res.again.List() {
		o.queue.Add(res.ref, res.wake, c.Trigger.Priority(), c)
	}
	if res.why != 0 {
		o.queue.Add(res.ref, res.wake, res.why.Priority(), engine.Cause{Trigger: res.why})
	}
	r.reset()
	o.idle = append(o.idle, r)
}

// onQueue runs f with the queue; not at all if the controller does not run.
func (l *Controller) onQueue(ctx context.Context, f func(*queueOwner)) {
	if !l.started.Load() {
		return
	}
	select {
	case <-l.loaded:
	case <-l.stopped:
	case <-ctx.Done():
		return
	}
	select {
	case <-l.stopped:
		return
	default:
	}
	l.owner.mu.Lock()
	defer l.owner.mu.Unlock()
	f(l.owner)
}
