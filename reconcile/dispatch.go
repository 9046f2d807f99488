package reconcile

import (
	"context"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/steadyfleet/steady/reconcile/engine"
)

// queueOwner has the queue. A worker that ends a turn takes the next one itself, so that
// no goroutine waits for another between two turns; Run starts those that are missing.
//
// As many turns run at once as there are workers. While all of them have been busy for a second, a
// kind of which no turn runs has a place of its own: the acts of one kind do not keep the others
// waiting. A turn whose call has not returned in time is hung: its worker is replaced, and its
// place is one of its kind alone, which has as many as there are workers.
type queueOwner struct {
	l       *Controller
	ctx     context.Context // of the turns; cancelled with ErrStopped
	release func()          // the store, once no turn runs
	late    *lateOwner
	watch   atomic.Int64 // when Run looks for calls that have not returned, in ms since 1970
	gone    atomic.Bool  // Run has returned, or is about to: nothing is written any more

	mu      sync.Mutex // held for no longer than the queue takes
	queue   *engine.Queue
	running map[engine.Ref]*run  // with those that hang
	busy    int                  // without them
	hung    map[string]int       // by kind
	waits   map[string]time.Time // kinds that were seen without a place for what is due, since
	full    map[string]bool      // those for which that is so for a while
	own     bool                 // kinds of which no turn runs have places of their own now
	passed  map[engine.Ref]int   // turns in a row that asked for a time that had passed
	opened  bool
	idle    []*run        // for workers to come
	armed   time.Time     // when Run looks by itself; zero: when it is woken
	ended   bool          // no turn begins any more
	over    chan struct{} // closed when the last turn that does not hang is over, once ended

	inbox inbox
}

func newQueueOwner(l *Controller) *queueOwner {
	o := &queueOwner{
		l: l, queue: engine.NewQueue(), running: map[engine.Ref]*run{}, hung: map[string]int{},
		waits: map[string]time.Time{}, full: map[string]bool{}, passed: map[engine.Ref]int{}, over: make(chan struct{}), release: func() {},
	}
	o.late = newLateOwner(l)
	o.watch.Store(noWatch)
	return o
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
			if r.hung {
				o.late.add(f.ref, f.at)
			}
		} else if o.full[f.ref.Kind] {
			o.late.add(f.ref, f.at)
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
	at, ok := o.queue.NextTimed()
	slack := time.Duration(0)
	if o.busy < o.l.cfg.workers {
		ok = ok || o.queue.Poppable()
		if o.queue.Poppable() {
			at = time.Time{}
		}
	} else {
		slack = busyLook
	}
	if ok && (o.armed.IsZero() || at.Add(slack).Before(o.armed)) {
		o.wake()
	}
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
	o.closeOver()
}

// closeOver closes over once it is so. The caller has mu.
func (o *queueOwner) closeOver() {
	if !o.ended || o.busy > 0 {
		return
	}
	select {
	case <-o.over:
	default:
		close(o.over)
	}
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

// busyLook is how often Run looks at the queue at most while all workers are busy; those whose turns
// are short find what is due themselves.
const busyLook = 10 * time.Millisecond

// fill starts workers for what is due, and says how long to wait for what is next: a turn, or a
// call that should have returned.
func (o *queueOwner) fill() (wait time.Duration, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.drain()
	now := o.l.cfg.now()
	hangs := o.findHung(now)
	for r := o.take(now); r != nil; r = o.take(now) {
		go o.work(r)
	}
	o.queue.Advance(now)
	at, ok := o.queue.NextTimed()
	if o.queue.Due() > 0 { // and has no place
		soon := now.Add(fullSoon)
		if !o.findFull(now) && (!ok || soon.Before(at)) {
			at, ok = soon, true
		}
		for r := o.take(now); r != nil; r = o.take(now) {
			go o.work(r)
		}
	}
	if ok && o.busy >= o.l.cfg.workers {
		at = latest(at, now.Add(busyLook))
	}
	if !hangs.IsZero() && (!ok || hangs.Before(at)) {
		at, ok = hangs, true
	}
	o.armed = time.Time{}
	if ok {
		o.armed = at
	}
	return max(0, at.Sub(now)), ok
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// burst is how many turns a worker takes before it lets other goroutines run. The scheduler
// would do so after ten milliseconds, in which one that waits for a lock may stand still.
const burst = 16

// work takes turns while some are due. A call that ends the goroutine (runtime.Goexit) is an error
// of its turn, which another goroutine takes over.
func (o *queueOwner) work(r *run) {
	over := false
	defer func() {
		if !over {
			r.ended = exited(call(r.call.Load()).String())
			go o.work(r)
		}
	}()
	for n := 1; r != nil; n++ {
		r = o.next(r, r.do(o.ctx))
		if n%burst == 0 {
			runtime.Gosched()
		}
	}
	over = true
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

// take begins the turn that goes first; nil if none is due, or nothing has a place for it.
func (o *queueOwner) take(now time.Time) *run {
	if o.ended {
		return nil
	}
	pop := o.queue.Pop
	if o.busy >= o.l.cfg.workers {
		if !o.own {
			return nil
		}
		pop = o.queue.PopIdle
	}
	it, ok := pop(now)
	if back := o.queue.Back(); back != 0 {
		o.clockWentBack(back)
	}
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
	if len(o.passed) > 0 {
		r.passed = o.passed[it.Ref]
	}
	if len(o.waits) > 0 {
		delete(o.waits, it.Ref.Kind)
		delete(o.full, it.Ref.Kind)
	}
	o.own = o.own && o.busy >= o.l.cfg.workers
	o.running[it.Ref] = r
	o.busy++
	if o.l.cfg.metrics != nil {
		o.l.measure(func(m Metrics) { m.Queue(o.queue.Len(), len(o.running)) })
	}
	return r
}

// finish gives back the key and the run.
func (o *queueOwner) finish(r *run, res result) {
	delete(o.running, res.ref)
	o.returned(r)
	for _, c := range res.again.List() {
		o.queue.Add(res.ref, res.wake, c.Trigger.Priority(), c)
	}
	if res.passed {
		o.passed[res.ref]++
		if o.passed[res.ref] == engine.PassedOften {
			o.l.stats.passed.Add(1)
			o.l.report(slog.LevelWarn, res.ref, "time-passed", "a resource asks for turns at a time that has passed, again and again; each pause is twice the last",
				"next", res.wake)
		}
	} else if len(o.passed) > 0 {
		delete(o.passed, res.ref)
	}
	o.queue.Finish(res.ref, res.wake, res.why, res.deadline, res.keep)
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
