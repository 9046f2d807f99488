package framework

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/steadyfleet/steady/reconcile/memory"
)

// run starts a loop over all keys and ends it with the benchmark.
func run(b *testing.B, make maker, w *world, again time.Duration) loop {
	b.Helper()
	l := make.make(b, w, again)
	ctx, stop := context.WithCancel(context.Background())
	b.Cleanup(func() { stop(); l.wait() })
	l.start(ctx)
	return l
}

// BenchmarkTurn is a turn of a whole controller that finds nothing to do: from the queue through
// a worker and the reconciler back into the queue.
func BenchmarkTurn(b *testing.B) {
	for _, kind := range loops {
		// Each key wants to be looked at again after a millisecond, so that all are always due.
		b.Run("periodic/"+kind.name, func(b *testing.B) {
			w := newWorld()
			w.seen = make([]atomic.Bool, keys)
			run(b, kind, w, time.Millisecond)
			allSeen(b, w)
			measureTurns(b, func(n int) {
				wait := w.expect(n)
				wait(b)
			})
		})
		// Each key is asked for from outside, all at once, and then again.
		b.Run("event/"+kind.name, func(b *testing.B) {
			w := newWorld()
			wait := w.expect(keys)
			l := run(b, kind, w, 0)
			wait(b)
			measureTurns(b, func(n int) {
				for n > 0 {
					part := min(n, keys)
					wait := w.expect(part)
					for _, ref := range refs()[:part] {
						l.add(ref)
					}
					wait(b)
					n -= part
				}
			})
		})
	}
}

// allSeen waits until every key was looked at: all are always due, and those that came back at a
// higher priority than the start's go before most of the others.
func allSeen(t testing.TB, w *world) {
	t.Helper()
	n := 0
	for range 40 {
		wait := w.expect(keys)
		wait(t)
		n = 0
		for i := range w.seen {
			if w.seen[i].Load() {
				n++
			}
		}
		if n == keys {
			return
		}
	}
	t.Fatalf("%d of %d keys were looked at in %d looks", n, keys, 40*keys)
}

// TestEveryKeyHasItsTurn: BenchmarkTurn compares loops that all look at all keys, each of which is
// always due; one that looks at a few has them in the processor's cache.
func TestEveryKeyHasItsTurn(t *testing.T) {
	for _, kind := range loops {
		w := newWorld()
		l := kind.make(t, w, time.Millisecond)
		ctx, stop := context.WithCancel(t.Context())
		w.seen = make([]atomic.Bool, keys)
		l.start(ctx)
		allSeen(t, w)
		stop()
		l.wait()
	}
}

// measureTurns reports what a turn takes while n of them happen, whichever goroutine does it.
func measureTurns(b *testing.B, turns func(n int)) {
	b.Helper()
	runtime.GC()
	b.ReportAllocs()
	b.ResetTimer()
	turns(b.N)
	b.StopTimer()
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N), "ns/turn")
}

// BenchmarkColdStart is the time until a controller has looked at every key once. Ours has two:
// with rows that converged before, and with new ones, which are each recorded as converged.
func BenchmarkColdStart(b *testing.B) {
	start := func(b *testing.B, made func(testing.TB, *world) loop) {
		for b.Loop() {
			b.StopTimer()
			w := newWorld()
			l := made(b, w)
			runtime.GC()
			ctx, stop := context.WithCancel(context.Background())
			wait := w.expect(keys)
			b.StartTimer()
			l.start(ctx)
			wait(b)
			b.StopTimer()
			stop()
			l.wait()
			b.StartTimer()
		}
		b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms")
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/keys, "ns/key")
		b.ReportMetric(0, "ns/op")
	}
	for _, kind := range loops {
		b.Run(kind.name, func(b *testing.B) {
			start(b, func(t testing.TB, w *world) loop { return kind.make(t, w, 0) })
		})
	}
	b.Run("steady-new-rows", func(b *testing.B) {
		start(b, func(t testing.TB, w *world) loop { return ourLoop(t, w, 0, newRows(t)) })
	})
}

// BenchmarkTrigger is the time from a person's request until the reconciler looks at the key, while
// all keys are looked at for the first time. Requests are for keys at the end of the flood.
func BenchmarkTrigger(b *testing.B) {
	const each, pause = 200, 300 * time.Microsecond
	for _, kind := range loops {
		b.Run(kind.name, func(b *testing.B) {
			var served []time.Duration
			all := refs()
			for b.Loop() {
				w := newWorld()
				w.triggers = make([]trigger, keys)
				l := kind.make(b, w, 0)
				ctx, stop := context.WithCancel(context.Background())
				wait := w.expect(keys)
				l.start(ctx)
				<-w.first // the flood has begun
				pace := time.NewTicker(pause)
				for i := 0; i < each && w.looks.Load() < keys*9/10; i++ {
					w.ask(keys - 1 - i)
					l.urge(all[keys-1-i])
					<-pace.C
				}
				pace.Stop()
				wait(b)
				stop()
				l.wait()
				served = append(served, w.served()...)
			}
			reportLatency(b, served)
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkBytes is what a whole controller at rest takes for a key that waits for its next look, in
// an hour. The peers' objects are in a cache that is not counted; ours are counted apart.
func BenchmarkBytes(b *testing.B) {
	bytes := func(b *testing.B, made func(testing.TB, *world) loop) {
		perKey := 0.0
		for b.Loop() {
			w := newWorld()
			refs()
			before := heap()
			l := made(b, w)
			ctx, stop := context.WithCancel(context.Background())
			wait := w.expect(keys)
			l.start(ctx)
			wait(b)
			perKey = float64(heap()-before) / keys
			stop()
			l.wait()
		}
		b.ReportMetric(perKey, "B/key")
	}
	for _, kind := range loops {
		b.Run(kind.name, func(b *testing.B) {
			converged(b)
			bytes(b, func(t testing.TB, w *world) loop { return kind.make(t, w, time.Hour) })
		})
	}
	b.Run("steady-rows", func(b *testing.B) {
		perKey := 0.0
		for b.Loop() {
			var store *memory.Store
			before := heap()
			store = newRows(b)
			settle(b, store)
			perKey = float64(heap()-before) / keys
			runtime.KeepAlive(store)
		}
		b.ReportMetric(perKey, "B/key")
	})
}
