package engine

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// due is a row that waits, and what the bound allows to go before it.
type due struct {
	kind  string
	ahead int // rows of its kind that were due before it
	turns int // of others that began since, deadlines apart
}

// flood is a queue of which something is always due: rows that come back as soon as their turn
// is over, at any priority, beside rows that come once.
type flood struct {
	q     *Queue
	now   instant
	wait  map[Ref]*due
	kinds map[string]bool // that something was due of since the oldest row that waits was
	fresh int
}

func (f *flood) add(ref Ref, p Priority) {
	f.q.Add(ref, f.now.time(), p, Cause{Trigger: TriggerExternal})
	f.q.advance(f.now)
	f.kinds[ref.Kind] = true
	if f.wait[ref] != nil {
		return // merged with what it waits for, perhaps at a higher priority
	}
	d := &due{kind: ref.Kind}
	for other := range f.wait {
		if other.Kind == ref.Kind {
			d.ahead++
		}
	}
	f.wait[ref] = d
}

// pop takes a turn, and reports a row that waited longer than the bound.
func (f *flood) pop(t *rapid.T) (Ref, bool) {
	it, ok := f.q.Pop(f.now.time())
	if !ok {
		return Ref{}, false
	}
	delete(f.wait, it.Ref)
	for ref, d := range f.wait {
		if it.Priority != PriorityDeadline {
			d.turns++
		}
		if most := (MaxPassed + 1) * len(f.kinds) * (d.ahead + 1); d.turns > most {
			t.Fatalf("%d turns of others, and %v has none; at most %d with %d kinds and %d rows before it", d.turns, ref, most, len(f.kinds), d.ahead)
		}
	}
	f.q.Done(it.Ref)
	return it.Ref, true
}

// TestBoundOnTurns: whatever the flood, each due row has its turn within the bound that ready.go
// states. Hot rows come back at their priority as soon as their turn is over; events,
// requests of operators, new rows and deadlines come on top.
func TestBoundOnTurns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := &flood{q: NewQueue(), now: 1000, wait: map[Ref]*due{}, kinds: map[string]bool{}}
		priority := rapid.IntRange(int(PriorityStartup), int(PriorityOperator))
		hot := map[Ref]Priority{}
		for i := range rapid.IntRange(0, 6).Draw(t, "hot") {
			ref := Ref{fmt.Sprint("k", rapid.IntRange(0, 2).Draw(t, "kind")), fmt.Sprint("hot", i)}
			hot[ref] = Priority(priority.Draw(t, "priority"))
			f.add(ref, hot[ref])
		}
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			ref := Ref{fmt.Sprint("k", rapid.IntRange(0, 3).Draw(t, "kind")), ""}
			switch rapid.SampledFrom([]string{"new", "again", "deadline", "none", "none", "none"}).Draw(t, "comes") {
			case "new":
				f.fresh++
				ref.ID = fmt.Sprint("new", f.fresh)
				f.add(ref, Priority(priority.Draw(t, "priority")))
			case "again": // one that may wait already
				ref.ID = fmt.Sprint("new", rapid.IntRange(1, 5).Draw(t, "which"))
				f.add(ref, Priority(priority.Draw(t, "priority")))
			case "deadline":
				ref.ID = fmt.Sprint("late", f.fresh)
				f.q.SetDeadline(ref, f.now.time())
			}
			for range rapid.IntRange(1, 20).Draw(t, "turns") {
				got, ok := f.pop(t)
				if p := hot[got]; ok && p != 0 {
					f.add(got, p)
				}
			}
			f.now += instant(rapid.IntRange(0, 3).Draw(t, "ms"))
		}
	})
}

// TestAgeingUnderEachFlood: one row of the start, of a resync or of a retry beside as many hot
// rows as there may be, for each priority of the flood and for one of the same kind and of
// another. It has its turn within the bound, and the flood gets the other turns.
func TestAgeingUnderEachFlood(t *testing.T) {
	for slow := PriorityStartup; slow < PriorityOperator; slow++ {
		for fast := slow; fast <= PriorityOperator; fast++ {
			for _, kind := range []string{"k", "other"} {
				q, now := NewQueue(), instant(1000)
				for i := range 3 {
					q.Add(Ref{"k", fmt.Sprint(i)}, now.time(), fast, Cause{Trigger: TriggerExternal})
				}
				q.Add(Ref{kind, "slow"}, now.time(), slow, Cause{Trigger: TriggerStartup})
				turns := 0
				for {
					it, _ := q.Pop(now.time())
					if it.Ref.ID == "slow" {
						break
					}
					if turns++; turns > 4*2*(MaxPassed+1) {
						t.Fatalf("priority %d has no turn in %d of priority %d", slow, turns, fast)
					}
					q.Done(it.Ref)
					q.Add(it.Ref, now.time(), fast, Cause{Trigger: TriggerExternal})
					now++
				}
				if slow < fast && turns < aged {
					t.Errorf("priority %d goes before %d after %d turns", slow, fast, turns)
				}
			}
		}
	}
}

