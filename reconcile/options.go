package reconcile

import (
	"context"
	"log/slog"
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
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

// Hold keeps a repair back until the instant (0: until a trigger), with the
// reason shown by Explain. The zero Hold lets it run.
type Hold struct {
	Until  engine.Instant
	Reason engine.Reason
}

// Option configures a Loop.
type Option func(*config)

type config struct {
	now      func() clock.Instant
	workers  int
	log      *slog.Logger
	gate     func(context.Context, Repair) Hold
	after    func([]engine.Transition)
	orphans  func(kind string, refs []engine.Ref)
	debounce clock.Duration
	pure     bool
}

func defaults() config {
	return config{
		now:     func() clock.Instant { return clock.FromTime(time.Now()) },
		workers: 8,
		log:     slog.New(slog.DiscardHandler),
	}
}

// WithNow sets the source of instants; the default is Unix time. Timers always
// come from the time package, and Now must advance with them.
func WithNow(now func() clock.Instant) Option { return func(c *config) { c.now = now } }

// WithWorkers bounds the turns that run at once; the default is 8.
func WithWorkers(n int) Option { return func(c *config) { c.workers = max(1, n) } }

// WithLogger sets the logger; the default discards.
func WithLogger(l *slog.Logger) Option { return func(c *config) { c.log = l } }

// WithRepairGate asks gate before every repair. It runs on a worker; a slow
// gate holds up only that resource. A held repair is shown as Drifted.
func WithRepairGate(gate func(context.Context, Repair) Hold) Option {
	return func(c *config) { c.gate = gate }
}

// WithAfterCommit calls f with the transitions of each commit, after it is
// durable, from the goroutine that committed. f must not block.
func WithAfterCommit(f func([]engine.Transition)) Option { return func(c *config) { c.after = f } }

// WithOrphans calls f with what the kinds' Pruners found that no row declares,
// after start and then at each housekeeping. f must not block.
func WithOrphans(f func(kind string, refs []engine.Ref)) Option {
	return func(c *config) { c.orphans = f }
}

// WithDebounce delays turns asked for by external events, so that a burst makes
// one turn; operators are never delayed. The default is no delay.
func WithDebounce(d clock.Duration) Option { return func(c *config) { c.debounce = d } }

// WithPurityChecks makes the loop call Decide twice and fail the turn if the
// answers differ or the view was changed. For tests and simulations.
func WithPurityChecks() Option { return func(c *config) { c.pure = true } }
