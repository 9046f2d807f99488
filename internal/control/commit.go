package control

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/steadyfleet/steady/internal/control/refusal"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/store"
)

// apply decides every input of the turn. An error means that the state may be
// half changed.
func (c *Control) apply(t *turn) error {
	if time.Now().Before(c.fullUntil) {
		for _, in := range t.inputs {
			in.err = fmt.Errorf("%w: %w", refusal.ErrUnavailable, store.ErrFull)
		}
		return nil
	}
	for _, in := range t.inputs {
		before := len(t.entries)
		in.err = in.apply(t)
		if in.err != nil && !clean(in.err) {
			return in.err
		}
		if len(t.entries) > before {
			c.dirty = true
		}
	}
	before := len(t.entries)
	if err := t.checkPresence(); err != nil {
		return err
	}
	c.dirty = c.dirty || len(t.entries) > before
	return nil
}

// clean reports whether an error of an input left the state as it was.
func clean(err error) bool {
	var refused *refusal.Error
	var verb *plan.VerbError
	var claim *plan.ClaimRefusedError
	return errors.As(err, &refused) || errors.As(err, &verb) || errors.As(err, &claim)
}

// append makes entries durable. They are one append unless there are more than
// store.MaxBatch: then a crash may keep the first ones alone, which are whole
// facts each, and the next tick decides the rest again.
func (c *Control) append(entries []event.Entry) error {
	for len(entries) > 0 {
		n := min(len(entries), store.MaxBatch)
		start := time.Now()
		head, err := c.cfg.Store.Append(context.Background(), c.head.Seq, c.head.Term, entries[:n])
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

// spoil answers a turn of which nothing, or not all, was committed. Nobody is
// acknowledged. Unless the store is lost, the state is folded again and the loop
// goes on.
func (c *Control) spoil(t *turn, cause error) error {
	fatal := errors.Is(cause, store.ErrBroken) || errors.Is(cause, store.ErrFenced) || errors.Is(cause, store.ErrConflict) ||
		errors.Is(cause, store.ErrClosed) || errors.Is(cause, store.ErrCorrupt)
	for _, in := range t.inputs {
		err := in.err
		if err == nil || !clean(err) {
			err = fmt.Errorf("%w: %w", refusal.ErrUnavailable, cause)
		}
		in.finish(err)
	}
	if fatal {
		return c.lost(cause)
	}
	c.cfg.Log.Error("nothing of this turn was committed; folding the log again", "err", cause)
	c.metrics.spoiled.Inc()
	if errors.Is(cause, store.ErrFull) || errors.Is(cause, store.ErrBusy) {
		c.fullUntil = time.Now().Add(fullPause)
	}
	if err := c.load(context.Background()); err != nil {
		return fmt.Errorf("fold the log again: %w", err)
	}
	c.watch.Restart(&c.hosts, c.now())
	c.answer(t.queries)
	return nil
}

// lost says why the process has to end, and what to do.
func (c *Control) lost(cause error) error {
	next := "start the server again; if it stops again, restore the data folder from a backup"
	switch {
	case errors.Is(cause, store.ErrFenced), errors.Is(cause, store.ErrConflict):
		next = "another server leads on this store: let only one run"
	case errors.Is(cause, store.ErrBroken):
		next = "look at the disk of " + c.cfg.DataDir + " (the kernel's log says what failed), then start the server again: all that was acknowledged is kept"
	}
	return fmt.Errorf("the server must stop: %w; %s", cause, next)
}

// publish makes what was committed visible to requests.
func (c *Control) publish(entries []event.Entry) {
	if len(entries) == 0 {
		return
	}
	// First what all hosts read: one that its grant wakes asks at once for the
	// documents that list it.
	if slices.ContainsFunc(entries, func(e event.Entry) bool { return isPublic(e.Type) }) {
		c.publishPublic()
	}
	if c.publishSigned() { // every host is told
		for _, name := range slices.Sorted(maps.Keys(c.state.Hosts)) {
			c.watch.Add(c.hosts.Publish(c.state.Hosts[name], c.layer(name)))
		}
	}
	clear(c.touched)
	for i := range entries {
		name := entries[i].Host
		if _, done := c.touched[name]; done || name == "" {
			continue
		}
		c.touched[name] = struct{}{}
		if h := c.state.Hosts[name]; h != nil {
			c.watch.Add(c.hosts.Publish(h, c.layer(name)))
		}
	}
}

func (c *Control) answer(queries []*query) {
	for _, q := range queries {
		q.read(c.state)
		close(q.done)
	}
}

// View runs read on the committed state, in the reducer: it must be quick, must
// not change the state and must not keep any of it.
func (c *Control) View(ctx context.Context, read func(*plan.State)) error {
	q := &query{read: read, done: make(chan struct{})}
	select {
	case c.queries <- q:
	case <-ctx.Done():
		return ctx.Err()
	case <-c.stopping:
		return refusal.Newf(refusal.ErrUnavailable, "the server is stopping")
	}
	select { // not ctx: read may be running
	case <-q.done:
		return nil
	case <-c.stopped:
	}
	select {
	case <-q.done:
		return nil
	default:
		return refusal.Newf(refusal.ErrUnavailable, "the server is stopping")
	}
}
