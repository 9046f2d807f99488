package reconcile

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
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
	opened  bool
	idle    []*run    // for workers to come
	armed   time.Time // when Run looks by itself; zero: when it is woken
	ended   bool      // no turn begins any more

	inbox inbox
}

// inbox has what was asked for while the queue was in use, or not open yet: who asks does
// not wait for busy workers, which the scheduler may leave running for milliseconds.
type inbox struct {
	some atomic.Bool

	mu  sync.Mutex
	all []request
}

func (b *inbox) put(requests []request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all = append(b.all, requests...)
	b.some.Store(true)
}

func (b *inbox) take() []request {
	if !b.some.Load() {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.all
	b.all = nil
	b.some.Store(false)
	return all
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
	o.opened = true
	close(o.l.loaded)
}

// offer puts requests into the queue, or has them put there before the next turn is taken.
func (o *queueOwner) offer(requests []request) {
	if !o.mu.TryLock() {
		o.inbox.put(requests)
		o.wake() // if no worker comes
		return
	}
	defer o.mu.Unlock()
	if !o.opened {
		o.inbox.put(requests)
		return
	}
	o.drain()
	o.add(requests)
	o.poke()
}

// drain puts what is in the inbox into the queue; the caller has mu.
func (o *queueOwner) drain() { o.add(o.inbox.take()) }

// add puts requests into the queue; the caller has mu.
func (o *queueOwner) add(requests []request) {
	for _, f := range requests {
		o.queue.Add(f.ref, f.at, f.priority, f.cause)
		if r, ok := o.running[f.ref]; ok {
			r.wake()
		}
	}
}

// wake has Run look at the queue.
func (o *queueOwner) wake() {
	select {
	case o.l.wake <- struct{}{}:
	default:
	}
}

// poke has Run look at the queue if a worker is free for what is due before Run looks by
// itself; the caller has mu.
func (o *queueOwner) poke() {
	at, ok := o.queue.Next()
	if !ok || len(o.running) >= o.l.cfg.workers || !o.armed.IsZero() && !at.Before(o.armed) {
		return
	}
	o.wake()
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
	o.endTurns()
}

// endTurns has no turn begin any more.
func (o *queueOwner) endTurns() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
}

// first begins the turn that is due first; nil if none is.
func (o *queueOwner) first() *run {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.drain()
	return o.take(o.l.cfg.now())
}

// due is when the next turn is.
func (o *queueOwner) due() (time.Time, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.drain()
	return o.queue.Next()
}

// fill starts workers for what is due, and says how long to wait for what is due next if
// one is free for it.
func (o *queueOwner) fill() (wait time.Duration, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.drain()
	now := o.l.cfg.now()
	for r := o.take(now); r != nil; r = o.take(now) {
		o.workers.Go(func() { o.work(r) })
	}
	o.armed = time.Time{}
	at, ok := o.queue.Next()
	if !ok || len(o.running) >= o.l.cfg.workers {
		return 0, false
	}
	o.armed = at
	return max(0, at.Sub(now)), true
}

// burst is how many turns a worker takes before it lets other goroutines run. The scheduler
// would do so after ten milliseconds, in which one that waits for a lock may stand still.
const burst = 16

// work takes turns while some are due.
func (o *queueOwner) work(r *run) {
	for n := 1; r != nil; n++ {
		r = o.next(r, r.do(o.ctx))
		if n%burst == 0 {
			runtime.Gosched()
		}
	}
}

// next ends a turn, and begins another one on the same worker if one is due.
func (o *queueOwner) next(r *run, res result) *run {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.finish(r, res)
	o.drain()
	r = o.take(o.l.cfg.now())
	o.poke()
	return r
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
	if m := o.l.cfg.metrics; m != nil {
		m.Queue(o.queue.Len(), len(o.running))
	}
	return r
}

// finish gives back the key and the run.
func (o *queueOwner) finish(r *run, res result) {
	delete(o.running, res.ref)
	for _, c := range res.again.List() {
		o.queue.Add(res.ref, res.wake, c.Trigger.Priority(), c)
	}
	if res.why != 0 {
		o.queue.Add(res.ref, res.wake, res.why.Priority(), engine.Cause{Trigger: res.why})
	}
	o.queue.Done(res.ref) // now, so that the key need not leave the queue
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
