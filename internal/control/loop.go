package control

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/steadyfleet/steady/internal/control/streams"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/store"
	"github.com/steadyfleet/steady/internal/wire"
)

// Bounds of the reducer's queues and of one turn.
const (
	operatorQueue = 64 // operators' requests; nothing that hosts send can fill it
	urgentQueue   = 4096
	normalQueue   = 4096
	queryQueue    = 256
	maxTurn       = 2000 // entries from inputs, about
)

// input is one request to the reducer. It is answered after what it decided,
// and everything decided before it, is durable.
type input struct {
	server.Input
	// after, if set, is called with the outcome, in the reducer.
	after func(error)
	// done, if set, takes the outcome; it has room for one.
	done chan error
	err  error
	// weight is about how many entries it adds, one if not set.
	weight int
}

// turn is one round of the reducer.
type turn struct {
	server.Turn
	inputs  []*input
	weight  int // of the inputs
	queries []*query
}

// submit hands an input to the reducer and waits for its outcome. When ctx ends
// first the outcome is unknown.
func (c *Control) submit(ctx context.Context, lane chan *input, in server.Input) error {
	return c.wait(ctx, lane, &input{Input: in, done: make(chan error, 1)})
}

// record has events recorded that decide makes of the committed state.
func (c *Control) record(ctx context.Context, lane chan *input, host string, decide func(*server.State, clock.Instant) ([]event.Event, error)) error {
	return c.submit(ctx, lane, server.Record{Host: host, Decide: decide})
}

func (c *Control) wait(ctx context.Context, lane chan *input, in *input) error {
	return hand(ctx, c, lane, in, in.done, ctx.Done())
}

// hand gives the reducer something to do and waits until it is done, or until gone is
// closed.
func hand[T any](ctx context.Context, c *Control, lane chan<- T, in T, done <-chan error, gone <-chan struct{}) error {
	select {
	case lane <- in:
	case <-ctx.Done():
		return ctx.Err()
	case <-c.stopping.Done():
		return wire.Refuse(wire.ErrUnavailable, "the server is stopping")
	}
	select {
	case err := <-done:
		return err
	case <-gone:
		return ctx.Err()
	case <-c.stopped:
	}
	select {
	case err := <-done:
		return err
	default:
		return wire.Refuse(wire.ErrUnavailable, "the server is stopping")
	}
}

// background runs something while the reducer does, and returns what ends it.
func background(ctx context.Context, run func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { run(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}

// Run is the reducer. It returns nil when ctx ends, after a snapshot, and an
// error when the log cannot be appended to any more: the process must end then.
// It may be called once.
func (c *Control) Run(ctx context.Context) error {
	defer background(ctx, c.runSessions)() // what they ask the reducer ends with it
	defer close(c.stopped)
	defer c.stop(streams.ErrStopping)
	defer background(ctx, c.watchSources)()
	defer background(ctx, c.watchOwner)()
	defer background(ctx, c.watchLog)()
	defer background(ctx, c.watchStore)()
	defer background(ctx, c.dropGone)()
	defer background(ctx, c.watchPulse)()
	defer c.past.unused.Stop()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		t := &turn{}
		c.busySince.Store(0)
		goesOn := c.gather(ctx, t, timer)
		c.busySince.Store(time.Now().UnixNano())
		if err := c.cfg.Store.Err(); err != nil {
			return c.invalidateState(t, err)
		}
		if !goesOn {
			c.stop(streams.ErrStopping)
			c.savers.Wait()
			return c.lastSnapshot()
		}
		t.Time = c.time()
		if err := c.turn(t); err != nil {
			return err
		}
		timer.Reset(c.sleep())
	}
}

// gather waits for work, or for the end of the store, and takes what is queued. It returns false when ctx
// ended and nothing is left.
func (c *Control) gather(ctx context.Context, t *turn, timer *time.Timer) bool {
	select {
	case in := <-c.operations:
		t.take(in)
	default:
		select {
		case in := <-c.operations:
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
	t.drain(c.operations)
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
	if err := c.decide(t); err != nil {
		return c.invalidateState(t, err)
	}
	closed := c.core.SetBack() != nil
	c.publish(&t.Turn)
	if closed && c.core.SetBack() == nil {
		if err := c.reopen(); err != nil {
			return c.invalidateState(t, err)
		}
	}
	c.sessions.Committed(c.state, t.Events)
	c.countRetries(t.Events)
	c.labs.note(t.Events)
	c.publishCounts(c.labs.outdated(c.now().Time()) || len(t.Events) > 0)
	c.metrics.turns.Inc()
	for _, in := range t.inputs {
		in.finish(in.err)
	}
	c.logNotices(t.Events)
	c.answer(t.queries)
	c.maybeSnapshot()
	return nil
}

// decide steps through the inputs and what is due by time, and commits what that
// decided. After an error the state must be folded again.
func (c *Control) decide(t *turn) error {
	err := c.raiseTerm(t)
	if err == nil {
		err = c.resume(t)
	}
	if err == nil {
		err = c.apply(t)
	}
	if err == nil {
		err = c.noteExpiries(t)
	}
	if err == nil {
		err = c.tick(t)
	}
	c.carryOut(t.Effects)
	if err == nil && len(t.Events) > 0 {
		err = c.append(t.Events)
	}
	return err
}

// raiseTerm takes the lease under the next term when the server has to.
func (c *Control) raiseTerm(t *turn) error {
	host := c.core.MustRaise(t.Time)
	if host == "" {
		return nil
	}
	head, err := c.cfg.Store.Acquire(context.Background(), c.cfg.Holder, t.Now)
	if err != nil {
		return err
	}
	if head.Seq != c.head.Seq || head.Term != c.head.Term+1 {
		return fmt.Errorf("raise the term: %w", store.ErrFenced)
	}
	c.cfg.Log.Warn("hosts have seen a higher term than the log's; leading under the next one", "term", head.Term, "host", host)
	c.setHead(head)
	c.core.Raised(head.Term)
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

// tick runs the planner when it is due. What it decides goes into the same append as the
// inputs that caused it.
func (c *Control) tick(t *turn) error {
	at := t.Time
	at.Up = time.Since(c.started)
	if !c.core.TickDue(at) {
		return nil
	}
	start := time.Now()
	if err := c.core.Step(&t.Turn, server.Tick{}); err != nil {
		return err
	}
	cost := time.Since(start)
	c.core.Ticked(at, cost)
	c.metrics.ticks.Observe(cost.Seconds())
	return nil
}

// sleep is how long the reducer may sleep without an input.
func (c *Control) sleep() time.Duration {
	d := c.core.Sleep(c.time())
	if c.uncounted {
		d = min(d, time.Until(c.countedAt.Add(countEvery)))
	}
	return max(d, 0)
}

// query is a read of the state; it runs between turns.
type query struct {
	read func(*plan.State)
	done chan error // has room for one
}
