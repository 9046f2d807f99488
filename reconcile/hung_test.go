package reconcile_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
	"github.com/steadyfleet/steady/reconcile/memory"
)

// stuck is a reconciler of which one call does not return until it is let go.
type stuck struct {
	in  string // Observe, Decide or Act; else none hangs
	gen int64  // of this generation and later ones
	let chan struct{}

	mu   *sync.Mutex
	runs map[engine.Ref]int
	twin *bool // two acts of one resource ran at once
}

func newStuck(in string) stuck {
	return stuck{in: in, gen: 1, let: make(chan struct{}), mu: &sync.Mutex{}, runs: map[engine.Ref]int{}, twin: new(bool)}
}

func (s stuck) call(in string, ref engine.Ref, generation int64) {
	s.mu.Lock()
	s.runs[ref]++
	*s.twin = *s.twin || s.runs[ref] > 1
	s.mu.Unlock()
	if in == s.in && generation >= s.gen {
		<-s.let
	}
	s.mu.Lock()
	s.runs[ref]--
	s.mu.Unlock()
}

func (s stuck) Observe(_ context.Context, r engine.Resource[leaf]) (int, error) {
	s.call("Observe", r.Ref, r.Generation)
	return 0, nil
}

func (s stuck) Decide(v engine.View[leaf, int]) engine.Decision {
	s.call("Decide", v.Resource.Ref, v.Resource.Generation)
	if s.in == "Act" && v.Resource.Generation >= s.gen {
		return engine.Do(write{"x"}, engine.NewReason("differs", ""))
	}
	return asDesired(v)
}

func (s stuck) Act(_ context.Context, r engine.Resource[leaf], _ engine.Action) error {
	s.call("Act", r.Ref, r.Generation)
	return nil
}

// bench is a controller over a memory store in a bubble.
type bench struct {
	*reconcile.Controller
	t     *testing.T
	store reconcile.Store
	log   *bytes.Buffer
	stop  context.CancelFunc
	done  chan error
}

// start runs kinds in the present bubble; the test ends it with end.
func start(t *testing.T, store reconcile.Store, opts []reconcile.Option, kinds ...reconcile.Kind) *bench {
	t.Helper()
	b := &bench{t: t, store: store, log: &bytes.Buffer{}, done: make(chan error, 1)}
	opts = append([]reconcile.Option{reconcile.WithLogger(slog.New(slog.NewTextHandler(b.log, nil)))}, opts...)
	b.Controller = reconcile.New(store, opts...)
	for _, k := range kinds {
		testkit.Must(t, k(b.Controller))
	}
	ctx, stop := context.WithCancel(context.Background())
	b.stop = stop
	go func() { b.done <- b.Run(ctx) }()
	synctest.Wait()
	return b
}

// end stops it and says how long that took.
func (b *bench) end() time.Duration {
	b.t.Helper()
	began := time.Now()
	b.stop()
	testkit.Must(b.t, <-b.done)
	return time.Since(began)
}

// apply sets what is desired in the store, as a program did that had the kind registered.
func (b *bench) apply(in engine.Intent) {
	b.t.Helper()
	testkit.Value(b.store.Apply(context.Background(), in, time.Now(), hand))(b.t)
	b.Enqueue(in.Ref, hand)
}

func (b *bench) row(ref engine.Ref) engine.Row {
	b.t.Helper()
	return testkit.Value(b.Get(context.Background(), ref))(b.t)
}

func (b *bench) want(ref engine.Ref, want engine.Phase, text string) {
	b.t.Helper()
	row := b.row(ref)
	if row.Phase != want || !strings.Contains(row.Reason.String(), text) {
		h, _ := b.store.History(context.Background(), ref, 0, 0)
		b.t.Errorf("%s is %s (%s), want %s with %q; history:\n%s", ref, row.Phase, row.Reason, want, text, mustJSON(h))
	}
}

// attention lists the refs that need a person.
func (b *bench) attention() (refs []string) {
	b.t.Helper()
	for _, r := range testkit.Value(b.Attention(context.Background()))(b.t) {
		refs = append(refs, r.Ref.String())
	}
	return refs
}

func ref(kind, id string) engine.Ref { return engine.Ref{Kind: kind, ID: id} }

