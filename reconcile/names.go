package reconcile

import (
	"context"
	"time"

	"github.com/steadyfleet/steady/reconcile/engine"
)

// IsConverged decides that the world is as desired, or gone where it is to be deleted.
func IsConverged(r Reason) Decision { return engine.IsConverged(r) }

// Do decides to take one action.
func Do(a Action, r Reason) Decision { return engine.Do(a, r) }

// Wait decides to do nothing until something triggers a turn.
func Wait(r Reason) Decision { return engine.Wait(r) }

// WaitUntil is Wait with a turn at t at the latest.
func WaitUntil(t time.Time, r Reason) Decision { return engine.WaitUntil(t, r) }

// Fail decides that this cannot converge as things are.
func Fail(r Reason) Decision { return engine.Fail(r) }

// Because makes a Reason: a code for programs, a message for people.
func Because(code Code, message string) Reason { return engine.NewReason(code, message) }

// Upsert is the intent that ref be present as desired, which is encoded as JSON.
func Upsert(ref Ref, desired any) Intent { return engine.Upsert(ref, desired) }

// Delete is the intent that ref be gone.
func Delete(ref Ref) Intent { return engine.Delete(ref) }

// Retry is the intent that ref start its attempts afresh, keeping its generation.
func Retry(ref Ref) Intent { return engine.Retry(ref) }

// Acknowledge is the intent that the alert of ref need no longer be shown.
func Acknowledge(ref Ref, note string) Intent { return engine.Acknowledge(ref, note) }

// By is the cause of what a person, or the owner of a root, asked for.
func By(id string) Cause { return Cause{Trigger: TriggerOperator, ID: id} }

// Every is the policy of a kind that is observed each d, and repaired.
func Every(d time.Duration) Policy { return Policy{Resync: d} }

// Kind is a kind of resources, to be registered.
type Kind func(*Controller) error

// Of is the kind of that name which m reconciles.
func Of[D, O any](name string, m Reconciler[D, O], p Policy) Kind {
	return func(c *Controller) error { return Register(c, name, m, p) }
}

// Run runs the kinds over a store until ctx ends. It is for programs that set what is desired
// through the store; others make a Controller with New.
func Run(ctx context.Context, store Store, kinds ...Kind) error {
	c := New(store)
	for _, k := range kinds {
		if err := k(c); err != nil {
			return err
		}
	}
	return c.Run(ctx)
}
