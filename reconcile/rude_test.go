package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
	"github.com/steadyfleet/steady/reconcile/memory"
	"github.com/steadyfleet/steady/reconcile/sqlite"
)

// rude ends its caller in the place that is named.
type rude struct {
	in  string
	end func()
}

func (r rude) at(in string) {
	if r.in == in {
		r.end()
	}
}

type rudeState struct{ Bad bool }

var rudeDecode atomic.Pointer[func()]

func (s *rudeState) UnmarshalJSON(raw []byte) error {
	if f := rudeDecode.Load(); f != nil && strings.Contains(string(raw), "rude") {
		(*f)()
	}
	return nil
}

func (rudeState) MarshalJSON() ([]byte, error) { return []byte(`"rude"`), nil }

type rudeError struct{ end func() }

func (e rudeError) Error() string { e.end(); return "" }

type nilAction struct{ name string }

func (a *nilAction) ActionName() string { return a.name }

func (r rude) Observe(context.Context, engine.Resource[rudeState]) (int, error) {
	r.at("Observe")
	if r.in == "Error" {
		return 0, rudeError{r.end}
	}
	return 0, nil
}

func (r rude) Decide(v engine.View[rudeState, int]) engine.Decision {
	why := engine.NewReason("differs", "")
	r.at("Decide")
	switch r.in {
	case "nil action":
		return engine.Do(nil, why)
	case "typed nil action":
		return engine.Do((*nilAction)(nil), why)
	case "MarshalJSON":
		return engine.Do(badAction{r.end}, why)
	case "unmarshalable":
		return engine.Do(chanAction{make(chan int)}, why)
	case "Act", "tracer":
		return engine.Do(write{"x"}, why)
	}
	return engine.IsConverged(why)
}

type chanAction struct{ C chan int }

func (chanAction) ActionName() string { return "chan" }

func (r rude) Act(context.Context, engine.Resource[rudeState], engine.Action) error {
	r.at("Act")
	return errors.New("no")
}

// TestOneResourceEndsItsAttemptAndNotTheProcess: whatever code of its user a turn runs may panic or
// end its goroutine. That is an attempt of this resource; others and the controller are not
// concerned, and attempts are bounded.
func TestOneResourceEndsItsAttemptAndNotTheProcess(t *testing.T) {
	ends := map[string]func(){"panic": func() { panic("as told") }, "Goexit": runtime.Goexit, "nil": func() { var p *int; *p = 1 }}
	for _, in := range []string{"Observe", "Decide", "Act", "Error", "desired", "nil action", "typed nil action", "MarshalJSON", "unmarshalable"} {
		for how, end := range ends {
			t.Run(in+"/"+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					if in == "desired" {
						rudeDecode.Store(&end)
						defer rudeDecode.Store(nil)
					}
					b := start(t, memory.New(), []reconcile.Option{reconcile.WithWorkers(1)},
						reconcile.Of("rude", rude{in, end}, engine.Policy{}), reconcile.Of("fast", newStuck(""), engine.Policy{}))
					b.apply(engine.Upsert(ref("rude", "a"), rudeState{}))
					pass(10 * time.Minute)
					if row := b.row(ref("rude", "a")); row.Phase != engine.Failed {
						t.Errorf("%s (%s), want failed:\n%s", row.Phase, row.Reason, b.log)
					}
					if n := b.Stats().Turns; n > 20 {
						t.Errorf("%d turns", n)
					}
					b.apply(engine.Upsert(ref("fast", "a"), leaf{}))
					pass(time.Second)
					b.want(ref("fast", "a"), engine.Converged, "")
					if took := b.end(); took > time.Second {
						t.Errorf("Run took %s to end", took)
					}
				})
			})
		}
	}
}

// TestCallbacksMayPanic: what the controller's owner hangs into it ends neither a turn nor it.
func TestCallbacksMayPanic(t *testing.T) {
	bad := func() { panic("as told") }
	for name, opt := range map[string]reconcile.Option{
		"after":   reconcile.WithAfterCommit(func([]engine.Transition) { bad() }),
		"metrics": reconcile.WithMetrics(rudeMetrics{bad}),
		"orphans": reconcile.WithOrphans(func(string, []engine.Ref) { bad() }),
	} {
		synctest.Test(t, func(t *testing.T) {
			b := start(t, memory.New(), []reconcile.Option{opt}, reconcile.Of("fast", newStuck(""), engine.Policy{}))
			b.apply(engine.Upsert(ref("fast", "a"), leaf{}))
			pass(2 * time.Hour)
			if row := b.row(ref("fast", "a")); row.Phase != engine.Converged || row.Attempts != 0 {
				t.Errorf("%s: %s (%s)", name, row.Phase, row.Reason)
			}
			b.end()
		})
	}
}

