package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/steadyfleet/steady/reconcile/engine"
)

// ErrSteps: so many acts did not bring a resource to rest.
var ErrSteps = errors.New("not at rest after as many steps as may be")

// ActError is an error of Act that Drive met.
type ActError struct {
	Action string
	Err    error
}

func (e *ActError) Error() string { return e.Action + ": " + e.Err.Error() }

// Unwrap is the error of Act.
func (e *ActError) Unwrap() error { return e.Err }

// Drive takes one resource through observe, decide and act, with no controller and
// no store, until the decision is not to act, and returns that decision. It is for
// what is done once and reported to whoever waits for it: nothing is recorded,
// retried or bounded in time but by ctx, and intents for children are not applied.
// It fails with an error of Observe, with an *ActError, or with ErrSteps.
func Drive[D, O any](ctx context.Context, m Reconciler[D, O], r engine.Resource[D], now func() time.Time, steps int) (d engine.Decision, err error) {
	for range steps {
		err = protect("Drive", func() error {
			o, err := m.Observe(ctx, r)
			if err != nil {
				return err
			}
			d = m.Decide(engine.View[D, O]{Resource: r, Observed: o, Now: whole(now)()})
			if a := d.Action(); a != nil {
				if err := m.Act(ctx, r, a); err != nil {
					return &ActError{a.ActionName(), err}
				}
			}
			return nil
		})
		if err != nil || d.Action() == nil {
			return d, err
		}
	}
	return d, fmt.Errorf("%s: %w: %d", r.Ref, ErrSteps, steps)
}
