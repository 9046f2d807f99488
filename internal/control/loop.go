package control

import (
	"context"
	"fmt"
	"time"

	"github.com/steadyfleet/steady/internal/control/refusal"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/store"
)

// Bounds of the reducer's queues and of one turn.
const (
	wordQueue   = 64 // operators' words; nothing that hosts send can fill it
	urgentQueue = 4096
	normalQueue = 4096
	queryQueue  = 256
	maxTurn     = 2000 // entries from inputs, about
	fullPause   = time.Second
	termPause   = clock.Second // between two raises of the term
)

// input is one request to the reducer. It is answered after what it decided,
// and everything decided before it, is durable.
type input struct {
	// apply decides, folding into the state and adding to the turn. An error
	// that is a refusal means that it did neither.
	apply func(*turn) error
	// after, if set, hears the outcome, in the reducer.
	after func(error)
	// done, if set, takes the outcome; it has room for one.
	done chan error
	err  error
	// weight is about how many entries it adds, one if not set.
	weight int
}

// turn is one round of the reducer.
type turn struct {
	c         *Control
	s         *plan.State
	now       clock.Instant
	inputs    []*input
	weight    int // of the inputs
	queries   []*query
	entries   []event.Entry
	decisions []plan.Decision
}

// add takes what a decide function returned.
func (t *turn) add(entries []event.Entry, err error) error {
	for i := range entries {
		if err := t.c.applyFolds(entries[i]); err != nil {
			return err
		}
	}
	t.entries = append(t.entries, entries...)
	return err
}

// applyFolds folds an entry into what is kept beside the plan's state.
func (c *Control) applyFolds(e event.Entry) error {
	if err := c.managed.Apply(e); err != nil {
		return err
	}
	return c.health.Apply(e)
}

// submit hands an input to the reducer and waits for its outcome. When ctx ends
// first the outcome is unknown.
func (c *Control) submit(ctx context.Context, lane chan *input, apply func(*turn) error) error {
	return c.wait(ctx, lane, &input{apply: apply, done: make(chan error, 1)})
}

func (c *Control) wait(ctx context.Context, lane chan *input, in *input) error {
	select {
	case lane <- in:
	case <-ctx.Done():
		return ctx.Err()
	case <-c.stopping:
		return refusal.Newf(refusal.ErrUnavailable, "the server is stopping")
	}
	select {
	case err := <-in.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-c.stopped:
		select {
		case err := <-in.done:
			return err
		default:
			return refusal.Newf(refusal.ErrUnavailable, "the server is stopping")
		}
	}
}

// Run is the reducer. It returns nil when ctx ends, after a snapshot, and an
// error when the log cannot be appended to any more: the process must end then.
// It may be called once.
func (c *Control) Run(ctx context.Context) error {
	defer close(c.stopped)
	defer c.stop()
	defer c.watchSources(ctx)()
	defer c.watchRecovery(ctx)()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		t := &turn{c: c, s: c.state, now: c.now()}
		c.busySince.Store(0)
		goesOn := c.gather(ctx, t, timer)
		c.busySince.Store(time.Now().UnixNano())
		if err := c.cfg.Store.Err(); err != nil {
			return c.spoil(t, err)
		}
		if !goesOn {
			c.stop()
			c.savers.Wait()
			return c.lastSnapshot()
		}
		t.now = c.now()
		if err := c.turn(t); err != nil {
			return err
		}
		timer.Reset(c.untilWork())
	}
}

// gather waits for work, or for the end of the store, and takes what is queued. It returns false when ctx
// ended and nothing is left.
func (c *Control) gather(ctx context.Context, t *turn, timer *time.Timer) bool {
	select {
	case in := <-c.words:
		t.take(in)
	default:
		select {
		case in := <-c.words:
			t.take(in)
		case in := <-c.urgent:
			t.take(in)
		case in := <-c.normal:
			t.take(in)
		case q := <-c.queries:
			t.queries = append(t.queries, q)
		case <-timer.C:
		case <-c.cfg.Store.Broken():
		case <-ctx.Done():
			return false
		}
	}
	t.drain(c.words)
	t.drain(c.urgent)
	t.drain(c.normal)
	for len(t.queries) < queryQueue {
		select {
		case q := <-c.queries:
			t.queries = append(t.queries, q)
		default:
			return true
		}
	}
	return true
}

func (t *turn) take(in *input) {
	t.inputs = append(t.inputs, in)
	t.weight += max(in.weight, 1)
}

func (t *turn) drain(lane chan *input) {
	for t.weight < maxTurn {
		select {
		case in := <-lane:
			t.take(in)
		default:
			return
		}
	}
}

