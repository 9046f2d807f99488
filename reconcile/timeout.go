package reconcile

import (
	"context"
	"sync"
	"time"
)

// timeout is context.WithTimeout for what is mostly over before anybody asks for Done:
// the timer is made then.
type timeout struct {
	parent context.Context
	at     time.Time

	mu     sync.Mutex
	ended  bool
	made   context.Context // nil until Done was asked for
	cancel context.CancelFunc
}

func withTimeout(ctx context.Context, d time.Duration) *timeout {
	at := time.Now().Add(d)
	if before, ok := ctx.Deadline(); ok && before.Before(at) {
		at = before
	}
	return &timeout{parent: ctx, at: at}
}

// end releases it, as a CancelFunc does.
func (c *timeout) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	if c.cancel != nil {
		c.cancel()
	}
}

// Deadline implements context.Context, as the methods below do.
func (c *timeout) Deadline() (time.Time, bool) { return c.at, true }

func (c *timeout) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.made == nil {
		c.made, c.cancel = context.WithDeadline(c.parent, c.at)
		if c.ended {
			c.cancel()
		}
	}
	return c.made.Done()
}

func (c *timeout) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.made != nil:
		return c.made.Err()
	case c.parent.Err() != nil:
		return c.parent.Err()
	case c.ended:
		return context.Canceled
	case !time.Now().Before(c.at):
		return context.DeadlineExceeded
	}
	return nil
}

func (c *timeout) Value(key any) any {
	c.mu.Lock()
	made := c.made
	c.mu.Unlock()
	if made != nil {
		return made.Value(key) // contexts below find the timer there
	}
	return c.parent.Value(key)
}