// TestHungActsTakePlacesOfTheirOwnKind: acts that ignore their context neither stop other kinds,
// before their timeout and after it, nor the end of Run; they are named everywhere.
func TestHungActsTakePlacesOfTheirOwnKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow, fast := newStuck("Act"), newStuck("")
		b := start(t, memory.New(), []reconcile.Option{reconcile.WithWorkers(2)},
			reconcile.Of("slow", slow, engine.Policy{}), reconcile.Of("fast", fast, engine.Policy{}))
		for i := range 5 {
			b.apply(engine.Upsert(ref("slow", fmt.Sprint(i)), leaf{}))
		}
		pass(time.Second)
		all := func(generation string) {
			for i := range 20 {
				b.apply(engine.Upsert(ref("fast", fmt.Sprint(i)), leaf{generation}))
			}
			pass(2 * time.Second)
			for i := range 20 {
				b.want(ref("fast", fmt.Sprint(i)), engine.Converged, "")
			}
		}
		all("before the timeout")
		if s := b.Stats(); s.Hung != 0 {
			t.Errorf("%d hang before their timeout", s.Hung)
		}
		pass(2 * time.Minute)
		all("after it")
		s, hung := b.Stats(), b.Hung()
		if s.Hung != 2 || len(hung) != 2 || hung[0].Call != "Act write" {
			t.Fatalf("%d hang: %v", s.Hung, hung)
		}
		e := testkit.Value(b.Explain(t.Context(), hung[0].Ref))(t)
		if !strings.Contains(e.String(), "Act write of "+hung[0].Ref.String()+" has not returned") {
			t.Errorf("explained as %s", e)
		}
		b.want(hung[0].Ref, engine.Acting, "Act write has not returned")
		waits := 0
		for i := range 5 {
			e := testkit.Value(b.Explain(t.Context(), ref("slow", fmt.Sprint(i))))(t)
			if strings.Contains(e.String(), "no worker is free for kind slow: 2 of its calls have not returned") {
				waits++
			}
		}
		if got := b.attention(); waits != 3 || len(got) != 2 || got[0] != hung[0].Ref.String() {
			t.Errorf("%d explained as waiting, attention for %v", waits, got)
		}
		if n := strings.Count(b.log.String(), "has not returned in time; its resource"); n != 2 {
			t.Errorf("%d lines in the log, want 2:\n%s", n, b.log)
		}
		if took := b.end(); took > time.Second {
			t.Errorf("Run took %s to end", took)
		}
		close(slow.let)
	})
}

// TestCallsThatRunAtTheEndAreWaitedForAWhile: one that is not late yet has the grace of the
// controller, and writes nothing after it.
func TestCallsThatRunAtTheEndAreWaitedForAWhile(t *testing.T) {
	for _, in := range []string{"Observe", "Decide", "Act"} {
		synctest.Test(t, func(t *testing.T) {
			s, store := newStuck(in), memory.New()
			b := start(t, store, []reconcile.Option{reconcile.WithStopGrace(3 * time.Second)}, reconcile.Of("k", s, engine.Policy{}))
			b.apply(engine.Upsert(ref("k", "a"), leaf{}))
			pass(time.Second)
			if took := b.end(); took != 3*time.Second {
				t.Errorf("%s: Run took %s to end", in, took)
			}
			before := b.row(ref("k", "a"))
			next := reconcile.New(store)
			if err := next.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "left a call behind") {
				t.Errorf("%s: another controller begins while the call runs: %v", in, err)
			}
			close(s.let)
			synctest.Wait()
			if after := b.row(ref("k", "a")); mustJSON(after) != mustJSON(before) {
				t.Errorf("%s: written after the end: %s, before %s", in, mustJSON(after), mustJSON(before))
			}
			last := start(t, store, nil, reconcile.Of("k", newStuck(""), engine.Policy{}))
			last.want(ref("k", "a"), engine.Converged, "")
			last.end()
		})
	}
}

