package reconcile

import (
	"context"
	"log/slog"
	"time"

	"github.com/steadyfleet/steady/reconcile/engine"
)

// Repair is a repair that is about to begin: an act on a generation that had
// converged before.
type Repair struct {
	Ref        engine.Ref
	Parent     engine.Ref
	Generation int64
	Action     engine.Action
	Reason     engine.Reason
	Causes     []engine.Cause
}

// Option configures a Controller.
type Option func(*config)

type config struct {
	now      func() time.Time
	workers  int
	log      *slog.Logger
	gate     func(context.Context, Repair) *engine.Block
	after    func([]engine.Transition)
	orphans  func(kind string, refs []engine.Ref)
	debounce time.Duration
	grace    time.Duration // for calls that run when the controller stops
	pure     bool
	lenient  bool           // unknown fields of desired state are passed over
	recorder func(Recorded) // nil: none, as the two below
	metrics  Metrics
	tracer   Tracer
}

func defaults() config {
	return config{
		now:     whole(time.Now),
		workers: 8,
		grace:   5 * time.Second,
		log:     slog.New(slog.DiscardHandler),
	}
}

// WithNow sets the clock; the default is time.Now. Timers always come from the time
// package, and now must advance with them. Nothing finer than a millisecond is kept.
func WithNow(now func() time.Time) Option { return func(c *config) { c.now = whole(now) } }

// whole makes a clock of one that gives whole milliseconds in UTC, as rows keep them.
func whole(now func() time.Time) func() time.Time {
	return func() time.Time { return now().UTC().Truncate(time.Millisecond) }
}

// WithStopGrace is for how long Run waits at its end for calls of reconcilers whose context it
// cancelled; the default is five seconds. What has not returned then is logged, and left behind.
func WithStopGrace(d time.Duration) Option { return func(c *config) { c.grace = d } }

// WithWorkers bounds the turns that run at once; the default is 8. While all of them are busy for a
// second, each kind of which none runs has one more, so that the acts of one kind do not keep
// the others waiting.
func WithWorkers(n int) Option { return func(c *config) { c.workers = max(1, n) } }

// WithLogger sets the logger; the default discards. Error is for what needs a person: a
// resource that failed, one that did not converge by its deadline, one that was orphaned, a panic,
// a store that fails, a kind that has no reconciler. Warn is for what is tried again: acts and
// observations that fail, acts past their timeout, drift that is not repaired. Info is for what
// begins afresh, Debug for every other transition. Each line has the ref and a code. Of one kind
// and code at most ten lines a minute are written; how many were left out is in the next one.
func WithLogger(l *slog.Logger) Option { return func(c *config) { c.log = l } }

// WithRepairGate asks gate before every repair; nil lets it run, a block keeps it
// back until then or until a trigger. The gate runs on a worker: a slow one delays
// only that resource. Observe, Decide and it have ObserveTimeout together. A blocked repair is shown as Drifted.
func WithRepairGate(gate func(context.Context, Repair) *engine.Block) Option {
	return func(c *config) { c.gate = gate }
}

// WithAfterCommit calls f with the transitions of each commit, after it is
// durable, from the goroutine that committed. f must not block.
func WithAfterCommit(f func([]engine.Transition)) Option { return func(c *config) { c.after = f } }

// WithOrphans calls f with what the kinds' OrphanListers found that no row declares,
// after start and then at each housekeeping. f must not block.
func WithOrphans(f func(kind string, refs []engine.Ref)) Option {
	return func(c *config) { c.orphans = f }
}

// WithDebounce delays turns asked for by external events, so that a burst makes
// one turn; operators are never delayed. The default is no delay.
func WithDebounce(d time.Duration) Option { return func(c *config) { c.debounce = d } }

// WithPurityChecks makes the controller call Decide twice and fail the turn if the
// answers differ or the view was changed. For tests and simulations.
func WithPurityChecks() Option { return func(c *config) { c.pure = true } }
