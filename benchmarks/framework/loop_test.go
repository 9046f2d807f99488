package framework

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	ours "github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
	"github.com/steadyfleet/steady/reconcile/memory"
)

// world is what all reconcilers look at: it counts, and notes when a key was seen that
// a trigger was for.
type world struct {
	looks, goal atomic.Int64
	reached     chan struct{}
	first       chan struct{} // closed by the first look

	seen     []atomic.Bool // keys that were looked at; nil while nobody counts
	triggers []trigger     // by key; nil while there are none
	began    time.Time
}

// trigger is when a key was asked for and looked at next, since the world began; 0: not yet.
type trigger struct{ asked, served atomic.Int64 }

func newWorld() *world {
	return &world{reached: make(chan struct{}, 1), first: make(chan struct{}), began: time.Now()}
}

// ask notes that the key is asked for now.
func (w *world) ask(key int) { w.triggers[key].asked.Store(int64(time.Since(w.began))) }

// served is how long those triggers took that were served.
func (w *world) served() (all []time.Duration) {
	for i := range w.triggers {
		if t := &w.triggers[i]; t.served.Load() != 0 {
			all = append(all, time.Duration(t.served.Load()-t.asked.Load()))
		}
	}
	return all
}

// look is one Observe.
func (w *world) look(ref engine.Ref) {
	if w.triggers != nil {
		key, _ := strconv.Atoi(ref.ID)
		if t := &w.triggers[key]; t.asked.Load() != 0 {
			t.served.CompareAndSwap(0, int64(time.Since(w.began)))
		}
	}
	if w.seen != nil {
		key, _ := strconv.Atoi(ref.ID)
		w.seen[key].Store(true)
	}
	n := w.looks.Add(1)
	if n == 1 {
		close(w.first)
	}
	if n == w.goal.Load() {
		w.reached <- struct{}{}
	}
}

// expect is called before what leads to n more looks, and gives the wait for them.
func (w *world) expect(n int) (wait func(testing.TB)) {
	w.goal.Store(w.looks.Load() + int64(n))
	return func(t testing.TB) {
		t.Helper()
		select {
		case <-w.reached:
		case <-time.After(2 * time.Minute):
			t.Fatalf("%d of %d looks in two minutes", w.looks.Load(), w.goal.Load())
		}
	}
}

// loop is a whole controller with workers, over all keys.
type loop struct {
	start func(context.Context) // with all keys, at a low priority; in the background
	add   func(engine.Ref)      // an event
	urge  func(engine.Ref)      // a person's request, at a high priority where there is one
	wait  func()                // until it has ended
}

// maker makes a loop whose keys are looked at again after a while, if that is not 0.
type maker struct {
	name string
	make func(t testing.TB, w *world, again time.Duration) loop
}

var loops = []maker{
	{"steady", func(t testing.TB, w *world, again time.Duration) loop { return ourLoop(t, w, again, converged(t)) }},
	{"controller-runtime", runtimeLoop},
	{"client-go", workqueueLoop},
}

// desired is what the rows have.
type desired struct {
	Name string `json:"name"`
	Size int    `json:"size"`
}

// quiet finds everything as desired.
type quiet struct{ w *world }

var asDesired = engine.NewReason("as-desired", "")

func (q quiet) Observe(_ context.Context, r engine.Resource[desired]) (desired, error) {
	q.w.look(r.Ref)
	return r.Desired, nil
}

func (quiet) Decide(v engine.View[desired, desired]) engine.Decision {
	if v.Observed != v.Resource.Desired {
		return engine.Fail(engine.NewReason("odd", ""))
	}
	return engine.IsConverged(asDesired)
}

func (quiet) Act(context.Context, engine.Resource[desired], engine.Action) error { return nil }

var byHand = engine.Cause{Trigger: engine.TriggerOperator}

// newRows is a store with all keys as new resources.
func newRows(t testing.TB) *memory.Store {
	t.Helper()
	store := memory.New()
	for _, ref := range refs() {
		if _, err := store.Apply(t.Context(), engine.Upsert(ref, desired{"a", 7000}), time.Now(), byHand); err != nil {
			t.Fatal(err)
		}
	}
	return store
}

