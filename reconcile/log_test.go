package reconcile_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/memory"
)

// logged runs one resource of a kind for a time, and gives what was logged above Debug.
func logged(t *testing.T, m reconcile.Reconciler[int, int], p reconcile.Policy, n int, set func(reconcile.Intent) reconcile.Intent, d time.Duration) (out string) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		ctx, stop := context.WithCancel(t.Context())
		c := reconcile.New(memory.New(), reconcile.WithWorkers(1), reconcile.WithLogger(slog.New(slog.NewTextHandler(&b, nil))))
		testkit.Must(t, reconcile.Register(c, "k", m, p))
		for i := range n {
			testkit.Value(c.Apply(ctx, set(reconcile.Upsert(reconcile.Ref{Kind: "k", ID: fmt.Sprint(i)}, 1)), reconcile.By("me")))(t)
		}
		done := make(chan error)
		go func() { done <- c.Run(ctx) }()
		pass(d)
		stop()
		testkit.Must(t, <-done)
		out = b.String()
	})
	return out
}

// stuckAct is a kind whose acts end with their context; it is as desired when it is deleted only if gone.
type stuckAct struct{ faulty }

func (stuckAct) Act(ctx context.Context, _ reconcile.Resource[int], _ reconcile.Action) error {
	<-ctx.Done()
	return ctx.Err()
}

// unseen is a kind that cannot be observed.
type unseen struct{ faulty }

func (unseen) Observe(context.Context, reconcile.Resource[int]) (int, error) {
	return 0, errors.New("no route to it")
}

// TestWhatFailsIsLogged: each way to fail has a line with its level, the resource and the code.
func TestWhatFailsIsLogged(t *testing.T) {
	tries := 0
	away := faulty{errors.New("it is away"), &tries}
	same := func(in reconcile.Intent) reconcile.Intent { return in }
	for name, c := range map[string]struct {
		kind   reconcile.Reconciler[int, int]
		policy reconcile.Policy
		set    func(reconcile.Intent) reconcile.Intent
		want   []string
	}{
		"an act":           {away, reconcile.Policy{}, same, []string{"level=WARN", "ref=k/0 code=act-failed", "it is away", "attempt=1"}},
		"all attempts":     {away, reconcile.Policy{}, same, []string{"level=ERROR", "code=attempts-exhausted", "gave up after 5 attempts"}},
		"another life":     {away, reconcile.Policy{}, same, []string{"level=INFO", "code=revived"}},
		"an observation":   {unseen{away}, reconcile.Policy{}, same, []string{"code=observe-failed", "no route to it"}},
		"a terminal error": {faulty{reconcile.Terminal("no-plan", errors.New("no such plan")), &tries}, reconcile.Policy{}, same, []string{"level=ERROR", "code=no-plan"}},
		"a timeout":        {stuckAct{away}, reconcile.Policy{}, same, []string{"level=WARN", "ran past its timeout", "code=act-timeout"}},
		"a deadline": {away, reconcile.Policy{Retry: reconcile.RetryPolicy{Max: 100}}, func(in reconcile.Intent) reconcile.Intent {
			return in.WithConvergeBy(time.Now().Add(time.Minute))
		}, []string{"level=ERROR", "code=converge-deadline", "did not converge by its deadline"}},
		"an orphan": {away, reconcile.Policy{}, func(in reconcile.Intent) reconcile.Intent {
			return in.WithNotAfter(time.Now().Add(time.Minute))
		}, []string{"level=ERROR", "code=cleanup-deadline", "left to a person"}},
	} {
		t.Run(name, func(t *testing.T) {
			out := logged(t, c.kind, c.policy, 1, c.set, time.Hour)
			for _, want := range c.want {
				if !strings.Contains(out, want) {
					t.Errorf("the log has no %q:\n%s", want, out)
				}
			}
		})
	}
}

// TestTheLogIsBounded: a thousand resources that fail at once are ten lines of each code and the count of the others.
func TestTheLogIsBounded(t *testing.T) {
	tries := 0
	out := logged(t, faulty{errors.New("it is away"), &tries}, reconcile.Policy{Retry: reconcile.RetryPolicy{Max: 1}, Revive: reconcile.Never}, 1000,
		func(in reconcile.Intent) reconcile.Intent { return in }, 30*time.Second)
	lines := strings.Count(out, "\n")
	if n := strings.Count(out, "left_out=990"); lines != 22 || n != 2 {
		t.Errorf("%d lines, %d of them with the 990 that were left out: want ten of each code and two counts\n%s", lines, n, out)
	}
}
