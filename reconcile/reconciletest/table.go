// Package reconciletest has tests for authors of reconcilers: cases of Decide, a controller on a
// clock that a test moves, a crash at every step, and decisions of production made again.
package reconciletest

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/steadyfleet/steady/reconcile"
)

// Table has cases of one Decide.
type Table[D, O any] []Case[D, O]

// Case is a view and what is decided on it.
type Case[D, O any] struct {
	Name     string
	View     reconcile.View[D, O]
	Decision string             // its name: converged, do, wait or fail
	Action   reconcile.Action   // of a do; the same if name and encoding are
	Code     reconcile.Code     // of the reason
	Children []reconcile.Intent // in order; not looked at if nil
}

// Run decides each case, in a subtest of its own. It decides twice: the same view has to give the
// same decision, and has to stay as it is.
func (cases Table[D, O]) Run(t *testing.T, m reconcile.Reconciler[D, O]) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			if err := c.check(m); err != nil {
				t.Error(err)
			}
		})
	}
}

func (c Case[D, O]) check(m reconcile.Reconciler[D, O]) error {
	d, err := reconcile.DecideTwice(m, c.View)
	if err != nil {
		return err
	}
	if d.Name() != c.Decision || d.Reason().Code != c.Code {
		err = fmt.Errorf("decided %s (%s), want %s (%s)", d.Name(), d.Reason(), c.Decision, c.Code)
	}
	err = errors.Join(err, same("action", name(d.Action()), name(c.Action)))
	if c.Children != nil {
		err = errors.Join(err, same("children", append([]reconcile.Intent{}, d.Children()...), c.Children))
	}
	return err
}

// name is an action as it is recorded.
func name(a reconcile.Action) any {
	if a == nil {
		return nil
	}
	return []any{a.ActionName(), a}
}

func same(what string, got, want any) error {
	g, err := json.Marshal(got)
	w, failed := json.Marshal(want)
	if err := errors.Join(err, failed); err != nil {
		return fmt.Errorf("encode the %s: %w", what, err)
	}
	if string(g) != string(w) {
		return fmt.Errorf("%s %s, want %s", what, g, w)
	}
	return nil
}

// Replay decides recorded views again, such as reconcile.WithRecorder gave in production, and
// fails the test where the decision is no longer the one that was recorded.
func Replay[D, O any](t *testing.T, m reconcile.Reconciler[D, O], recorded ...reconcile.Recorded) {
	t.Helper()
	for _, r := range recorded {
		if err := replayed(m, r); err != nil {
			t.Error(err)
		}
	}
}

func replayed[D, O any](m reconcile.Reconciler[D, O], r reconcile.Recorded) error {
	d, same, err := reconcile.Replay(m, r)
	if err != nil || same {
		return err
	}
	now, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("encode the decision on %s: %w", r.Ref, err)
	}
	return fmt.Errorf("%s at revision %d: decided\n%s\nrecorded\n%s", r.Ref, r.Revision, now, r.Decision)
}
