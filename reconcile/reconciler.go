package reconcile

import (
	"context"
	"errors"

	"github.com/steadyfleet/steady/reconcile/engine"
)

// Reconciler knows one kind of resource, with desired state D and observed state O.
//
// Observe reads the world and never writes, nor changes its resource, which later
// turns share. Decide is pure and total: the same view gives the same decision,
// and the view is not changed. Act writes the
// world, is idempotent, and is believed only after the next Observe; its
// context ends at the act's deadline, when the desired state changes
// (ErrSuperseded) or when the controller stops.
//
// Errors of Observe and Act are transient and counted unless made by Terminal
// or Blocked. A panic is an error too.
type Reconciler[D, O any] interface {
	Observe(ctx context.Context, r engine.Resource[D]) (O, error)
	Decide(v engine.View[D, O]) engine.Decision
	Act(ctx context.Context, r engine.Resource[D], a engine.Action) error
}

// BulkObserver is an optional part of a Reconciler whose kind can be listed
// cheaply. Turns that only startup or resync asked for are answered from one
// listing, at most a second old, provided no act of the kind ended since it
// began; a resource that is not in it is observed alone, as are all other turns.
// So is one whose generation is another than when Observe last answered for it:
// ObserveAll may compare with what was desired then.
type BulkObserver[O any] interface {
	ObserveAll(ctx context.Context) (map[engine.Ref]O, error)
}

// OrphanLister is an optional part of a Reconciler: Orphans lists things in the world
// for which no resource is declared. It is asked only after every row has been
// loaded; the controller reports them (WithOrphans) and removes nothing by itself.
type OrphanLister interface {
	Orphans(ctx context.Context) ([]engine.Ref, error)
}

// Causes of a cancelled act's context, readable with context.Cause.
var (
	ErrSuperseded = errors.New("the desired state changed while the act was running")
	ErrActTimeout = errors.New("the act ran past its deadline")
	ErrStopped    = errors.New("the controller stopped")
)

type terminalError struct {
	code engine.Code
	err  error
}

func (e *terminalError) Error() string { return e.err.Error() }
func (e *terminalError) Unwrap() error { return e.err }

// Terminal marks an error that no retry can cure: the generation fails now.
func Terminal(code engine.Code, err error) error { return &terminalError{code, err} }

type blockedError struct{ reason engine.Reason }

func (e *blockedError) Error() string { return "blocked: " + e.reason.String() }

// Blocked says that nothing is wrong with the resource but it has to wait, for
// example for a daemon that is away. It is not counted as an attempt. The next one
// comes after the longest back-off, or at a trigger if that is earlier.
func Blocked(reason engine.Reason) error { return &blockedError{reason} }

// IsBlocked reports whether err was made by Blocked, and its reason.
func IsBlocked(err error) (engine.Reason, bool) {
	if b, ok := errors.AsType[*blockedError](err); ok {
		return b.reason, true
	}
	return engine.Reason{}, false
}