type rudeMetrics struct{ end func() }

func (m rudeMetrics) Turn(string, string, time.Duration)       { m.end() }
func (m rudeMetrics) Act(string, string, time.Duration, error) { m.end() }
func (m rudeMetrics) Move(string, engine.Phase, engine.Phase)  { m.end() }
func (m rudeMetrics) Queue(int, int)                           { m.end() }
func (m rudeMetrics) StoreFailed(error)                        { m.end() }

// TestATimeThatHasPassed: whatever the decision and however far back the time lies, the turn that
// was asked for comes, and one after the other comes no sooner than twice the last pause.
func TestATimeThatHasPassed(t *testing.T) {
	why := engine.NewReason("later", "")
	for name, decide := range map[string]func(time.Time) engine.Decision{
		"wait":      func(at time.Time) engine.Decision { return engine.WaitUntil(at, why) },
		"converged": func(at time.Time) engine.Decision { return engine.IsConverged(why).RequeueAt(at) },
		"fail":      func(at time.Time) engine.Decision { return engine.Fail(why).RequeueAt(at) },
		"do": func(at time.Time) engine.Decision { // once it has been given up
			return engine.Do(write{"x"}, why).RequeueAt(at)
		},
	} {
		for _, back := range []time.Duration{0, time.Nanosecond, time.Millisecond - 1, time.Millisecond, 24 * time.Hour, -time.Nanosecond, -999 * time.Microsecond} {
			synctest.Test(t, func(t *testing.T) {
				looks := 0
				m := odd{decide: func(v engine.View[leaf, int]) engine.Decision { looks++; return decide(v.Now.Add(-back)) },
					act: func(context.Context) error { return errors.New("no") }}
				b := start(t, memory.New(), nil, reconcile.Of("odd", m, engine.Policy{Retry: engine.RetryPolicy{Max: 2, Cap: time.Second}}))
				b.apply(engine.Upsert(oddRef, leaf{}))
				pass(time.Minute)
				if e := testkit.Value(b.Explain(t.Context(), oddRef))(t); !strings.Contains(e.Obstacle, "at a time that had passed") || b.Stats().Passed != 1 {
					t.Errorf("%s, %s back: %q, %+v", name, back, e.Obstacle, b.Stats())
				}
				if !strings.Contains(b.log.String(), "time that has passed") {
					t.Errorf("%s: nothing in the log", name)
				}
				b.end()
				if looks < 60 || looks > 90 {
					t.Errorf("%s, %s back: %d turns in a minute, want one a second once the pause is the longest", name, back, looks)
				}
			})
		}
	}
}

// TestATimeOfTheSameMillisecondIsReached: a time that falls between two milliseconds is asked
// for once more, and then has come.
func TestATimeOfTheSameMillisecondIsReached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		until, acts := time.Now().Add(10*time.Minute+500*time.Microsecond), 0
		m := odd{decide: func(v engine.View[leaf, int]) engine.Decision {
			if acts > 0 || v.Now.Before(until) {
				return asDesired(v).RequeueAt(until)
			}
			return engine.Do(write{"renew"}, engine.NewReason("due", ""))
		}, act: func(context.Context) error { acts++; until = until.Add(10 * time.Minute); return nil }}
		b := start(t, memory.New(), nil, reconcile.Of("odd", m, engine.Policy{OnDrift: engine.Enforce}))
		b.apply(engine.Upsert(oddRef, leaf{}))
		pass(11 * time.Minute)
		b.end()
		if acts != 1 {
			t.Errorf("%d acts", acts)
		}
	})
}