// TestNothingHangsForEverInDeletion: whichever call does not return, or if nobody registered
// the kind, the resource is orphaned with an alert when its grace is over, and its parent.
func TestNothingHangsForEverInDeletion(t *testing.T) {
	policy := engine.Policy{CleanupGrace: 10 * time.Minute, ActTimeout: time.Second, ObserveTimeout: time.Second}
	for _, in := range []string{"Observe", "Decide", "Act", "nobody"} {
		synctest.Test(t, func(t *testing.T) {
			s := newStuck(in)
			s.gen = 2
			parent := odd{decide: func(v engine.View[leaf, int]) engine.Decision {
				if v.Resource.Delete {
					return asDesired(v)
				}
				return asDesired(v).With(engine.Upsert(ref("k", "child"), leaf{}))
			}}
			kinds := []reconcile.Kind{reconcile.Of("p", parent, policy)}
			if in != "nobody" {
				kinds = append(kinds, reconcile.Of("k", s, policy))
			}
			var mu sync.Mutex
			var alerts []string
			store := memory.New()
			if in == "nobody" { // but the program before
				before := start(t, store, nil, kinds[0], reconcile.Of("k", newStuck(""), policy))
				before.apply(engine.Upsert(ref("p", "a"), leaf{}))
				pass(time.Second)
				before.end()
			}
			b := start(t, store, []reconcile.Option{reconcile.WithAfterCommit(func(ts []engine.Transition) {
				mu.Lock() // workers commit, and who keeps the deadlines of calls that hang
				defer mu.Unlock()
				for _, x := range ts {
					if x.Alert {
						alerts = append(alerts, x.Ref.String())
					}
				}
			})}, kinds...)
			b.apply(engine.Upsert(ref("p", "a"), leaf{}))
			pass(time.Minute)
			deleted := time.Now()
			b.apply(engine.Delete(ref("p", "a")))
			pass(10*time.Minute - time.Second)
			if p := b.row(ref("k", "child")).Phase; p.Terminal() {
				t.Errorf("%s: %s before its grace is over", in, p)
			}
			pass(2 * time.Second)
			b.want(ref("k", "child"), engine.Orphaned, map[bool]string{true: "no reconciler is registered", false: "has not returned"}[in == "nobody"])
			b.want(ref("p", "a"), engine.Orphaned, "k/child is orphaned")
			h := testkit.Value(b.store.History(t.Context(), ref("k", "child"), 0, 0))(t)
			if last := h[len(h)-1]; last.At.Sub(deleted) > 10*time.Minute+time.Millisecond {
				t.Errorf("%s: orphaned %s after the request", in, last.At.Sub(deleted))
			}
			close(s.let)
			pass(time.Minute)
			b.want(ref("k", "child"), engine.Orphaned, "")
			if *s.twin {
				t.Errorf("%s: two calls of one resource at once", in)
			}
			b.end()
			if strings.Join(alerts, " ") != "k/child p/a" {
				t.Errorf("%s: alerts of %v", in, alerts)
			}
		})
	}
}

// TestDeadlinesAreKeptWhileACallHangs: NotAfter, ConvergeBy and a new generation, each while
// one call does not return; and no second call begins before it has.
func TestDeadlinesAreKeptWhileACallHangs(t *testing.T) {
	policy := engine.Policy{ActTimeout: time.Second, ObserveTimeout: time.Second}
	for _, in := range []string{"Observe", "Decide", "Act"} {
		synctest.Test(t, func(t *testing.T) {
			s := newStuck(in)
			b := start(t, memory.New(), []reconcile.Option{reconcile.WithWorkers(3)}, reconcile.Of("k", s, policy))
			end := time.Now().Add(time.Minute)
			b.apply(engine.Upsert(ref("k", "ends"), leaf{}).WithNotAfter(end))
			b.apply(engine.Upsert(ref("k", "fails"), leaf{}).WithConvergeBy(end))
			b.apply(engine.Upsert(ref("k", "changes"), leaf{"1"}))
			b.apply(engine.Upsert(ref("k", "waits"), leaf{}).WithNotAfter(end)) // no place is left for it
			pass(30 * time.Second)
			b.apply(engine.Upsert(ref("k", "changes"), leaf{"2"}))
			pass(31 * time.Second)
			for _, id := range []string{"ends", "waits"} {
				if row := b.row(ref("k", id)); !row.Delete {
					t.Errorf("%s: %s outlives its NotAfter: %s", in, id, mustJSON(row))
				}
			}
			b.want(ref("k", "fails"), engine.Failed, "not converged by")
			close(s.let)
			pass(time.Minute)
			if in != "Act" { // which would act again and again
				b.want(ref("k", "changes"), engine.Converged, "")
				b.want(ref("k", "ends"), engine.Deleted, "")
				b.want(ref("k", "waits"), engine.Deleted, "")
			}
			if b.Stats().Hung != 0 || *s.twin {
				t.Errorf("%s: %d hang after all, two at once %v", in, b.Stats().Hung, *s.twin)
			}
			b.end()
		})
	}
}

// TestAnActThatEndsLateIsRecorded: it may have been named as one that hangs, and its deadlines may
// have changed; its end is neither lost nor counted as an interruption.
func TestAnActThatEndsLateIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		acts := 0
		m := odd{
			decide: func(v engine.View[leaf, int]) engine.Decision {
				if acts > 0 {
					return asDesired(v)
				}
				return engine.Do(write{"x"}, engine.NewReason("differs", ""))
			},
			act: func(context.Context) error { pass(time.Minute); acts++; return nil },
		}
		b := start(t, memory.New(), nil, reconcile.Of("odd", m, engine.Policy{ActTimeout: time.Second}))
		b.apply(engine.Upsert(oddRef, leaf{}))
		pass(10 * time.Second)
		b.want(oddRef, engine.Acting, "has not returned")
		b.apply(engine.Upsert(oddRef, leaf{}).WithNotAfter(time.Now().Add(time.Hour)))
		pass(time.Minute)
		b.want(oddRef, engine.Converged, "")
		h := testkit.Value(b.store.History(t.Context(), oddRef, 0, 0))(t)
		verified := 0
		for _, x := range h {
			if x.To == engine.Verifying && x.Duration == time.Minute {
				verified++
			}
		}
		if verified != 1 || acts != 1 || len(b.attention()) != 0 {
			t.Errorf("%d ends recorded of %d acts, attention %v:\n%s", verified, acts, b.attention(), mustJSON(h))
		}
		b.end()
	})
}

