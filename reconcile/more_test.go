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

	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
	"github.com/steadyfleet/steady/reconcile/sqlite"
)

// odd is a reconciler made of functions.
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
	return engine.IsConverged(engine.NewReason("as-desired", ""))
}

var oddRef = engine.Ref{Kind: "odd", ID: "1"}

// runOdd runs one resource of kind odd for a minute and returns its row and loop.
func runOdd(t *testing.T, m reconcile.Reconciler[leaf, int], p engine.Policy, during func(*testing.T, *reconcile.Controller, *sqlite.Store)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := openStore(t)
		loop := reconcile.New(store, reconcile.WithPurityChecks())
		testkit.Must(t, reconcile.Register(loop, "odd", m, p))
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
		during(t, loop, store)
	})
}

func wantRow(t *testing.T, s *sqlite.Store, phase engine.Phase, code engine.Code) {
	t.Helper()
	row, err := s.Get(t.Context(), oddRef)
	if err != nil || row.Phase != phase || row.Reason.Code != code {
		t.Errorf("%s (%s), %v; want %s (%s)", row.Phase, row.Reason, err, phase, code)
	}
}

func TestP3ImpureDecisionsAreRefused(t *testing.T) {
	var n atomic.Int64
	runOdd(t, odd{decide: func(engine.View[leaf, int]) engine.Decision {
		return engine.WaitUntil(time.UnixMilli(n.Add(1)), engine.NewReason("counting", ""))
	}}, engine.Policy{}, func(t *testing.T, _ *reconcile.Controller, s *sqlite.Store) {
		row, _ := s.Get(t.Context(), oddRef)
		if row.Phase != engine.Failed || !strings.Contains(row.Reason.Message, "not a function") {
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
		{"a blocked one waits and is not counted", reconcile.Blocked(engine.NewReason("daemon-away", "")), engine.Waiting, "daemon-away", 2, 30},
	} {
		t.Run(c.name, func(t *testing.T) {
			var tries atomic.Int64
			m := odd{decide: asDesired, observe: func(engine.Resource[leaf]) (int, error) { tries.Add(1); return 0, c.err }}
			runOdd(t, m, engine.Policy{}, func(t *testing.T, _ *reconcile.Controller, s *sqlite.Store) {
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
			runOdd(t, odd{decide: c.decide}, engine.Policy{}, func(t *testing.T, _ *reconcile.Controller, s *sqlite.Store) {
				wantRow(t, s, engine.Failed, c.code)
			})
		})
	}
}

func TestReviveIsASecondLife(t *testing.T) {
	var acts atomic.Int64
	m := odd{
		decide: func(v engine.View[leaf, int]) engine.Decision {
			return engine.Do(write{"x"}, engine.NewReason("absent", ""))
		},
		act: func(context.Context) error { acts.Add(1); return errBroken },
	}
	p := engine.Policy{Retry: engine.RetryPolicy{Max: 2, Base: time.Second, Cap: time.Second}, Revive: 20 * time.Second, ReviveCap: 20 * time.Second}
	runOdd(t, m, p, func(t *testing.T, _ *reconcile.Controller, s *sqlite.Store) {
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
			return engine.Do(write{"x"}, engine.NewReason("absent", ""))
		},
		act: func(context.Context) error { acts.Add(1); return errBroken },
	}
	p := engine.Policy{Retry: engine.RetryPolicy{Max: 2, Base: time.Second, Cap: time.Second}, Revive: 5 * time.Minute}
	runOdd(t, m, p, func(t *testing.T, l *reconcile.Controller, s *sqlite.Store) {
		wait := func() time.Duration {
			row, err := s.Get(t.Context(), oddRef)
			if err != nil || !row.GivenUp() {
				t.Errorf("%+v, %v", row, err)
			}
			h, err := s.History(t.Context(), oddRef, 0, 0)
			if err != nil {
				t.Error(err)
			}
			return row.NextAttempt().Sub(h[len(h)-1].At)
		}
		pass(24 * time.Hour) // lives after 5, 10, 20 and 40 minutes, then hourly
		if n := acts.Load() / 2; n < 24 || n > 28 || wait() != time.Hour {
			t.Errorf("%d lives in a day, the next is %s after the last", n, wait())
		}
		if _, err := l.Apply(t.Context(), engine.Retry(oddRef), hand); err != nil {
			t.Error(err)
		}
		pass(time.Minute)
		if wait() != 5*time.Minute {
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
			return engine.Do(write{todo.Load().(string)}, engine.NewReason("absent", ""))
		},
		act: func(context.Context) error { acts.Add(1); return errBroken },
	}
	p := engine.Policy{Retry: engine.RetryPolicy{Max: 2, Base: time.Second, Cap: 2 * time.Second}, Resync: time.Second}
	runOdd(t, m, p, func(t *testing.T, l *reconcile.Controller, s *sqlite.Store) {
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
			return engine.Do(write{"x"}, engine.NewReason("absent", ""))
		},
		act: func(context.Context) error { acts.Add(1); return nil },
	}
	p := engine.Policy{Retry: engine.RetryPolicy{Max: 2, Base: time.Second, Cap: 2 * time.Second}, Resync: time.Second}
	runOdd(t, m, p, func(t *testing.T, _ *reconcile.Controller, s *sqlite.Store) {
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

func TestP2EnqueueDuringATurnMakesOneMore(t *testing.T) {
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
			l.set(engine.Delete(treeRef("t")))
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
		store := openStore(t)
		for i := range 100 {
			ref := engine.Ref{Kind: "odd", ID: string(rune('A' + i))}
			m.all[ref] = 1
			testkit.Value(store.Apply(t.Context(), engine.Upsert(ref, leaf{}), time.Now(), hand))(t)
		}
		loop := reconcile.New(store, reconcile.WithOrphans(func(_ string, refs []engine.Ref) { strays = slices.Clone(refs) }))
		testkit.Must(t, reconcile.Register(loop, "odd", m, engine.Policy{Resync: time.Minute}))
		ctx, stop := context.WithTimeout(t.Context(), 150*time.Second)
		defer stop()
		testkit.Must(t, loop.Run(ctx))
		s := loop.Stats()
		if m.lists.Load() != 3 || m.singles.Load() != 0 || s.Turns != 300 || s.NoOps != 200 {
			t.Fatalf("%d listings, %d single observes, %+v; want 3, 0, 300 turns, 200 without a write", m.lists.Load(), m.singles.Load(), s)
		}
	})
	if len(strays) != 1 {
		t.Fatalf("orphans %v", strays)
	}
}

// stale compares with what was desired when a resource was last observed alone.
type stale struct {
	odd
	singles atomic.Int64
	last    atomic.Pointer[leaf]
}

func (s *stale) Observe(_ context.Context, r engine.Resource[leaf]) (int, error) {
	s.singles.Add(1)
	s.last.Store(&r.Desired)
	return len(r.Desired.Content), nil
}

func (s *stale) ObserveAll(context.Context) (map[engine.Ref]int, error) {
	if d := s.last.Load(); d != nil {
		return map[engine.Ref]int{oddRef: len(d.Content)}, nil
	}
	return nil, nil
}

// TestListingNeverAnswersForAnotherGeneration: what was compared with an older
// desired state decides nothing, even if nobody says that it changed.
func TestListingNeverAnswersForAnotherGeneration(t *testing.T) {
	m := &stale{}
	m.decide = func(v engine.View[leaf, int]) engine.Decision {
		if v.Observed != len(v.Resource.Desired.Content) {
			t.Errorf("generation %d is decided upon as %d", v.Resource.Generation, v.Observed)
		}
		return asDesired(v)
	}
	runOdd(t, m, engine.Policy{Resync: time.Second}, func(t *testing.T, l *reconcile.Controller, s *sqlite.Store) {
		pass(500 * time.Millisecond) // between two listings: one under way as the state changes is asked again
		before := m.singles.Load()
		for i := range 5 {
			in := engine.Upsert(oddRef, leaf{strings.Repeat("y", i+2)})
			if _, err := s.Apply(t.Context(), in, time.Now(), hand); err != nil {
				t.Error(err)
			}
			l.Enqueue(oddRef, engine.Cause{Trigger: engine.TriggerStartup}) // which a listing may answer
			pass(10 * time.Second)
		}
		if n := m.singles.Load() - before; n != 5 {
			t.Errorf("observed alone %d times for 5 changes", n)
		}
	})
}

func TestRegisterRefuses(t *testing.T) {
	l := reconcile.New(openStore(t))
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
	testkit.Must(t, reconcile.Register(l, "k", ok, engine.Policy{}))
	if err := reconcile.Register(l, "k", ok, engine.Policy{}); err == nil {
		t.Error("accepted a kind twice")
	}
}

// TestWithinGivesAnActMoreTime: an act that says how long it takes is not cut at the policy's
// timeout, one that says less has the policy's.
func TestWithinGivesAnActMoreTime(t *testing.T) {
	for _, c := range []struct{ within, takes, lasts time.Duration }{
		{0, time.Minute, 20 * time.Second},
		{time.Second, time.Minute, 20 * time.Second},
		{50 * time.Second, 40 * time.Second, 40 * time.Second},
		{30 * time.Second, time.Minute, 30 * time.Second},
	} {
		var took time.Duration
		m := odd{
			decide: func(v engine.View[leaf, int]) engine.Decision {
				if v.Resource.Status.Attempts > 0 {
					return engine.Fail(engine.NewReason("once", ""))
				}
				return engine.Do(write{}, engine.NewReason("due", "")).Within(c.within)
			},
			act: func(ctx context.Context) error {
				began := time.Now()
				defer func() { took = time.Since(began) }()
				select {
				case <-ctx.Done():
				case <-time.After(c.takes):
				}
				return ctx.Err()
			},
		}
		runOdd(t, m, engine.Policy{ActTimeout: 20 * time.Second}, func(*testing.T, *reconcile.Controller, *sqlite.Store) {})
		if took != c.lasts {
			t.Errorf("within %s an act of %s ended after %s, want %s", c.within, c.takes, took, c.lasts)
		}
	}
}
