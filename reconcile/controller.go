package reconcile

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/steadyfleet/steady/reconcile/engine"
)

// Controller runs the reconcilers of all registered kinds over one store. Register every
// kind, then Run.
type Controller struct {
	store Store
	cfg   config
	kinds map[string]kind
	names []string // of the kinds, as registered
	newer bool     // a kind has a version above 1

	started atomic.Bool
	stepped bool          // by a Stepper, in one goroutine
	loaded  chan struct{} // closed when the queue has what was open at the start
	stopped chan struct{}
	wake    chan struct{} // there is something for a free worker, or will be earlier than was known
	owner   *queueOwner

	last    lastTurns
	cache   snapshotCache
	stats   counters
	commits commits
	lines   logLimit
}

// request asks the owner of the queue for a turn.
type request struct {
	ref      engine.Ref
	at       time.Time
	priority engine.Priority
	cause    engine.Cause
}

// New makes a controller over a store. Nothing runs before Run.
func New(store Store, opts ...Option) *Controller {
	l := &Controller{
		store: store, cfg: defaults(), kinds: map[string]kind{},
		loaded: make(chan struct{}), stopped: make(chan struct{}), wake: make(chan struct{}, 1),
		last: lastTurns{seen: map[engine.Ref]decidedTurn{}}, cache: snapshotCache{rows: map[engine.Ref]*cachedSnapshot{}},
	}
	for _, o := range opts {
		o(&l.cfg)
	}
	l.owner = newQueueOwner(l)
	return l
}

// Register adds a kind. It fails on a bad policy, a kind twice, or after Run began.
func Register[D, O any](l *Controller, name string, m Reconciler[D, O], p engine.Policy) error {
	p = p.WithDefaults()
	switch {
	case l.started.Load():
		return fmt.Errorf("register kind %q: the controller runs already", name)
	case name == "":
		return errors.New("register a kind: it has no name")
	case l.kinds[name] != nil:
		return fmt.Errorf("register kind %q: it is registered already", name)
	}
	if err := p.Validate(); err != nil {
		return fmt.Errorf("register kind %q: policy: %w", name, err)
	}
	k := &typedKind[D, O]{decoder: newDecoder[D](m, l.cfg.lenient), m: m, decoded: map[engine.Ref]decoded[D]{}}
	k.setPolicy(&p)
	if all, ok := m.(BulkObserver[O]); ok {
		k.all = &listing[O]{observe: all.ObserveAll, alone: map[engine.Ref]int64{}}
	}
	l.kinds[name] = k
	l.names = append(l.names, name)
	l.newer = l.newer || k.version() > 1
	return nil
}

// SetPolicy changes the policy of a kind, for turns that begin from now on. What
// is scheduled already stays scheduled. It may be called at any time.
func (l *Controller) SetPolicy(name string, p engine.Policy) error {
	p = p.WithDefaults()
	k := l.kinds[name]
	if k == nil {
		return fmt.Errorf("set the policy of kind %q: it is not registered", name)
	}
	if err := p.Validate(); err != nil {
		return fmt.Errorf("set the policy of kind %q: %w", name, err)
	}
	k.setPolicy(&p)
	return nil
}

// Enqueue asks for a turn of ref soon. It never blocks, and may be called before Run.
// Call it after the commit of a transaction that set what is desired of ref: a
// running act of the older generation is then cancelled.
func (l *Controller) Enqueue(ref engine.Ref, cause engine.Cause) {
	at := l.cfg.now()
	if cause.Trigger == engine.TriggerExternal {
		at = at.Add(l.cfg.debounce)
	}
	l.enqueue(request{ref, at, cause.Trigger.Priority(), cause})
}

// Apply sets what is desired of a root in a transaction of its own, and enqueues it. It fails, and
// nothing is written, if Check does.
func (l *Controller) Apply(ctx context.Context, in engine.Intent, cause engine.Cause) (engine.Change, error) {
	in, err := l.Check(in)
	if err != nil {
		return engine.Change{}, err
	}
	ch, err := l.store.Apply(ctx, in, l.cfg.now(), cause)
	l.cache.invalidate()
	if err == nil && ch.Changed {
		l.announce(ch.Transition)
		l.Enqueue(in.Ref, cause)
	}
	return ch, err
}

// Deliver puts an event into the durable inbox of ref, from where its reconciler sees it
// until it has handled it, and enqueues ref. When it returns without an error the event
// may be acknowledged to whoever sent it: it was kept, or was received before.
func (l *Controller) Deliver(ctx context.Context, ref engine.Ref, e engine.Event) error {
	r, err := l.store.Deliver(ctx, ref, e, l.cfg.now())
	l.cache.invalidate()
	if err == nil && r.N != 0 {
		l.Enqueue(ref, r.Cause)
	}
	return err
}

