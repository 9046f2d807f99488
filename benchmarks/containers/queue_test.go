package main

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"

	"github.com/steadyfleet/steady/reconcile/engine"
)

// queue is what a loop does with each key: it is put in, taken out, and given back.
type queue struct {
	name string
	add  func(key int)
	take func() (key int)
	done func(key int)
	end  func()
}

const keys = 10_000

// queues makes one of each, empty.
func queues() []func() queue {
	refs := make([]engine.Ref, keys)
	place := make(map[engine.Ref]int, keys)
	for i := range refs {
		refs[i] = engine.Ref{Kind: "bench", ID: fmt.Sprint(i)}
		place[refs[i]] = i
	}
	return []func() queue{
		func() queue {
			q, now := engine.NewQueue(), time.UnixMilli(1_000_000).UTC()
			return queue{"steady", func(key int) {
				q.Add(refs[key], now, engine.PriorityResync, engine.Cause{Trigger: engine.TriggerResync})
			}, func() int {
				it, ok := q.Pop(now)
				if !ok {
					panic("nothing is due")
				}
				return place[it.Ref]
			}, func(key int) { q.Done(refs[key]) }, func() {}}
		},
		func() queue {
			q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[engine.Ref]())
			return queue{"client-go workqueue", func(key int) { q.Add(refs[key]) },
				func() int { ref, _ := q.Get(); return place[ref] },
				func(key int) { q.Forget(refs[key]); q.Done(refs[key]) }, q.ShutDown}
		},
		func() queue {
			q := priorityqueue.New[engine.Ref]("bench")
			return queue{"controller-runtime priorityqueue", func(key int) { q.Add(refs[key]) },
				func() int { ref, _ := q.Get(); return place[ref] },
				func(key int) { q.Forget(refs[key]); q.Done(refs[key]) }, q.ShutDown}
		},
	}
}

// BenchmarkQueues puts a key in, takes one out and gives it back, among 10 000 keys that are queued, as a loop
// does that finds nothing to do; the package's own BenchmarkNoOpTurn has the whole turn.
func BenchmarkQueues(b *testing.B) {
	for _, make := range queues() {
		q := make()
		b.Run(q.name, func(b *testing.B) {
			for key := range keys {
				q.add(key)
			}
			b.ReportAllocs()
			for b.Loop() {
				key := q.take()
				q.done(key)
				q.add(key)
			}
		})
		q.end()
	}
}

// BenchmarkQueuedKey is how much memory a queued key takes, its text aside.
func BenchmarkQueuedKey(b *testing.B) {
	for _, make := range queues() {
		q := make()
		b.Run(q.name, func(b *testing.B) {
			perKey := 0.0
			for b.Loop() {
				var before, after runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&before)
				one := make()
				for key := range keys {
					one.add(key)
				}
				one.take() // an adder that puts in later has done so
				runtime.GC()
				runtime.ReadMemStats(&after)
				perKey = float64(int64(after.HeapAlloc)-int64(before.HeapAlloc)) / keys
				one.end()
			}
			b.ReportMetric(perKey, "B/key")
		})
		q.end()
	}
}
