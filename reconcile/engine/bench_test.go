package engine

import (
	"fmt"
	"runtime"
	"testing"
	"time"
)

// quietManager decides what a converged resource decides.
func quietManager(v *View[int, int]) Decision {
	if v.Observed == v.Resource.Desired {
		return IsConverged(NewReason("as-desired", ""))
	}
	return Wait(NewReason("differs", ""))
}

// BenchmarkNoOpTurn is one turn that finds nothing to do, history off, among
// 10 000 resources that each wait for their resync: take, deadlines, decide,
// record, done, offer the next resync.
func BenchmarkNoOpTurn(b *testing.B) {
	const n = 10_000
	q := NewQueue()
	p := Policy{Resync: n * time.Millisecond, History: History{Keep: -1}}.WithDefaults()
	snaps := make(map[Ref]*Snapshot, n)
	now := time.UnixMilli(1_000_000).UTC()
	for i := range n {
		ref := Ref{"bench", fmt.Sprint(i)}
		snaps[ref] = &Snapshot{Row: Row{Ref: ref, Generation: 1, ConvergedGen: 1, Phase: Converged, Reason: NewReason("as-desired", ""), Revision: 3}}
		q.Add(ref, now.Add(ms(int64(i))), PriorityResync, Cause{Trigger: TriggerResync})
	}
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(time.Millisecond)
		it, ok := q.Pop(now)
		if !ok {
			continue
		}
		snap := snaps[it.Ref]
		in := Input{Snap: snap, Policy: &p, Causes: &it.Causes, Now: now}
		if _, step := BeforeObserve(in); step != Proceed {
			b.Fatal("does not proceed")
		}
		v := View[int, int]{Resource: Resource[int]{Ref: it.Ref, Generation: snap.Row.Generation, Status: snap.Row.Status()}, Now: now}
		if rec := AfterDecide(in, quietManager(&v), nil); rec.Write {
			b.Fatal("wrote something")
		}
		q.Done(it.Ref)
		q.Add(it.Ref, now.Add(n*time.Millisecond), PriorityResync, Cause{Trigger: TriggerResync})
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
			q.Add(ref, instant(i).time(), PriorityStartup, Cause{Trigger: TriggerStartup})
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		perKey = float64(after.HeapAlloc-before.HeapAlloc) / keys
		runtime.KeepAlive(q)
	}
	b.ReportMetric(perKey, "B/key")
}
