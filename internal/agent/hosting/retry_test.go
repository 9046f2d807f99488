package hosting

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/agent/state"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/wire"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
	rows "github.com/steadyfleet/steady/reconcile/sqlite"
)

// stuck is a kind of which nothing ever works but what runs already.
type stuck struct{}

func (stuck) Observe(_ context.Context, r engine.Resource[string]) (string, error) {
	return r.Desired, nil
}

func (stuck) Decide(v engine.View[string, string]) engine.Decision {
	if v.Observed == "runs" {
		return engine.IsConverged(engine.Reason{})
	}
	return engine.Do(start{}, engine.NewReason("down", ""))
}

func (stuck) Act(context.Context, engine.Resource[string], engine.Action) error {
	return reconcile.Terminal("no", errors.New("it is broken"))
}

type start struct{}

func (start) ActionName() string { return "start" }

// openRows opens the state folder of a host and the rows in it.
func openRows(t *testing.T) (store *state.Store, kept *rows.Store) {
	t.Helper()
	store = testkit.Value(state.Open(t.Context(), t.TempDir(), state.Options{Light: true, Migrate: func(ctx context.Context, db *sql.DB, tx *sql.Tx) error {
		kept = rows.New(db)
		return kept.Migrate(ctx, tx)
	}}))(t)
	t.Cleanup(func() { _ = store.Close() })
	testkit.Value(kept.Open(t.Context()))(t) // prepares its statements, on the one connection
	return store, kept
}

// TestRetryBeginsAnewOnce gives a host the same retries again and again, as its
// server does: each is carried out once, of what was given up alone.
func TestRetryBeginsAnewOnce(t *testing.T) {
	store, kept := openRows(t)
	failed := make(chan string, 16)
	loop := reconcile.New(kept, reconcile.WithAfterCommit(func(ts []engine.Transition) {
		for _, t := range ts {
			if t.To == engine.Failed {
				failed <- t.Ref.ID
			}
		}
	}))
	testkit.Must(t, reconcile.Register(loop, "k", stuck{}, engine.Policy{}))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- loop.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	for id, is := range map[string]string{"a": "down", "b": "down", "good": "runs"} {
		testkit.Value(loop.Apply(ctx, engine.Upsert(engine.Ref{Kind: "k", ID: id}, is), engine.Cause{Trigger: engine.TriggerOperator}))(t)
	}
	h := &Hosting{o: Options{Store: store, Rows: kept, Loop: loop, Now: func() clock.Instant { return clock.FromTime(time.Now()) }}}
	tried := func(want ...string) {
		t.Helper()
		var got []string
		for range want {
			select {
			case id := <-failed:
				got = append(got, id)
			case <-time.After(time.Minute):
				t.Fatalf("only %v were tried of %v", got, want)
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) || len(failed) > 0 {
			t.Fatalf("%v and %d more were tried, expected %v", got, len(failed), want)
		}
	}
	tried("a", "b")
	retry := func(list ...wire.Retry) {
		t.Helper()
		testkit.Must(t, h.retry(ctx, list))
	}
	one, all := wire.Retry{Resource: "k/a", Nonce: "1"}, wire.Retry{Nonce: "2"}
	retry(one)
	tried("a")
	retry(one)
	tried()
	retry(one, all)
	tried("a", "b")
	retry(all) // the server has forgotten the first
	retry(all)
	tried()
}