func (l *Controller) enqueue(requests ...request) {
	for _, r := range requests {
		if r.cause.Trigger != engine.TriggerResync {
			l.cache.invalidate()
			break
		}
	}
	l.owner.offer(requests)
}

// announce passes a commit on to the log, the owner's callback and metrics.
func (l *Controller) announce(ts []engine.Transition) {
	l.reportMoves(ts)
	if l.cfg.after != nil && len(ts) > 0 {
		l.callback("the callback after a commit", func() { l.cfg.after(ts) })
	}
	l.measure(func(m Metrics) {
		for _, t := range ts {
			m.Move(t.Ref.Kind, t.From, t.To)
		}
	})
	l.commits.tell()
}

// Run enqueues every open row at the lowest priority (those left in the middle
// of an act first) and runs until ctx ends; then it cancels running acts with
// ErrStopped, waits for them for up to five seconds (WithStopGrace), and returns nil. A call of a
// reconciler that does not return is named in the log and waited for no longer; it writes nothing
// any more. Run may be called once. It fails with ErrStoreInUse while another controller runs on
// the store, or a call that such a one left behind.
func (l *Controller) Run(ctx context.Context) error {
	if !l.started.CompareAndSwap(false, true) {
		return errors.New("run a controller twice: make a new one")
	}
	defer close(l.stopped)
	release, err := claim(l.store)
	if err != nil {
		return fmt.Errorf("start the reconcile loop: %w", err)
	}
	l.owner.release = release
	opened, err := l.store.Open(context.WithoutCancel(ctx))
	if err != nil {
		release()
		return fmt.Errorf("start the reconcile loop: %w", err)
	}
	turns, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	l.owner.open(turns, opened)
	keeper := apart("the keeper of the house", func() error { l.collectGarbage(turns); return nil })
	keepers := apart("the keeper of deadlines", func() error { l.owner.late.serve(turns); return nil })
	l.owner.serve(ctx)
	cancel(ErrStopped)
	l.owner.finishTurns(keeper, keepers)
	l.flushLog(l.cfg.now())
	return nil
}

// housekeeping is how often a controller purges what is long deleted and looks for orphans.
const housekeeping = time.Hour

// collectGarbage keeps house at start and from time to time.
func (l *Controller) collectGarbage(ctx context.Context) {
	tick := time.NewTicker(housekeeping)
	defer tick.Stop()
	for {
		l.keepHouse(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			l.sweep(ctx) // not at the start, which queues everything
		}
	}
}

func (l *Controller) keepHouse(ctx context.Context) {
	l.flushLog(l.cfg.now().Add(-logPeriod))
	for _, name := range l.names {
		l.collectKind(ctx, name)
	}
}

func (l *Controller) collectKind(ctx context.Context, name string) {
	k := l.kinds[name]
	age := k.policy().History.Age
	if age == 0 {
		age = 7 * 24 * time.Hour
	}
	if n, err := l.store.Purge(context.WithoutCancel(ctx), name, l.cfg.now().Add(-age)); err != nil {
		l.storeFailed(err)
		l.cfg.log.Error("purge deleted resources", "kind", name, "error", err)
	} else if n > 0 {
		l.cache.invalidate()
		l.cfg.log.Debug("purged deleted resources", "kind", name, "count", n)
	}
	if l.cfg.orphans == nil {
		return
	}
	refs, err := l.listOrphans(ctx, k)
	if err != nil {
		l.cfg.log.Warn("look for orphans", "kind", name, "error", err)
		return
	}
	if len(refs) > 0 {
		l.callback("the callback for orphans", func() { l.cfg.orphans(name, refs) })
	}
}

// listOrphans waits for the reconciler's list no longer than an observation may take.
func (l *Controller) listOrphans(ctx context.Context, k kind) (refs []engine.Ref, err error) {
	ctx, cancel := context.WithTimeout(ctx, k.policy().ObserveTimeout)
	defer cancel()
	if l.stepped {
		return k.orphans(ctx)
	}
	var listed []engine.Ref
	done := apart("Orphans", func() (err error) { listed, err = k.orphans(ctx); return err })
	select {
	case err := <-done:
		return listed, err
	case <-ctx.Done():
		return nil, fmt.Errorf("listing orphans has not returned in %s: %w", k.policy().ObserveTimeout, context.Cause(ctx))
	}
}
