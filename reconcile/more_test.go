package reconcile_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
	"github.com/steadyfleet/steady/reconcile/memory"
)

// odd is a manager made of functions.
type odd struct {
	observe func(engine.Resource[leaf]) (int, error)
	decide  func(engine.View[leaf, int]) engine.Decision
	act     func(context.Context) error
}

func (o odd) Observe(_ context.Context, r engine.Resource[leaf]) (int, error) {
	if o.observe == nil {
		return 0, nil
	}
	return o.observe(r)
}
func (o odd) Decide(v engine.View[leaf, int]) engine.Decision { return o.decide(v) }
func (o odd) Act(ctx context.Context, _ engine.Resource[leaf], _ engine.Action) error {
	return o.act(ctx)
}

func asDesired(engine.View[leaf, int]) engine.Decision {
	return engine.IsConverged(engine.Because("as_desired", ""))
}

var oddRef = engine.Ref{Kind: "odd", ID: "1"}

// runOdd runs one resource of kind odd for a minute and returns its row and loop.
func runOdd(t *testing.T, m reconcile.Manager[leaf, int], p engine.Policy, during func(*reconcile.Loop, *memory.Store)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		loop := reconcile.New(store, reconcile.WithPurityChecks())
		if err := reconcile.Register(loop, "odd", m, p); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- loop.Run(ctx) }()
		defer func() {
			stop()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait() // the start finds nothing to look at
		if _, err := loop.Apply(ctx, engine.Upsert(oddRef, leaf{"x"}), hand); err != nil {
			t.Error(err)
			return
		}
		pass(time.Minute)
		during(loop, store)
	})
}

func wantRow(t *testing.T, s *memory.Store, phase engine.Phase, code engine.Code) {
	t.Helper()
	row, err := s.Get(t.Context(), oddRef)
	if err != nil || row.Phase != phase || row.Reason.Code != code {
		t.Errorf("%s (%s), %v; want %s (%s)", row.Phase, row.Reason, err, phase, code)
	}
}

func TestP3ImpureDecisionsAreRefused(t *testing.T) {
	var n atomic.Int64
	runOdd(t, odd{decide: func(engine.View[leaf, int]) engine.Decision {
		return engine.Wait(engine.Instant(n.Add(1)), engine.Because("counting", ""))
	}}, engine.Policy{}, func(_ *reconcile.Loop, s *memory.Store) {
		row, _ := s.Get(t.Context(), oddRef)
		if row.Phase != engine.Failed || !strings.Contains(row.Reason.Words, "not a function") {
			t.Errorf("%s (%s)", row.Phase, row.Reason)
		}
	})
}

func TestErrorsOfObserve(t *testing.T) {
	never := errors.New("no such thing")
	for _, c := range []struct {
		name  string
		err   error
		phase engine.Phase
		code  engine.Code
		tries int64 // least and most observes within a minute
		most  int64
	}{
		{"transient errors are counted until exhausted", never, engine.Failed, engine.CodeExhausted, 5, 5},
		{"a terminal error fails at once", reconcile.Terminal("unsupported", never), engine.Failed, "unsupported", 1, 1},
		{"a blocked one waits and is not counted", reconcile.Blocked(0, engine.Because("daemon_away", "")), engine.Waiting, "daemon_away", 2, 30},
	} {
		t.Run(c.name, func(t *testing.T) {
			var tries atomic.Int64
			m := odd{decide: asDesired, observe: func(engine.Resource[leaf]) (int, error) { tries.Add(1); return 0, c.err }}
			runOdd(t, m, engine.Policy{}, func(_ *reconcile.Loop, s *memory.Store) {
				wantRow(t, s, c.phase, c.code)
				if n := tries.Load(); n < c.tries || n > c.most {
					t.Errorf("observed %d times, want %d to %d", n, c.tries, c.most)
				}
			})
		})
	}
}

func TestTotalEvenForBadDecisions(t *testing.T) {
	for _, c := range []struct {
		name   string
		decide func(engine.View[leaf, int]) engine.Decision
		code   engine.Code
	}{
		{"no decision", func(engine.View[leaf, int]) engine.Decision { return engine.Decision{} }, engine.CodeNoDecision},
		{"itself as a child", func(v engine.View[leaf, int]) engine.Decision {
			return asDesired(v).With(engine.Upsert(v.Resource.Ref, 1))
		}, engine.CodeBadIntent},
		{"a child that does not encode", func(v engine.View[leaf, int]) engine.Decision {
			return asDesired(v).With(engine.Upsert(leafRef("a"), func() {}))
		}, engine.CodeBadIntent},
		{"a panic", func(engine.View[leaf, int]) engine.Decision { panic("no") }, engine.CodeExhausted},
	} {
		t.Run(c.name, func(t *testing.T) {
			runOdd(t, odd{decide: c.decide}, engine.Policy{}, func(_ *reconcile.Loop, s *memory.Store) {
				wantRow(t, s, engine.Failed, c.code)
			})
		})
	}
}

