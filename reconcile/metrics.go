package reconcile

import (
	"context"
	"errors"
	"time"

	"github.com/steadyfleet/steady/reconcile/engine"
)

// Metrics is told what the controller does, from the goroutines that do it; its methods must
// not block, nor call the controller. Each maps to one metric of whatever library counts.
type Metrics interface {
	// Turn: one turn of a kind is over, with the name of what it decided, empty if it
	// decided nothing.
	Turn(kind, decision string, took time.Duration)
	// Act: one act is over.
	Act(kind, action string, took time.Duration, err error)
	// Move: a transition was committed.
	Move(kind string, from, to engine.Phase)
	// Queue: so many turns wait and run, when one begins.
	Queue(waiting, running int)
	// StoreFailed: the store returned an error, and the turn is taken again.
	StoreFailed(err error)
}

// measure calls what counts, if there is something. A panic of it is logged, and ends nothing.
func (l *Controller) measure(f func(Metrics)) {
	m := l.cfg.metrics
	if m == nil {
		return
	}
	l.callback("metrics", func() { f(m) })
}

// callback calls code of the controller's owner that no turn depends on.
func (l *Controller) callback(name string, f func()) {
	err := protect(name, func() error { f(); return nil })
	if p, ok := errors.AsType[*panicError](err); ok {
		l.stats.panics.Add(1)
		l.cfg.log.Error("a callback panicked", "error", err, "stack", string(p.stack))
	}
}

// WithMetrics sets what counts; the default counts nothing beside Stats.
func WithMetrics(m Metrics) Option { return func(c *config) { c.metrics = m } }

// Tracer is told when Observe and Act begin, and gives the context that they get and what to
// call when they end. A span of OpenTelemetry is one line behind it.
type Tracer interface {
	Start(ctx context.Context, span string, ref engine.Ref) (context.Context, func(error))
}

// WithTracer sets the tracer; the default traces nothing.
func WithTracer(t Tracer) Option { return func(c *config) { c.tracer = t } }

// trace runs f in a span, if there is a tracer.
func (c *config) trace(ctx context.Context, span string, ref engine.Ref, f func(context.Context) error) error {
	if c.tracer == nil {
		return f(ctx)
	}
	ctx, end := c.tracer.Start(ctx, span, ref)
	err := f(ctx)
	end(err)
	return err
}