// TestOneControllerForAStore: a second one is refused, with words, until the first has ended.
func TestOneControllerForAStore(t *testing.T) {
	path := t.TempDir() + "/rows.db"
	stores := map[string]func() reconcile.Store{}
	one := memory.New()
	stores["memory"] = func() reconcile.Store { return one }
	stores["sqlite"] = func() reconcile.Store {
		db, s, err := open(path)
		testkit.Must(t, err)
		t.Cleanup(func() { _ = db.Close() })
		return s
	}
	db, _, err := open(":memory:")
	testkit.Must(t, err)
	defer db.Close()
	db.SetMaxOpenConns(1) // each connection has a database of its own
	_, err = sqlite.Open(t.Context(), db)
	testkit.Must(t, err)
	stores["sqlite in memory"] = func() reconcile.Store { return sqlite.New(db) }
	for name, store := range stores {
		ctx, stop := context.WithCancel(t.Context())
		first, done := reconcile.New(store()), make(chan error, 1)
		go func() { done <- first.Run(ctx) }()
		first.Enqueue(ref("none", "a"), hand) // a turn of it is the sign that the first runs
		for first.Stats().Unknown == 0 && len(done) == 0 {
			runtime.Gosched()
		}
		err := reconcile.New(store()).Run(ctx)
		if !errors.Is(err, reconcile.ErrStoreInUse) {
			t.Errorf("%s: %v", name, err)
		}
		if name == "sqlite" && !strings.Contains(fmt.Sprint(err), fmt.Sprint("process ", os.Getpid())) {
			t.Errorf("it names no process: %v", err)
		}
		stop()
		testkit.Must(t, <-done)
		ended, end := context.WithCancel(t.Context())
		end()
		testkit.Must(t, reconcile.New(store()).Run(ended))
	}
}

// TestClockThatGoesBack: looks go on, retries too, and a call that hangs is found.
func TestClockThatGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var back atomic.Int64
		now := func() time.Time { return time.Now().Add(-time.Duration(back.Load())) }
		var looks atomic.Int64
		hangs := newStuck("Act")
		quiet := odd{decide: func(v engine.View[leaf, int]) engine.Decision { looks.Add(1); return asDesired(v) }}
		fails := odd{decide: func(engine.View[leaf, int]) engine.Decision {
			return engine.Do(write{"x"}, engine.NewReason("differs", ""))
		}, act: func(context.Context) error { return errors.New("no") }}
		b := start(t, memory.New(), []reconcile.Option{reconcile.WithNow(now)},
			reconcile.Of("odd", quiet, reconcile.Every(time.Second)), reconcile.Of("fails", fails, engine.Policy{}), reconcile.Of("hangs", hangs, engine.Policy{}))
		b.apply(engine.Upsert(oddRef, leaf{}))
		b.apply(engine.Upsert(ref("fails", "a"), leaf{}))
		b.apply(engine.Upsert(ref("hangs", "a"), leaf{}))
		pass(2 * time.Second)
		before := looks.Load()
		back.Store(int64(24 * time.Hour))
		pass(2 * time.Minute)
		if n := looks.Load() - before; n < 110 {
			t.Errorf("%d looks in two minutes after the clock went back", n)
		}
		b.want(ref("fails", "a"), engine.Failed, "gave up after 5")
		if b.Stats().Hung != 1 {
			t.Errorf("%d hang, want 1", b.Stats().Hung)
		}
		if !strings.Contains(b.log.String(), "the clock went back") {
			t.Error("nothing in the log")
		}
		close(hangs.let)
		b.end()
	})
}

// TestSweepQueuesWhatIsLeft: a transaction of the store's owner that no Enqueue followed.
func TestSweepQueuesWhatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := start(t, memory.New(), nil, reconcile.Of("fast", newStuck(""), engine.Policy{}))
		testkit.Value(b.store.Apply(t.Context(), engine.Upsert(ref("fast", "a"), leaf{}), time.Now(), hand))(t)
		if left := testkit.Value(b.LeftAlone(t.Context()))(t); len(left) != 1 {
			t.Fatalf("left alone: %v", left)
		}
		pass(2 * time.Hour)
		b.want(ref("fast", "a"), engine.Converged, "")
		if b.Stats().Repaired != 1 || !strings.Contains(b.log.String(), "left with nothing queued") {
			t.Errorf("%+v\n%s", b.Stats(), b.log)
		}
		b.end()
	})
}