// TestAnEarlierDeadlineEndsTheActThatRuns: one that was set while it runs counts for it too.
func TestAnEarlierDeadlineEndsTheActThatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended time.Time
		m := odd{
			decide: func(v engine.View[leaf, int]) engine.Decision {
				if v.Resource.Delete {
					return asDesired(v)
				}
				return engine.Do(write{"x"}, engine.NewReason("differs", "")).Within(time.Hour)
			},
			act: func(ctx context.Context) error { <-ctx.Done(); ended = time.Now(); return context.Cause(ctx) },
		}
		b := start(t, memory.New(), nil, reconcile.Of("odd", m, engine.Policy{}))
		b.apply(engine.Upsert(oddRef, leaf{}))
		pass(time.Minute)
		end := time.Now().Add(time.Minute)
		b.apply(engine.Upsert(oddRef, leaf{}).WithNotAfter(end))
		pass(2 * time.Minute)
		b.want(oddRef, engine.Deleted, "")
		b.end()
		if !ended.Equal(end) {
			t.Errorf("the act ended at %s, the deadline was %s", ended, end)
		}
	})
}

// TestDeadlinesGoBeforeLongActs: acts that take an hour and are not late leave no place, and the
// deadlines of what waits for one are kept.
func TestDeadlinesGoBeforeLongActs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := odd{
			decide: func(v engine.View[leaf, int]) engine.Decision {
				return engine.Do(write{"x"}, engine.NewReason("differs", "")).Within(time.Hour)
			},
			act: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		}
		b := start(t, memory.New(), []reconcile.Option{reconcile.WithWorkers(2)},
			reconcile.Of("odd", m, engine.Policy{}), reconcile.Of("fast", newStuck(""), engine.Policy{}))
		for i := range 2 {
			b.apply(engine.Upsert(ref("odd", fmt.Sprint("long", i)), leaf{}))
		}
		pass(time.Minute)
		b.apply(engine.Upsert(ref("odd", "late"), leaf{}).WithNotAfter(time.Now().Add(time.Minute)))
		b.apply(engine.Upsert(ref("fast", "late"), leaf{}).WithNotAfter(time.Now().Add(time.Minute)))
		pass(61 * time.Second)
		if row := b.row(ref("odd", "late")); !row.Delete {
			t.Errorf("it outlives its deadline: %s", mustJSON(row))
		}
		b.want(ref("fast", "late"), engine.Deleted, "")
		b.apply(engine.Delete(ref("odd", "late")))
		pass(11 * time.Minute)
		b.want(ref("odd", "late"), engine.Orphaned, "")
		b.end()
	})
}

// TestUnregisteredKindsKeepTheirDeadlines: a row of a kind that nobody registered any more.
func TestUnregisteredKindsKeepTheirDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		b := start(t, store, nil)
		end := time.Now().Add(time.Minute)
		b.apply(engine.Upsert(ref("gone", "ends"), leaf{}).WithNotAfter(end))
		b.apply(engine.Upsert(ref("gone", "fails"), leaf{}).WithConvergeBy(end))
		b.apply(engine.Upsert(ref("gone", "rests"), leaf{}))
		pass(time.Second)
		b.want(ref("gone", "rests"), engine.Waiting, "no reconciler is registered")
		if e := testkit.Value(b.Explain(t.Context(), ref("gone", "rests")))(t); !strings.Contains(e.String(), `no reconciler is registered for kind "gone"`) {
			t.Errorf("explained as %s", e)
		}
		pass(time.Minute)
		b.want(ref("gone", "fails"), engine.Failed, "no reconciler")
		pass(10 * time.Minute)
		b.want(ref("gone", "ends"), engine.Orphaned, "no reconciler")
		b.end()
		again := start(t, store, nil, reconcile.Of("gone", newStuck(""), engine.Policy{}))
		pass(time.Second)
		again.want(ref("gone", "rests"), engine.Converged, "")
		again.end()
	})
}

var _ json.Marshaler = badAction{}

// badAction does what its code says when it is encoded.
type badAction struct{ do func() }

func (badAction) ActionName() string             { return "bad" }
func (a badAction) MarshalJSON() ([]byte, error) { a.do(); return []byte("1"), nil }
