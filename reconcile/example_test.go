package reconcile_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// lamp is what is desired of a lamp; its observed state is whether it is lit.
type lamp struct{ On bool }

// toggle is the only action on a lamp.
type toggle struct {
	To bool `json:"to"`
}

func (toggle) ActionName() string { return "toggle" }

// lamps manages lamps. Absent and dark are the same for a lamp.
type lamps struct {
	mu  sync.Mutex
	lit map[string]bool
}

func (l *lamps) Observe(_ context.Context, r engine.Resource[lamp]) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lit[r.Ref.ID], nil
}

func (l *lamps) Decide(v engine.View[lamp, bool]) engine.Decision {
	want := v.Resource.Desired.On && !v.Resource.Delete
	if v.Observed == want {
		return engine.IsConverged(engine.NewReason("as-desired", ""))
	}
	return engine.Do(toggle{To: want}, engine.NewReason("wrong-state", "the lamp is not as desired"))
}

func (l *lamps) Act(_ context.Context, r engine.Resource[lamp], a engine.Action) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lit[r.Ref.ID] = a.(toggle).To
	return nil
}

func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	converged := make(chan engine.Transition, 1)
	dir, err := os.MkdirTemp("", "lamps")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	db, store, err := open(filepath.Join(dir, "rows.db"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	loop := reconcile.New(store, reconcile.WithAfterCommit(func(ts []engine.Transition) {
		for _, t := range ts {
			if fmt.Println(t.Ref, t.To, t.Reason.Code); t.To == engine.Converged {
				converged <- t
			}
		}
	}))
	if err := reconcile.Register(loop, "lamp", &lamps{lit: map[string]bool{}}, engine.Policy{OnDrift: engine.Enforce}); err != nil {
		fmt.Println(err)
		return
	}
	desk := engine.Ref{Kind: "lamp", ID: "desk"}
	if _, err := loop.Apply(ctx, engine.Upsert(desk, lamp{On: true}), engine.Cause{Trigger: engine.TriggerOperator, ID: "me"}); err != nil {
		fmt.Println(err)
		return
	}
	done := make(chan error)
	go func() { done <- loop.Run(ctx) }()
	<-converged
	stop()
	fmt.Println("stopped:", <-done)
	// Output:
	// lamp/desk pending desired-changed
	// lamp/desk acting wrong-state
	// lamp/desk verifying acted
	// lamp/desk converged as-desired
	// stopped: <nil>
}
