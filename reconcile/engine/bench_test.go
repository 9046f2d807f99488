package engine

import (
	"fmt"
	"runtime"
	"testing"
)

// quietManager decides what a converged resource decides.
func quietManager(v *View[int, int]) Decision {
	if v.Observed == v.Resource.Desired {
		return IsConverged(Because("as_desired", ""))
	}
	return Wait(0, Because("differs", ""))
}

// BenchmarkNoOpTurn is one turn that finds nothing to do, history off: offer,
// take, deadlines, decide, record, done, resync offered again.
func BenchmarkNoOpTurn(b *testing.B) {
	q := NewQueue()
	p := Policy{Resync: 60_000, History: History{Keep: -1}}.WithDefaults()
	rows := make([]Snapshot, 1000)
	for i := range rows {
		ref := Ref{"bench", fmt.Sprint(i)}
		rows[i].Row = Row{Ref: ref, Generation: 1, ConvergedGen: 1, Phase: Converged, Reason: Because("as_desired", ""), Revision: 3}
	}
	now := Instant(1_000_000)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		snap := &rows[i%len(rows)]
		q.Offer(snap.Row.Ref, now, PriorityEvent, Cause{Trigger: TriggerExternal})
		it, ok := q.Take(now)
		if !ok {
			b.Fatal("nothing to take")
		}
		in := Input{Snap: snap, Policy: &p, Causes: &it.Causes, Now: now}
		if _, step := Before(in); step != Proceed {
			b.Fatal("does not proceed")
		}
		v := View[int, int]{Resource: Resource[int]{Ref: it.Ref, Generation: snap.Row.Generation, Status: snap.Row.Status()}, Now: now}
		rec := Turn(in, quietManager(&v), Hold{})
		if rec.Write {
			b.Fatal("wrote something")
		}
		q.Done(it.Ref)
	}
}

// BenchmarkQueueMemory reports the bytes that one queued key costs, without the
// strings of the key.
func BenchmarkQueueMemory(b *testing.B) {
	const keys = 100_000
	refs := make([]Ref, keys)
	for i := range refs {
		refs[i] = Ref{"bench", fmt.Sprint(i)}
	}
	var perKey float64
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		q := NewQueue()
		for i, ref := range refs {
			q.Offer(ref, Instant(i), PriorityStartup, Cause{Trigger: TriggerStartup})
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		perKey = float64(after.HeapAlloc-before.HeapAlloc) / keys
		runtime.KeepAlive(q)
	}
	b.ReportMetric(perKey, "B/key")
}
