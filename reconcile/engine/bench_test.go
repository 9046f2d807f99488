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

// BenchmarkNoOpTurn is one turn that finds nothing to do, history off, among
// 10 000 resources that each wait for their resync: take, deadlines, decide,
// record, done, offer the next resync.
func BenchmarkNoOpTurn(b *testing.B) {
	const n = 10_000
	q := NewQueue()
	p := Policy{Resync: n, History: History{Keep: -1}}.WithDefaults()
	snaps := make(map[Ref]*Snapshot, n)
	now := Instant(1_000_000)
	for i := range n {
		ref := Ref{"bench", fmt.Sprint(i)}
		snaps[ref] = &Snapshot{Row: Row{Ref: ref, Generation: 1, ConvergedGen: 1, Phase: Converged, Reason: Because("as_desired", ""), Revision: 3}}
		q.Offer(ref, now+Instant(i), PriorityResync, Cause{Trigger: TriggerResync})
	}
	b.ReportAllocs()
	for b.Loop() {
		now++
		it, ok := q.Take(now)
		if !ok {
			continue
		}
		snap := snaps[it.Ref]
		in := Input{Snap: snap, Policy: &p, Causes: &it.Causes, Now: now}
		if _, step := Before(in); step != Proceed {
			b.Fatal("does not proceed")
		}
		v := View[int, int]{Resource: Resource[int]{Ref: it.Ref, Generation: snap.Row.Generation, Status: snap.Row.Status()}, Now: now}
		if rec := Turn(in, quietManager(&v), Hold{}); rec.Write {
			b.Fatal("wrote something")
		}
		q.Done(it.Ref)
		q.Offer(it.Ref, now+n, PriorityResync, Cause{Trigger: TriggerResync})
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
