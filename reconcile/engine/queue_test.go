package engine

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// model is the queue in the plainest words.
type model struct {
	entries map[Ref]*entry
	taken   map[Ref]bool
	offered uint64
}

type entry struct {
	due    instant
	prio   Priority
	causes []Cause
	count  int
	order  uint64
}

func (m *model) offer(ref Ref, at instant, p Priority, c Cause) {
	e := m.entries[ref]
	if e == nil {
		m.offered++
		e = &entry{due: at, prio: p, order: m.offered}
		m.entries[ref] = e
	}
	e.due, e.prio = min(e.due, at), max(e.prio, p)
	e.count++
	if !slices.Contains(e.causes, c) && len(e.causes) < MaxCauses {
		e.causes = append(e.causes, c)
	}
}

// next is the item that Take must give out, if order among equals is ignored.
func (m *model) next(now instant) (best *entry) {
	for ref, e := range m.entries {
		if m.taken[ref] || e.due > now {
			continue
		}
		if best == nil || e.prio > best.prio || e.prio == best.prio && e.due < best.due {
			best = e
		}
	}
	return best
}

// TestP1QueueModel: a ref is never out twice; an offer while it is out makes
// one more turn with the union of causes, the earliest due time and the highest
// priority; Next names the earliest instant at which something can be taken.
func TestP1QueueModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q, m := NewQueue(), model{entries: map[Ref]*entry{}, taken: map[Ref]bool{}}
		now := instant(1000)
		refs := []Ref{{"a", "1"}, {"a", "2"}, {"b", "1"}, {"b", "2"}}
		t.Repeat(map[string]func(*rapid.T){
			"offer": func(t *rapid.T) {
				ref := rapid.SampledFrom(refs).Draw(t, "ref")
				at := now + instant(rapid.IntRange(-5, 5).Draw(t, "in"))
				c := Cause{Trigger(rapid.IntRange(1, 10).Draw(t, "trigger")), rapid.SampledFrom([]string{"", "x"}).Draw(t, "id")}
				q.Add(ref, at.time(), c.Trigger.Priority(), c)
				m.offer(ref, at, c.Trigger.Priority(), c)
			},
			"pass": func(t *rapid.T) { now += instant(rapid.IntRange(0, 5).Draw(t, "ms")) },
			"take": func(t *rapid.T) {
				want := m.next(now)
				got, ok := q.Pop(now.time())
				if ok != (want != nil) {
					t.Fatalf("took %v, %v; want %+v", got, ok, want)
				}
				if !ok {
					return
				}
				if m.taken[got.Ref] {
					t.Fatalf("%v is out twice", got.Ref)
				}
				e := m.entries[got.Ref]
				if got.Priority != want.prio || toInstant(got.Due) != want.due || e.prio != want.prio || e.due != want.due {
					t.Fatalf("took %+v, want one like %+v", got, want)
				}
				if !slices.Equal(got.Causes.List(), e.causes) || got.Causes.Count() != e.count {
					t.Fatalf("causes %v (%d), want %v (%d)", got.Causes.List(), got.Causes.Count(), e.causes, e.count)
				}
				m.taken[got.Ref] = true
				delete(m.entries, got.Ref)
			},
			"done": func(t *rapid.T) {
				ref := rapid.SampledFrom(refs).Draw(t, "ref")
				q.Done(ref)
				delete(m.taken, ref)
			},
			"": func(t *rapid.T) {
				waiting, soonest := 0, instant(0)
				for ref, e := range m.entries {
					if m.taken[ref] {
						continue
					}
					if waiting == 0 || e.due < soonest {
						soonest = e.due
					}
					waiting++
				}
				if q.Len() != waiting || q.Active() != len(m.taken) {
					t.Fatalf("%d wait and %d are out; want %d and %d", q.Len(), q.Active(), waiting, len(m.taken))
				}
				soon, ok := q.Next()
				next := toInstant(soon)
				if ok != (waiting > 0) {
					t.Fatalf("Next %v, %v with %d waiting", next, ok, waiting)
				}
				// What was due when last looked at may hide an earlier one only if both are due.
				if ok && next != soonest && (next > now || soonest > now) {
					t.Fatalf("Next is %v, want %v at %v", next, soonest, now)
				}
			},
		})
	})
}

func TestCausesAreBounded(t *testing.T) {
	var s Causes
	for i := range 100 {
		s.Add(Cause{TriggerExternal, string(rune('a' + i))})
	}
	if len(s.List()) != MaxCauses || s.Count() != 100 {
		t.Fatalf("%d kept of %d", len(s.List()), s.Count())
	}
	var o Causes
	o.Add(Cause{TriggerOperator, "me"})
	o.Merge(s)
	if len(o.List()) != MaxCauses || o.Count() != 101 || !o.HasTrigger(TriggerOperator) {
		t.Fatalf("merged: %v of %d", o.List(), o.Count())
	}
}

func TestBackoffIsBoundedAndReplayable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := RetryPolicy{Max: 5, Base: ms(rapid.Int64Range(1, 5000).Draw(t, "base"))}
		r.Cap = r.Base + ms(rapid.Int64Range(0, 100_000).Draw(t, "more"))
		ref := Ref{"k", rapid.String().Draw(t, "id")}
		n := rapid.IntRange(1, 200).Draw(t, "attempt")
		d := Backoff(r, ref, 7, n)
		if d != Backoff(r, ref, 7, n) {
			t.Fatal("not replayable")
		}
		full := r.Base
		for range n - 1 {
			full = min(full*2, r.Cap)
		}
		if d < 1 || d > full || d < full-full/4-1 {
			t.Fatalf("backoff %v, want within a quarter below %v", d, full)
		}
	})
}
