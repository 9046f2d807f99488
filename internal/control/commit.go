package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/store"
	"github.com/steadyfleet/steady/internal/wire"
)

// apply decides every input of the turn. An error means that the state may be
// half changed.
func (c *Control) apply(t *turn) error {
	if c.core.Paused(t.Time) {
		for _, in := range t.inputs {
			in.err = fmt.Errorf("%w: %w", wire.ErrUnavailable, store.ErrFull)
		}
		return nil
	}
	for _, in := range t.inputs {
		if in.err = c.core.Step(&t.Turn, in.Input); in.err != nil && !refused(in.err) {
			return in.err
		}
	}
	if err := c.core.Step(&t.Turn, server.Elapsed{}); err != nil && !refused(err) {
		return err
	}
	return nil
}

// refused reports whether an error of an input left the state as it was.
func refused(err error) bool {
	var r *wire.Refusal
	return errors.As(err, &r) || server.Refused(err)
}

// append makes entries durable. They are one append unless there are more than
// store.MaxBatch: then a crash may keep the first ones alone, which are whole
// facts each, and the next tick decides the rest again.
func (c *Control) append(entries []event.Entry) error {
	for len(entries) > 0 {
		n := min(len(entries), store.MaxBatch)
		start := time.Now()
		commit := c.cfg.Store.Append
		if c.core.SetBack() != nil { // then it decides nothing but the end of that
			commit = c.cfg.Store.EndSetBack
		}
		head, err := commit(context.Background(), c.head.Seq, c.head.Term, entries[:n])
		c.full.Store(errors.Is(err, store.ErrFull))
		if err != nil {
			return err
		}
		c.metrics.appends.Observe(time.Since(start).Seconds())
		c.metrics.committed(entries[:n])
		c.setHead(head)
		c.recordTerm = head.Term
		c.sinceSnapshot += uint64(n)
		entries = entries[n:]
	}
	return nil
}

// invalidateState answers a turn of which nothing, or not all, was committed. Nobody is
// acknowledged. Unless the store is lost, the state is folded again and the loop
// goes on.
func (c *Control) invalidateState(t *turn, cause error) error {
	fatal := errors.Is(cause, store.ErrBroken) || errors.Is(cause, store.ErrFenced) || errors.Is(cause, store.ErrConflict) ||
		errors.Is(cause, store.ErrClosed) || errors.Is(cause, store.ErrCorrupt)
	for _, in := range t.inputs {
		err := in.err
		if err == nil || !refused(err) {
			err = fmt.Errorf("%w: %w", wire.ErrUnavailable, cause)
		}
		in.finish(err)
	}
	if fatal {
		return c.lost(cause)
	}
	c.cfg.Log.Error("nothing of this turn was committed; folding the log again", "err", cause)
	c.metrics.invalidated.Inc()
	c.serving.away(time.Now(), "its log took nothing")
	if errors.Is(cause, store.ErrFull) || errors.Is(cause, store.ErrBusy) {
		c.core.Pause(c.time())
	}
	if err := c.load(context.Background()); err != nil {
		return fmt.Errorf("fold the log again: %w", err)
	}
	c.core.Reload(c.state, c.time())
	c.answer(t.queries)
	return nil
}

// lost says why the process has to end, and what to do.
func (c *Control) lost(cause error) error {
	next := "start the server again; if it stops again, restore the data folder from a backup"
	switch {
	case errors.Is(cause, store.ErrFenced), errors.Is(cause, store.ErrConflict):
		next = "another server leads on this store: let only one run"
	case errors.Is(cause, store.ErrBroken) && errors.Is(cause, store.ErrCorrupt):
		next = "steady doctor --data " + c.cfg.DataDir + " reads the whole log; operating.md says how to restore"
	case errors.Is(cause, store.ErrBroken):
		next = "check the disk of " + c.cfg.DataDir + " (the kernel's log says what failed), then start the server again: all that was acknowledged is kept"
	}
	return fmt.Errorf("the server must stop: %w; %s", cause, next)
}

func (c *Control) answer(queries []*query) {
	for _, q := range queries {
		start := time.Now()
		q.read(c.state.Plan)
		c.metrics.reads.Observe(time.Since(start).Seconds())
		q.done <- nil
	}
}

// View runs read on the committed state, in the reducer, which serves nobody else meanwhile: read takes a bounded number
// of steps, does not change the state and does not keep any of it. What grows with hosts or sessions reads them in pages
// or copies what it is made of; see ViewHosts, and steady_read_seconds among the metrics.
func (c *Control) View(ctx context.Context, read func(*plan.State)) error {
	q := &query{read: read, done: make(chan error, 1)}
	return hand(ctx, c, c.queries, q, q.done, nil) // not until ctx ends: read may be running
}
