package framework

import (
	"runtime"
	"testing"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"

	"github.com/steadyfleet/steady/reconcile/engine"
)

// queue is what a loop does with each key: it is put in, taken out, and given back.
type queue struct {
	add  func(engine.Ref)
	take func() engine.Ref
	done func(engine.Ref)
	end  func()
}

var queues = []struct {
	name string
	make func() queue
}{
	{"steady", ourQueue},
	{"controller-runtime", func() queue { return theirQueue(newPriorityQueue()) }},
	{"client-go", func() queue { return theirQueue(newWorkqueue()) }},
}

func ourQueue() queue {
	q, now := engine.NewQueue(), time.UnixMilli(1_000_000).UTC()
	return queue{
		add: func(ref engine.Ref) {
			q.Add(ref, now, engine.PriorityResync, engine.Cause{Trigger: engine.TriggerResync})
		},
		take: func() engine.Ref {
			it, ok := q.Pop(now)
			if !ok {
				panic("nothing is due")
			}
			return it.Ref
		},
		done: q.Done, end: func() {},
	}
}

func newPriorityQueue() priorityqueue.PriorityQueue[engine.Ref] {
	return priorityqueue.New[engine.Ref]("bench")
}

func newWorkqueue() workqueue.TypedRateLimitingInterface[engine.Ref] {
	return workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[engine.Ref]())
}

func theirQueue(q workqueue.TypedRateLimitingInterface[engine.Ref]) queue {
	return queue{
		add:  func(ref engine.Ref) { q.Add(ref) },
		take: func() engine.Ref { ref, _ := q.Get(); return ref },
		done: func(ref engine.Ref) { q.Forget(ref); q.Done(ref) },
		end:  q.ShutDown,
	}
}

// BenchmarkQueueTurn takes a key, gives it back and puts it in again, among all that wait.
func BenchmarkQueueTurn(b *testing.B) {
	for _, kind := range queues {
		b.Run(kind.name, func(b *testing.B) {
			q := kind.make()
			defer q.end()
			for _, ref := range refs() {
				q.add(ref)
			}
			b.ReportAllocs()
			for b.Loop() {
				ref := q.take()
				q.done(ref)
				q.add(ref)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N), "ns/turn")
		})
	}
}

// BenchmarkQueueBytes is what a key that waits takes, its text aside.
func BenchmarkQueueBytes(b *testing.B) {
	for _, kind := range queues {
		b.Run(kind.name, func(b *testing.B) {
			all := refs()
			perKey := 0.0
			for b.Loop() {
				before := heap()
				q := kind.make()
				for _, ref := range all {
					q.add(ref)
				}
				q.done(q.take()) // one that puts in later has done so
				perKey = float64(heap()-before) / keys
				runtime.KeepAlive(q)
				q.end()
			}
			b.ReportMetric(perKey, "B/key")
		})
	}
}

// BenchmarkEngineTurn is our queue and the two steps of a turn that finds nothing to do, without
// the loop's goroutines: what BenchmarkNoOpTurn of the engine measures, among as many keys as here.
func BenchmarkEngineTurn(b *testing.B) {
	now := time.UnixMilli(1_000_000).UTC()
	p := engine.Policy{History: engine.History{Keep: -1}}.WithDefaults()
	q, snaps := engine.NewQueue(), make(map[engine.Ref]*engine.Snapshot, keys)
	reason := engine.NewReason("as-desired", "")
	for i, ref := range refs() {
		snaps[ref] = &engine.Snapshot{Row: engine.Row{
			Ref: ref, Generation: 1, ConvergedGen: 1, Phase: engine.Converged, Reason: reason, Revision: 3,
		}}
		q.Add(ref, now.Add(time.Duration(i)*time.Millisecond), engine.PriorityResync, engine.Cause{Trigger: engine.TriggerResync})
	}
	var causes engine.Causes // of the turn; a worker keeps them too
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(time.Millisecond)
		it, ok := q.Pop(now)
		if !ok {
			b.Fatal("nothing is due")
		}
		causes = it.Causes
		in := engine.Input{Snap: snaps[it.Ref], Policy: &p, Causes: &causes, Now: now}
		if _, step := engine.BeforeObserve(in); step != engine.Proceed {
			b.Fatal("does not proceed")
		}
		if rec := engine.AfterDecide(in, engine.IsConverged(reason), nil); rec.Write {
			b.Fatal("wrote something")
		}
		q.Done(it.Ref)
		q.Add(it.Ref, now.Add(keys*time.Millisecond), engine.PriorityResync, engine.Cause{Trigger: engine.TriggerResync})
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N), "ns/turn")
}
