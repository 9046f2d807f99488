package reconciletest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// ErrCrashed is what a crashed process gets from its store, and from Point.
var ErrCrashed = errors.New("the process has crashed")

// Crasher ends a process between two steps: from there on no write of that process reaches the
// store. An act lies between two writes, so that a crash before and after each write is one
// before and after each act.
type Crasher struct {
	mu     sync.Mutex
	at     int // the point to crash at
	points int // passed so far, by all processes
	last   string
	dead   bool
	stop   func()
}

// NewCrasher makes one that crashes at the point of that number, counted from 0; never if it is
// negative.
func NewCrasher(at int) *Crasher { return &Crasher{at: at, stop: func() {}} }

// Begin says that the next process begins; a crash calls stop, which must not wait for it.
func (c *Crasher) Begin(stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stop, c.dead = stop, false
}

// Point is a place to crash at. The caller must do nothing more when it returns ErrCrashed.
func (c *Crasher) Point(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead {
		return ErrCrashed
	}
	if c.points == c.at {
		c.dead, c.last = true, name
		c.stop()
	}
	c.points++
	if c.dead {
		return ErrCrashed
	}
	return nil
}

// Crash ends the process wherever it is.
func (c *Crasher) Crash() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dead = true
	c.stop()
}

// Crashed reports whether the present process has crashed.
func (c *Crasher) Crashed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dead
}

// Points counts the points that were passed.
func (c *Crasher) Points() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.points
}

// Store has a point before and after each write of s.
func (c *Crasher) Store(s reconcile.Store) reconcile.Store { return &mortal{s, c} }

type mortal struct {
	reconcile.Store
	c *Crasher
}

// write makes one write between two points.
func write[T any](m *mortal, what string, f func() (T, error)) (out T, err error) {
	var none T
	if err := m.c.Point("before " + what); err != nil {
		return none, err
	}
	if out, err = f(); err != nil {
		return out, err
	}
	if err := m.c.Point("after " + what); err != nil {
		return none, err
	}
	return out, nil
}

func (m *mortal) Load(ctx context.Context, ref engine.Ref) (engine.Snapshot, error) {
	if m.c.Crashed() {
		return engine.Snapshot{}, ErrCrashed
	}
	return m.Store.Load(ctx, ref)
}

func (m *mortal) Commit(ctx context.Context, rec engine.Record) (reconcile.Committed, error) {
	return write(m, "commit", func() (reconcile.Committed, error) { return m.Store.Commit(ctx, rec) })
}

func (m *mortal) Ack(ctx context.Context, ref engine.Ref, n int64) error {
	_, err := write(m, "ack", func() (struct{}, error) { return struct{}{}, m.Store.Ack(ctx, ref, n) })
	return err
}

func (m *mortal) Apply(ctx context.Context, in engine.Intent, now time.Time, cause engine.Cause) (engine.Change, error) {
	return write(m, "apply", func() (engine.Change, error) { return m.Store.Apply(ctx, in, now, cause) })
}

func (m *mortal) Deliver(ctx context.Context, ref engine.Ref, e engine.Event, now time.Time) (engine.Raise, error) {
	return write(m, "deliver", func() (engine.Raise, error) { return m.Store.Deliver(ctx, ref, e, now) })
}