// TestHotRowWithADeadlineIsNoDeadline: requests do not bring a deadline forward, which would put
// a row that events come for before everything else.
func TestHotRowWithADeadlineIsNoDeadline(t *testing.T) {
	q, now, hot, slow := NewQueue(), instant(1000), Ref{"k", "hot"}, Ref{"k", "slow"}
	q.Add(slow, now.time(), PriorityStartup, Cause{Trigger: TriggerStartup})
	end := now + 10_000
	for turns := 0; ; turns++ {
		q.Add(hot, now.time(), PriorityEvent, Cause{Trigger: TriggerExternal})
		q.SetDeadline(hot, end.time())
		it, ok := q.Pop(now.time())
		if !ok || it.Causes.HasTrigger(TriggerDeadline) || it.Priority == PriorityDeadline {
			t.Fatalf("took %+v at %d, its deadline is at %d", it, now, end)
		}
		q.Done(it.Ref)
		if it.Ref == slow {
			break
		}
		if turns > MaxPassed {
			t.Fatal("the other row has no turn")
		}
		now++
	}
	it, _ := q.Pop(now.time())
	q.Done(it.Ref)
	if at, ok := q.Next(); it.Ref != hot || !ok || toInstant(at) != end {
		t.Fatalf("next is %v, want the deadline", at)
	}
	if it, ok := q.Pop(end.time()); !ok || it.Ref != hot || it.Priority != PriorityDeadline || !it.Causes.HasTrigger(TriggerDeadline) {
		t.Fatalf("took %+v at its deadline", it)
	}
}

// TestPlacesOfKinds: a kind without a free place is passed over, whatever is due of it, and its
// places come back with Leave and Done.
func TestPlacesOfKinds(t *testing.T) {
	q, now := NewQueue(), instant(1000).time()
	q.SetPlaces("slow", 1)
	for _, ref := range []Ref{{"slow", "a"}, {"slow", "b"}, {"fast", "c"}} {
		q.Add(ref, now, PriorityOperator, Cause{Trigger: TriggerOperator})
	}
	q.SetDeadline(Ref{"slow", "b"}, now)
	want := func(pop func() (Item, bool), id string) {
		t.Helper()
		if it, ok := pop(); it.Ref.ID != id || ok != (id != "") {
			t.Fatalf("took %+v, want %q", it, id)
		}
	}
	pop, idle := func() (Item, bool) { return q.Pop(now) }, func() (Item, bool) { return q.PopIdle(now) }
	want(pop, "b")
	want(idle, "c")
	want(pop, "")
	q.Leave(Ref{"slow", "b"})
	q.Leave(Ref{"slow", "b"}) // once
	want(idle, "a")
	q.Done(Ref{"slow", "b"})
	q.Add(Ref{"slow", "b"}, now, PriorityEvent, Cause{Trigger: TriggerExternal})
	want(pop, "") // a has the place
	q.Done(Ref{"slow", "a"})
	want(pop, "b")
}

// TestClockThatGoesBack: what is due in a while stays due in that while, and a deadline is an
// instant.
func TestClockThatGoesBack(t *testing.T) {
	day := instant(86_400_000)
	q, now := NewQueue(), 100*day
	q.Pop(now.time())
	q.Add(Ref{"k", "soon"}, (now + 1000).time(), PriorityResync, Cause{Trigger: TriggerResync})
	q.Add(Ref{"k", "later"}, (now + 5000).time(), PriorityResync, Cause{Trigger: TriggerResync})
	q.SetDeadline(Ref{"k", "end"}, (now + 2000).time())
	now -= day
	if it, ok := q.Pop(now.time()); ok || toInstant(instant(q.Back().Milliseconds()).time()) != day {
		t.Fatalf("took %+v", it)
	}
	for at, id := range map[instant]string{now + 1000: "soon", now + 5000: "later", now + day + 2000: "end"} {
		if got, _ := q.By(Ref{"k", id}); toInstant(got) != at {
			t.Errorf("%s is due at %v, want %v", id, got, at.time())
		}
	}
	if it, _ := q.Pop((now + 1000).time()); it.Ref.ID != "soon" {
		t.Fatalf("took %+v", it)
	}
	if it, ok := q.Pop((now + 500).time()); ok {
		t.Fatalf("half a second back brings %+v forward", it)
	}
}

// TestUnqueued: by what is recorded alone, a row that wants a turn is found if nothing is queued of
// it, or too late; one that may rest, or whose turn runs, is not.
func TestUnqueued(t *testing.T) {
	now, p := instant(1_000_000), Policy{}.WithDefaults()
	row := Row{Ref: Ref{"k", "a"}, Generation: 1, state: state{SetAt: now}}
	for _, phase := range allPhases {
		row.Phase = phase
		q := NewQueue()
		in := Input{Snap: &Snapshot{Row: row}, Policy: &p, Now: now.time()}
		want := !phase.atRest()
		check := func(what string, want bool) {
			t.Helper()
			if _, missing := q.Unqueued(in); missing != want {
				t.Errorf("%s, %s: missing is %v", phase, what, missing)
			}
		}
		check("nothing queued", want)
		in.Snap.TriggerN = 3
		check("a trigger waits", !phase.Terminal())
		in.Snap.TriggerN = 0
		in.Snap.Row.state.NotAfter = now + 60_000
		check("it has a deadline", !phase.Terminal())
		q.SetDeadline(row.Ref, (now + 60_000).time())
		check("the deadline is queued", want)
		q.SetDeadline(row.Ref, (now + 90_000).time())
		check("the deadline is queued too late", !phase.Terminal())
		q.Add(row.Ref, now.time(), PriorityRetry, Cause{Trigger: TriggerRetry})
		check("queued", false)
		q.Pop(now.time())
		check("its turn runs", false)
	}
}