// turn runs one round: decide, append, answer, carry out. An error ends Run.
func (c *Control) turn(t *turn) error {
	spoiled := c.raiseTerm(t)
	if spoiled == nil {
		spoiled = c.apply(t)
	}
	if spoiled == nil {
		spoiled = c.noteExpiries(t)
	}
	if spoiled == nil {
		spoiled = c.tick(t)
	}
	if spoiled == nil && len(t.entries) > 0 {
		spoiled = c.append(t.entries)
	}
	if spoiled != nil {
		return c.spoil(t, spoiled)
	}
	c.publish(t.entries)
	c.publishCounts(len(t.entries) > 0)
	c.metrics.turns.Inc()
	for _, in := range t.inputs {
		in.finish(in.err)
	}
	for _, d := range t.decisions {
		if err := d.Action.Apply(c.applier); err != nil {
			c.cfg.Log.Error("a decision was not carried out", "type", d.Entry.Type, "host", d.Entry.Host, "err", err)
		}
	}
	c.answer(t.queries)
	c.maybeSnapshot()
	return nil
}

// raiseTerm leads under a higher term when hosts have seen a higher one than
// ours: the log was restored from a backup, and they refuse what is older.
func (c *Control) raiseTerm(t *turn) error {
	if !c.outranked || !c.raisedAt.Add(termPause).Reached(t.now) {
		return nil
	}
	c.outranked, c.raisedAt = false, t.now
	head, err := c.cfg.Store.Acquire(context.Background(), c.cfg.Holder, t.now)
	if err != nil {
		return err
	}
	if head.Seq != c.head.Seq || head.Term != c.head.Term+1 {
		return fmt.Errorf("raise the term: %w", store.ErrFenced)
	}
	c.cfg.Log.Warn("hosts have seen a higher term than the log's; leading under the next one", "term", head.Term)
	c.setHead(head)
	return nil
}

func (in *input) finish(err error) {
	if in.after != nil {
		in.after(err)
	}
	if in.done != nil {
		in.done <- err
	}
}

// tick plans when there is a reason and the last tick is long enough ago. What
// it decides goes into the same append as the inputs that caused it.
func (c *Control) tick(t *turn) error {
	start := time.Now()
	if !c.tickDue(t.now, start) {
		return nil
	}
	if c.safeMode(t.now) {
		c.tickAfter = start.Add(c.cfg.MaxTickGap.Std())
		p, err := plan.NextBack(t.s, t.now)
		t.decide(p)
		return err
	}
	if err := c.judgeHealth(t); err != nil {
		return err
	}
	p, err := plan.Next(t.s, t.now)
	if err != nil {
		return err
	}
	cost := time.Since(start)
	c.dirty, c.planNext = false, clock.Earliest(p.Next, c.health.Due())
	c.tickAfter = start.Add(min(10*cost, c.cfg.MaxTickGap.Std()))
	c.reconcileAt = t.now.Add(c.cfg.ReconcileInterval)
	c.metrics.ticks.Observe(cost.Seconds())
	t.decide(p)
	return c.prune(t)
}

// decide takes what the planner decided into the turn's append.
func (t *turn) decide(p *plan.Plan) {
	t.decisions = p.Decisions
	for i := range p.Decisions {
		t.entries = append(t.entries, p.Decisions[i].Entry)
	}
}

func (c *Control) tickDue(now clock.Instant, at time.Time) bool {
	if at.Before(c.fullUntil) {
		return false
	}
	if c.hurry {
		c.hurry, c.dirty = false, true
		return true
	}
	due := c.dirty || c.planNext.Reached(now) || c.reconcileAt.Reached(now)
	return due && !at.Before(c.tickAfter)
}

// untilWork is how long the reducer may sleep without an input.
func (c *Control) untilWork() time.Duration {
	now := c.now()
	next := clock.Earliest(clock.Earliest(c.planNext, c.reconcileAt), c.expiryAt)
	if at, ok := c.watch.Next(); ok {
		next = clock.Earliest(next, at)
	}
	d := max(0, next.Sub(now).Std())
	if c.dirty {
		d = 0
	}
	if next.Reached(now) || c.dirty {
		d = max(d, time.Until(c.tickAfter))
	}
	if c.uncounted {
		d = min(d, time.Until(c.countedAt.Add(countEvery)))
	}
	return max(d, time.Until(c.fullUntil), 0)
}

// query is a read of the state; it runs between turns.
type query struct {
	read func(*plan.State)
	done chan struct{}
}