func TestReviveIsASecondLife(t *testing.T) {
	var acts atomic.Int64
	m := odd{
		decide: func(v engine.View[leaf, int]) engine.Decision {
			return engine.Do(write{"x"}, engine.Because("absent", ""))
		},
		act: func(context.Context) error { acts.Add(1); return errBroken },
	}
	p := engine.Policy{Retry: engine.RetryPolicy{Max: 2, Base: clock.Second, Cap: clock.Second}, Revive: 20 * clock.Second, ReviveCap: 20 * clock.Second}
	runOdd(t, m, p, func(_ *reconcile.Loop, s *memory.Store) {
		if n := acts.Load(); n != 6 {
			t.Errorf("%d acts in a minute, want 2 in each of 3 lives", n)
		}
		h, err := s.History(t.Context(), oddRef, 0, 0)
		if err != nil {
			t.Error(err)
		}
		escalated := 0
		for _, x := range h {
			if x.Escalated {
				escalated++
			}
		}
		if escalated != 1 {
			t.Errorf("escalated %d times, want once a generation", escalated)
		}
	})
}

// TestLivesGrowApart: what never works is tried again ever more slowly, hourly in the
// end, and an operator's retry begins anew.
func TestLivesGrowApart(t *testing.T) {
	var acts atomic.Int64
	m := odd{
		decide: func(v engine.View[leaf, int]) engine.Decision {
			return engine.Do(write{"x"}, engine.Because("absent", ""))
		},
		act: func(context.Context) error { acts.Add(1); return errBroken },
	}
	p := engine.Policy{Retry: engine.RetryPolicy{Max: 2, Base: clock.Second, Cap: clock.Second}, Revive: 5 * clock.Minute}
	runOdd(t, m, p, func(l *reconcile.Loop, s *memory.Store) {
		wait := func() engine.Duration {
			row, err := s.Get(t.Context(), oddRef)
			if err != nil || !row.GivenUp {
				t.Errorf("%+v, %v", row, err)
			}
			return row.RetryAt.Sub(row.FailedAt)
		}
		pass(24 * time.Hour) // lives after 5, 10, 20 and 40 minutes, then hourly
		if n := acts.Load() / 2; n < 24 || n > 28 || wait() != clock.Hour {
			t.Errorf("%d lives in a day, the next is %s after the last", n, wait())
		}
		if _, err := l.Apply(t.Context(), engine.Retry(oddRef), hand); err != nil {
			t.Error(err)
		}
		pass(time.Minute)
		if wait() != 5*clock.Minute {
			t.Errorf("after a retry the next life is %s after the last", wait())
		}
	})
}

// TestAChangedInputIsAnotherLife: attempts are bounded for one state of the world.
// When something else is to be done than what was given up for, it is done.
func TestAChangedInputIsAnotherLife(t *testing.T) {
	var acts atomic.Int64
	var todo atomic.Value
	todo.Store("start")
	m := odd{
		decide: func(v engine.View[leaf, int]) engine.Decision {
			return engine.Do(write{todo.Load().(string)}, engine.Because("absent", ""))
		},
		act: func(context.Context) error { acts.Add(1); return errBroken },
	}
	p := engine.Policy{Retry: engine.RetryPolicy{Max: 2, Base: clock.Second, Cap: 2 * clock.Second}, Resync: clock.Second}
	runOdd(t, m, p, func(l *reconcile.Loop, s *memory.Store) {
		if n := acts.Load(); n != 2 {
			t.Errorf("%d acts in a minute on one state of the world, want 2", n)
		}
		todo.Store("create") // somebody removed it
		pass(time.Minute)
		if n := acts.Load(); n != 4 {
			t.Errorf("%d acts after the world changed, want 2 more", n)
		}
	})
}

// TestWhatIsSeenAgainIsAnotherLife: what was given up while nothing could be seen is
// tried once it can, such as after an engine came back.
func TestWhatIsSeenAgainIsAnotherLife(t *testing.T) {
	var acts atomic.Int64
	var sees atomic.Bool
	m := odd{
		observe: func(engine.Resource[leaf]) (int, error) {
			if !sees.Load() {
				return 0, errBroken
			}
			return int(acts.Load()), nil
		},
		decide: func(v engine.View[leaf, int]) engine.Decision {
			if v.Observed > 0 {
				return engine.IsConverged(engine.Reason{})
			}
			return engine.Do(write{"x"}, engine.Because("absent", ""))
		},
		act: func(context.Context) error { acts.Add(1); return nil },
	}
	p := engine.Policy{Retry: engine.RetryPolicy{Max: 2, Base: clock.Second, Cap: 2 * clock.Second}, Resync: clock.Second}
	runOdd(t, m, p, func(_ *reconcile.Loop, s *memory.Store) {
		wantRow(t, s, engine.Failed, engine.CodeExhausted)
		sees.Store(true)
		pass(time.Minute)
		wantRow(t, s, engine.Converged, "")
	})
}

