package reconcile_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/memory"
)

// lease is a kind of things that end by themselves and are renewed before: each act makes it last an hour.
type lease struct {
	mu    sync.Mutex
	ends  map[string]time.Time
	fails int // acts to come that fail
	acts  int
}

type renew struct{}

func (renew) ActionName() string { return "renew" }

func (l *lease) Observe(_ context.Context, r reconcile.Resource[string]) (time.Time, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ends[r.Ref.ID], nil
}

func (l *lease) Decide(v reconcile.View[string, time.Time]) reconcile.Decision {
	if early := v.Observed.Add(-10 * time.Minute); v.Now.Before(early) {
		return reconcile.IsConverged(reconcile.Because("valid", "")).RequeueAt(early)
	}
	return reconcile.Do(renew{}, reconcile.Because("ends-soon", "it ends soon"))
}

func (l *lease) Act(_ context.Context, r reconcile.Resource[string], _ reconcile.Action) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.acts++; l.fails > 0 {
		l.fails--
		return errors.New("the issuer is away")
	}
	l.ends[r.Ref.ID] = time.Now().Add(time.Hour)
	return nil
}

// TestTheZeroPolicyDoesWhatTimeAsksFor: what is renewed in time is renewed under a policy that says
// nothing, is repaired when it is gone, and ten failures do not end it.
func TestTheZeroPolicyDoesWhatTimeAsksFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		l := &lease{ends: map[string]time.Time{}}
		c := reconcile.New(memory.New(), reconcile.WithWorkers(1))
		testkit.Must(t, reconcile.Register(c, "lease", l, reconcile.Policy{}))
		ref := reconcile.Ref{Kind: "lease", ID: "a"}
		testkit.Value(c.Apply(ctx, reconcile.Upsert(ref, "x"), reconcile.By("me")))(t)
		go func() { _ = c.Run(ctx) }()
		pass(24 * time.Hour)
		synctest.Wait()
		if row := testkit.Value(c.Get(ctx, ref))(t); row.Phase != reconcile.Converged || l.acts < 28 || !time.Now().Before(l.ends["a"]) {
			t.Errorf("after a day it is %s (%s) with %d renewals", row.Phase, row.Reason, l.acts)
		}
		l.mu.Lock()
		l.fails = 9 // more than a life has
		l.mu.Unlock()
		pass(time.Hour)
		synctest.Wait()
		if row := testkit.Value(c.Get(ctx, ref))(t); row.Phase != reconcile.Converged || !time.Now().Before(l.ends["a"]) {
			t.Errorf("after nine failures it is %s (%s)", row.Phase, row.Reason)
		}
	})
}

// TestWhatWasGivenUpNeedsAPersonUntilItConverged: another life is counted and does not take the
// resource off the list, nor does it raise the alert again.
func TestWhatWasGivenUpNeedsAPersonUntilItConverged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		l, alerts := &lease{ends: map[string]time.Time{}, fails: 13}, 0
		c := reconcile.New(memory.New(), reconcile.WithAfterCommit(func(ts []reconcile.Transition) {
			for _, t := range ts {
				if t.Alert {
					alerts++
				}
			}
		}))
		testkit.Must(t, reconcile.Register(c, "lease", l, reconcile.Policy{}))
		ref := reconcile.Ref{Kind: "lease", ID: "a"}
		testkit.Value(c.Apply(ctx, reconcile.Upsert(ref, "x"), reconcile.By("me")))(t)
		go func() { _ = c.Run(ctx) }()
		for _, at := range []struct {
			after time.Duration
			lives int
			acts  int
			needs int
		}{{time.Minute, 0, 5, 1}, {5*time.Minute + 2*time.Second, 1, 8, 1}, {8 * time.Minute, 1, 10, 1}, {20 * time.Minute, 0, 14, 0}} {
			pass(at.after)
			synctest.Wait()
			row := testkit.Value(c.Get(ctx, ref))(t)
			l.mu.Lock()
			acts := l.acts
			l.mu.Unlock()
			if rows := testkit.Value(c.Attention(ctx))(t); len(rows) != at.needs || row.Lives() != at.lives || acts < at.acts {
				t.Errorf("%s later: %d lives, %d acts, %d need a person (%s), want %+v", at.after, row.Lives(), acts, len(rows), row.Phase, at)
			}
		}
		if alerts != 1 {
			t.Errorf("%d alerts, want one", alerts)
		}
	})
}

