package control

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/health"
	"github.com/steadyfleet/steady/internal/store"
)

// readyFor is how long an answer about readiness is given again: anybody may ask,
// and each answer writes to the disk.
const readyFor = time.Second

type readyCache struct {
	mu sync.Mutex
	at time.Time
	f  health.ServerFacts
}

// Dead lists why the process should be started again. It touches no disk.
func (c *Control) Dead() []health.ServerProblem { return health.Liveness(c.lifeFacts()) }

func (c *Control) lifeFacts() health.ServerFacts {
	f := health.ServerFacts{Stopping: c.stopping.Err() != nil}
	if err := c.cfg.Store.Err(); err != nil {
		f.Broken = err.Error()
	}
	if since := c.busySince.Load(); since != 0 {
		f.Busy = clock.FromStd(time.Since(time.Unix(0, since)))
	}
	return f
}

// Started is when this process took the log.
func (c *Control) Started() clock.Instant { return clock.FromTime(c.started) }

// Unready lists why the server cannot take in or grant anything now.
func (c *Control) Unready(ctx context.Context) []health.ServerProblem {
	return health.Readiness(c.readyFacts(ctx))
}

func (c *Control) readyFacts(ctx context.Context) health.ServerFacts {
	c.ready.mu.Lock()
	defer c.ready.mu.Unlock()
	if time.Since(c.ready.at) > readyFor {
		c.ready.f = health.ServerFacts{}
		head, err := c.cfg.Store.Head(ctx)
		if err == nil {
			c.ready.f.Fenced = head.Term > c.Head().Term
			err = c.cfg.Store.Writable(ctx)
		}
		c.ready.f.Full = errors.Is(err, store.ErrFull) || c.full.Load() && c.atBound(ctx)
		if err != nil && !errors.Is(err, store.ErrBroken) && !c.ready.f.Full {
			c.ready.f.Unwritable = err.Error()
		}
		c.ready.at = time.Now()
	}
	f := c.lifeFacts()
	if b := c.SetBack(); b != nil {
		f.SetBack, f.SetBackNext = b.Reason, b.Next()
	}
	f.Fenced, f.Full, f.Unwritable, f.SafeMode = c.ready.f.Fenced, c.ready.f.Full, c.ready.f.Unwritable, c.SafeMode()
	return f
}

// atBound reports whether the log is as large as it may be, or nearly.
func (c *Control) atBound(ctx context.Context) bool {
	size, err := c.cfg.Store.Size(ctx)
	return err == nil && size.Limit > 0 && size.Log > size.Limit-size.Limit/20
}