func TestChildOfAnotherParentFailsTheClaimant(t *testing.T) {
	inBubble(t, nil, func(l *lab) {
		l.set(engine.Upsert(treeRef("one"), tree{Leaves: []string{"a"}, Content: "mine"}))
		pass(time.Minute)
		l.set(engine.Upsert(treeRef("two"), tree{Leaves: []string{"a"}, Content: "stolen"}))
		pass(time.Minute)
		l.wantPhase(treeRef("two"), engine.Failed)
		if r := l.row(treeRef("two")).Reason; r.Code != engine.CodeChildConflict {
			t.Fatalf("failed for %s", r)
		}
		if s, _ := l.w.get("a"); s != "mine" {
			t.Fatalf("the leaf holds %q", s)
		}
	})
}

func TestP2KickDuringATurnMakesOneMore(t *testing.T) {
	inBubble(t, nil, func(l *lab) {
		for i := range 20 {
			l.set(engine.Upsert(leafRef("a"), leaf{string(rune('a' + i))}))
		}
		pass(time.Second)
		l.quiet()
		if s, _ := l.w.get("a"); s != "t" {
			t.Fatalf("the world holds %q, want the last of twenty", s)
		}
	})
}

// TestP12SameLifeSameHistory runs one scenario twice with one worker.
func TestP12SameLifeSameHistory(t *testing.T) {
	run := func() (out string) {
		inBubble(t, func(l *lab) { l.opts = append(l.opts, reconcile.WithWorkers(1)) }, func(l *lab) {
			l.w.breakLeaf("b", fails, lies, nothing)
			l.set(engine.Upsert(treeRef("t"), tree{Leaves: []string{"a", "b", "c"}}))
			pass(10 * time.Minute)
			l.w.set("c", "by hand")
			pass(10 * time.Minute)
			l.set(engine.Retire(treeRef("t")))
			pass(10 * time.Minute)
			for _, r := range l.rows() {
				out += mustJSON(l.history(r.Ref)) + "\n"
			}
		})
		return out
	}
	first := run()
	if d := cmp.Diff(first, run()); d != "" || strings.Count(first, "\n") != 4 {
		t.Fatalf("two lives differ:\n%s", d)
	}
}

// many is a kind that can be listed.
type many struct {
	odd
	lists   atomic.Int64
	singles atomic.Int64
	mu      sync.Mutex
	all     map[engine.Ref]int
}

func (m *many) ObserveAll(context.Context) (map[engine.Ref]int, error) {
	m.lists.Add(1)
	pass(10 * time.Millisecond)
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.all, nil
}

func (m *many) Observe(_ context.Context, r engine.Resource[leaf]) (int, error) {
	m.singles.Add(1)
	return 1, nil
}

func (m *many) Orphans(context.Context) ([]engine.Ref, error) {
	return []engine.Ref{{Kind: "odd", ID: "stray"}}, nil
}

func TestListingAnswersStartupAndResync(t *testing.T) {
	m := &many{odd: odd{decide: asDesired}, all: map[engine.Ref]int{}}
	var strays []engine.Ref
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		for i := range 100 {
			ref := engine.Ref{Kind: "odd", ID: string(rune('A' + i))}
			m.all[ref] = 1
			if _, err := store.Apply(t.Context(), engine.Upsert(ref, leaf{}), 1, hand); err != nil {
				t.Fatal(err)
			}
		}
		loop := reconcile.New(store, reconcile.WithOrphans(func(_ string, refs []engine.Ref) { strays = slices.Clone(refs) }))
		if err := reconcile.Register(loop, "odd", m, engine.Policy{Resync: clock.Minute}); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), 150*time.Second)
		defer stop()
		if err := loop.Run(ctx); err != nil {
			t.Fatal(err)
		}
		s := loop.Stats()
		if m.lists.Load() != 3 || m.singles.Load() != 0 || s.Turns != 300 || s.NoOps != 200 {
			t.Fatalf("%d listings, %d single observes, %+v; want 3, 0, 300 turns, 200 without a write", m.lists.Load(), m.singles.Load(), s)
		}
	})
	if len(strays) != 1 {
		t.Fatalf("orphans %v", strays)
	}
}

func TestRegisterRefuses(t *testing.T) {
	l := reconcile.New(memory.New())
	ok := odd{decide: asDesired}
	for _, err := range []error{
		reconcile.Register(l, "", ok, engine.Policy{}),
		reconcile.Register(l, "k", ok, engine.Policy{OnDrift: "ignore"}),
		reconcile.Register(l, "k", ok, engine.Policy{Retry: engine.RetryPolicy{Max: -1}}),
	} {
		if err == nil {
			t.Error("accepted a bad registration")
		}
	}
	if err := reconcile.Register(l, "k", ok, engine.Policy{}); err != nil {
		t.Fatal(err)
	}
	if err := reconcile.Register(l, "k", ok, engine.Policy{}); err == nil {
		t.Error("accepted a kind twice")
	}
}
