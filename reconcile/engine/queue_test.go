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
	late    map[Ref]instant // deadlines
	taken   map[Ref]bool
}

type entry struct {
	due    instant
	prio   Priority
	causes []Cause
	count  int
}

func (m *model) request(ref Ref, at instant, p Priority, c Cause) {
	e := m.entries[ref]
	if e == nil {
		e = &entry{due: at, prio: p}
		m.entries[ref] = e
	}
	e.due, e.prio = min(e.due, at), max(e.prio, p)
	e.count++
	if !slices.Contains(e.causes, c) && len(e.causes) < MaxCauses {
		e.causes = append(e.causes, c)
	}
}

// due counts what could be popped, and how much of it has a deadline that passed.
func (m *model) due(now instant) (all, late int) {
	for ref, at := range m.late {
		if !m.taken[ref] && at <= now {
			late++
		}
	}
	for ref, e := range m.entries {
		if at, ok := m.late[ref]; !m.taken[ref] && e.due <= now && (!ok || at > now) {
			all++
		}
	}
	return all + late, late
}

// pop is what the model says of the turn that the queue gave out.
func (m *model) pop(t *rapid.T, got Item, now instant) {
	_, late := m.due(now)
	at, isLate := m.late[got.Ref]
	isLate = isLate && at <= now
	e := m.entries[got.Ref]
	if e == nil {
		e = &entry{}
	}
	want := *e
	if isLate {
		want.prio, want.due = PriorityDeadline, at
		want.count++
		if c := (Cause{Trigger: TriggerDeadline}); len(want.causes) < MaxCauses && !slices.Contains(want.causes, c) {
			want.causes = append(want.causes[:len(want.causes):len(want.causes)], c)
		}
	}
	switch {
	case m.taken[got.Ref]:
		t.Fatalf("%v is out twice", got.Ref)
	case late > 0 && !isLate:
		t.Fatalf("took %+v before a deadline that has passed", got)
	case !isLate && (want.count == 0 || e.due > now):
		t.Fatalf("took %+v, which is not due at %d", got, now)
	case got.Priority != want.prio || toInstant(got.Due) != want.due:
		t.Fatalf("took %+v, want one like %+v", got, want)
	case !slices.Equal(got.Causes.List(), want.causes) || got.Causes.Count() != want.count:
		t.Fatalf("causes %v (%d), want %v (%d)", got.Causes.List(), got.Causes.Count(), want.causes, want.count)
	}
	m.taken[got.Ref] = true
	delete(m.entries, got.Ref)
	if isLate {
		delete(m.late, got.Ref)
	}
}

// TestP1QueueModel: a ref is never out twice; a request while it is out makes
// one more turn with the union of causes, the earliest due time and the highest
// priority; a deadline goes first once it has passed, and stays while something else is
// popped; Next names the earliest instant at which something can be taken.
func TestP1QueueModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q, m := NewQueue(), model{entries: map[Ref]*entry{}, late: map[Ref]instant{}, taken: map[Ref]bool{}}
		now := instant(1000)
		refs := []Ref{{"a", "1"}, {"a", "2"}, {"b", "1"}, {"b", "2"}}
		t.Repeat(map[string]func(*rapid.T){
			"request": func(t *rapid.T) {
				ref := rapid.SampledFrom(refs).Draw(t, "ref")
				at := now + instant(rapid.IntRange(-5, 5).Draw(t, "in"))
				c := Cause{Trigger(rapid.IntRange(1, 10).Draw(t, "trigger")), rapid.SampledFrom([]string{"", "x"}).Draw(t, "id")}
				q.Add(ref, at.time(), c.Trigger.Priority(), c)
				m.request(ref, at, c.Trigger.Priority(), c)
			},
			"deadline": func(t *rapid.T) {
				ref := rapid.SampledFrom(refs).Draw(t, "ref")
				at := now + instant(rapid.IntRange(-5, 20).Draw(t, "in"))
				if rapid.Bool().Draw(t, "none") {
					at = 0
					delete(m.late, ref)
				} else {
					m.late[ref] = at
				}
				q.SetDeadline(ref, at.time())
			},
			"pass": func(t *rapid.T) { now += instant(rapid.IntRange(0, 5).Draw(t, "ms")) },
			"take": func(t *rapid.T) {
				want, _ := m.due(now)
				got, ok := q.Pop(now.time())
				if ok != (want > 0) {
					t.Fatalf("took %v, %v; %d are due", got, ok, want)
				}
				if ok {
					m.pop(t, got, now)
				}
			},
			"done": func(t *rapid.T) {
				ref := rapid.SampledFrom(refs).Draw(t, "ref")
				q.Done(ref)
				delete(m.taken, ref)
			},
			"": func(t *rapid.T) {
				soonest, waiting := never, map[Ref]bool{}
				for ref, e := range m.entries {
					if !m.taken[ref] {
						soonest, waiting[ref] = min(soonest, e.due), true
					}
				}
				for ref, at := range m.late {
					if !m.taken[ref] {
						soonest, waiting[ref] = min(soonest, at), true
					}
				}
				if q.Len() != len(waiting) || q.Active() != len(m.taken) {
					t.Fatalf("%d wait and %d are out; want %d and %d", q.Len(), q.Active(), len(waiting), len(m.taken))
				}
				soon, ok := q.Next()
				next := toInstant(soon)
				if ok != (len(waiting) > 0) {
					t.Fatalf("Next %v, %v with %d waiting", next, ok, len(waiting))
				}
				// What was due when last compared may hide an earlier one only if both are due.
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