var rested struct {
	sync.Mutex
	store *memory.Store
}

// converged is a store whose rows have all converged: a turn has nothing to record.
func converged(t testing.TB) *memory.Store {
	t.Helper()
	rested.Lock()
	defer rested.Unlock()
	if rested.store == nil {
		rested.store = newRows(t)
		settle(t, rested.store)
	}
	return rested.store
}

// settle runs a loop over new rows until all have converged.
func settle(t testing.TB, store *memory.Store) {
	t.Helper()
	w := newWorld()
	l := ourLoop(t, w, 0, store)
	ctx, stop := context.WithCancel(context.Background())
	wait := w.expect(keys)
	l.start(ctx)
	wait(t)
	stop()
	l.wait()
}

func ourLoop(t testing.TB, w *world, again time.Duration, store ours.Store) loop {
	t.Helper()
	l := ours.New(store, ours.WithWorkers(workers()))
	p := engine.Policy{Resync: again, History: engine.History{Keep: -1}}
	if err := ours.Register(l, "bench", quiet{w}, p); err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	return loop{
		start: func(ctx context.Context) {
			running.Go(func() {
				if err := l.Run(ctx); err != nil {
					t.Error(err)
				}
			})
		},
		add:  func(ref engine.Ref) { l.Enqueue(ref, engine.Cause{Trigger: engine.TriggerExternal}) },
		urge: func(ref engine.Ref) { l.Enqueue(ref, byHand) },
		wait: running.Wait,
	}
}

// runtimeLoop is a controller of controller-runtime with its priority queue, as it is by default. What
// it has listed at the start comes at its low priority.
func runtimeLoop(t testing.TB, w *world, again time.Duration) loop {
	t.Helper()
	skip := true
	ready := make(chan priorityqueue.PriorityQueue[engine.Ref], 1)
	c, err := controller.NewTypedUnmanaged("bench", controller.TypedOptions[engine.Ref]{
		MaxConcurrentReconciles: workers(), SkipNameValidation: &skip, Logger: logr.Discard(),
		Reconciler: reconcile.TypedFunc[engine.Ref](func(_ context.Context, ref engine.Ref) (reconcile.Result, error) {
			w.look(ref)
			return reconcile.Result{RequeueAfter: again}, nil
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	var q priorityqueue.PriorityQueue[engine.Ref]
	low, high := -100, 100
	err = c.Watch(source.TypedFunc[engine.Ref](func(_ context.Context, in workqueue.TypedRateLimitingInterface[engine.Ref]) error {
		q := in.(priorityqueue.PriorityQueue[engine.Ref])
		q.AddWithOpts(priorityqueue.AddOpts{Priority: &low}, refs()...)
		ready <- q
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	return loop{
		start: func(ctx context.Context) {
			running.Go(func() {
				if err := c.Start(ctx); err != nil {
					t.Error(err)
				}
			})
			q = <-ready
		},
		add:  func(ref engine.Ref) { q.Add(ref) },
		urge: func(ref engine.Ref) { q.AddWithOpts(priorityqueue.AddOpts{Priority: &high}, ref) },
		wait: running.Wait,
	}
}

// workqueueLoop is the loop that programs write around client-go's queue, which has no priorities.
func workqueueLoop(_ testing.TB, w *world, again time.Duration) loop {
	q := newWorkqueue()
	var running sync.WaitGroup
	work := func() {
		for {
			ref, over := q.Get()
			if over {
				return
			}
			w.look(ref)
			q.Forget(ref)
			if again > 0 {
				q.AddAfter(ref, again)
			}
			q.Done(ref)
		}
	}
	return loop{
		start: func(ctx context.Context) {
			context.AfterFunc(ctx, q.ShutDown)
			running.Go(func() {
				for _, ref := range refs() {
					q.Add(ref)
				}
			})
			for range workers() {
				running.Go(work)
			}
		},
		add:  q.Add,
		urge: q.Add,
		wait: running.Wait,
	}
}
