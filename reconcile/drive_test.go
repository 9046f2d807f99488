package reconcile_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

func TestDrive(t *testing.T) {
	lit := func() *lamps { return &lamps{lit: map[string]bool{}} }
	desk := engine.Resource[lamp]{Ref: engine.Ref{Kind: "lamp", ID: "desk"}, Desired: lamp{On: true}}
	l := lit()
	if d, err := reconcile.Drive(t.Context(), l, desk, time.Now, 2); err != nil || d.Name() != "converged" || !l.lit["desk"] {
		t.Errorf("%s (%s), %v: lit %v", d.Name(), d.Reason(), err, l.lit)
	}
	if _, err := reconcile.Drive(t.Context(), lit(), desk, time.Now, 1); !errors.Is(err, reconcile.ErrSteps) {
		t.Errorf("ended with %v", err)
	}
	broken := odd{
		decide: func(engine.View[leaf, int]) engine.Decision { return engine.Do(write{"x"}, engine.Reason{}) },
		act:    func(context.Context) error { return errBroken },
	}
	_, err := reconcile.Drive(t.Context(), broken, engine.Resource[leaf]{Ref: oddRef}, time.Now, 3)
	if failed := new(reconcile.ActError); !errors.As(err, &failed) || failed.Action != "write" || !errors.Is(err, errBroken) {
		t.Errorf("ended with %v", err)
	}
	broken.act = func(context.Context) error { panic("no") }
	if _, err := reconcile.Drive(t.Context(), broken, engine.Resource[leaf]{Ref: oddRef}, time.Now, 3); err == nil || !strings.Contains(err.Error(), "panic") {
		t.Errorf("ended with %v", err)
	}
}
