package reconcile

import (
	"context"

	"github.com/steadyfleet/steady/reconcile/engine"
)

// Loop runs the managers of all registered kinds over one store. Register every
// kind, then Run.
type Loop struct {
	store Store
	cfg   config
}

// New makes a loop over a store. Nothing runs before Run.
func New(store Store, opts ...Option) *Loop {
	l := &Loop{store: store, cfg: defaults()}
	for _, o := range opts {
		o(&l.cfg)
	}
	return l
}

// Register adds a kind. It fails on a bad policy, a kind twice, or after Run began.
func Register[D, O any](l *Loop, kind string, m Manager[D, O], p engine.Policy) error {
	panic("filled in by the next commit")
}

// Run enqueues every open row at the lowest priority (those left in the middle
// of an act first) and runs until ctx ends; then it cancels running acts with
// ErrStopped, waits for them, and returns nil. It may be called once.
func (l *Loop) Run(ctx context.Context) error { panic("filled in by the next commit") }

// Kick asks for a turn of ref soon. It never blocks, and may be called before Run.
// Call it after the commit of a transaction that set what is desired of ref: a
// running act of the older generation is then cancelled.
func (l *Loop) Kick(ref engine.Ref, cause engine.Cause) { panic("filled in by the next commit") }

// Apply sets what is desired of a root in a transaction of its own, and kicks.
func (l *Loop) Apply(ctx context.Context, in engine.Intent, cause engine.Cause) (engine.Change, error) {
	panic("filled in by the next commit")
}

// Explain says why ref is where it is.
func (l *Loop) Explain(ctx context.Context, ref engine.Ref) (Explanation, error) {
	panic("filled in by the next commit")
}

// Stats reads the counters.
func (l *Loop) Stats() Stats { panic("filled in by the next commit") }