// TestOnlyWhatRanOutOfAttemptsBeginsAfresh: the zero policy leaves other failures as they are.
func TestOnlyWhatRanOutOfAttemptsBeginsAfresh(t *testing.T) {
	for name, kind := range map[string]struct {
		err    error
		policy reconcile.Policy
		intent func(reconcile.Intent) reconcile.Intent
		tries  int
	}{
		"a terminal error":           {err: reconcile.Terminal("no-such-plan", errors.New("no such plan")), tries: 1},
		"a deadline":                 {err: errors.New("away"), tries: 5, intent: func(in reconcile.Intent) reconcile.Intent { return in.WithConvergeBy(time.Now().Add(2 * time.Minute)) }},
		"a deadline in a later life": {err: errors.New("away"), tries: 10, intent: func(in reconcile.Intent) reconcile.Intent { return in.WithConvergeBy(time.Now().Add(7 * time.Minute)) }},
		"a policy that has it":       {err: errors.New("away"), tries: 5, policy: reconcile.Policy{Revive: reconcile.Never}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				tries := 0
				c := reconcile.New(memory.New())
				testkit.Must(t, reconcile.Register(c, "broken", faulty{kind.err, &tries}, kind.policy))
				in := reconcile.Upsert(reconcile.Ref{Kind: "broken", ID: "a"}, 1)
				if kind.intent != nil {
					in = kind.intent(in)
				}
				testkit.Value(c.Apply(ctx, in, reconcile.By("me")))(t)
				go func() { _ = c.Run(ctx) }()
				pass(72 * time.Hour)
				synctest.Wait()
				if row := testkit.Value(c.Get(ctx, in.Ref))(t); row.Phase != reconcile.Failed || tries != kind.tries {
					t.Errorf("it is %s (%s) after %d attempts, want failed after %d", row.Phase, row.Reason, tries, kind.tries)
				}
			})
		})
	}
}

// faulty is a kind whose acts fail.
type faulty struct {
	err   error
	tries *int
}

func (faulty) Observe(context.Context, reconcile.Resource[int]) (int, error) { return 0, nil }

func (faulty) Decide(reconcile.View[int, int]) reconcile.Decision {
	return reconcile.Do(put{}, reconcile.Because("absent", ""))
}

func (b faulty) Act(context.Context, reconcile.Resource[int], reconcile.Action) error {
	*b.tries++
	return b.err
}

// TestTheTurnAfterAnActIsAskedForByIt, and that after a failure by the retry.
func TestTheTurnAfterAnActIsAskedForByIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		c := reconcile.New(memory.New())
		testkit.Must(t, reconcile.Register(c, "lease", &lease{ends: map[string]time.Time{}, fails: 1}, reconcile.Policy{}))
		ref := reconcile.Ref{Kind: "lease", ID: "a"}
		testkit.Value(c.Apply(ctx, reconcile.Upsert(ref, "x"), reconcile.By("me")))(t)
		go func() { _ = c.Run(ctx) }()
		testkit.Must(t, c.WaitConverged(ctx, ref))
		var got []string
		for _, x := range testkit.Value(c.Explain(ctx, ref))(t).History {
			got = append(got, string(x.To)+" "+x.Causes[0].Trigger.String())
		}
		want := []string{"acting retry", "verifying retry", "converged act"}
		if d := cmp.Diff(want, got[max(0, len(got)-3):]); d != "" {
			t.Error(d)
		}
	})
}
