package control

import (
	"container/heap"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/plan"
)

// seen notes that a host was heard from, and tells the reducer when that is news.
func (c *Control) seen(e *hostEntry) {
	e.lastSeen.Store(int64(c.now()))
	if e.view.Load().online || !e.returning.CompareAndSwap(false, true) {
		return
	}
	in := &input{
		apply: func(t *turn) error {
			return t.add(plan.Presence(t.s, e.name, true, 0, t.now))
		},
		after: func(error) { e.returning.Store(false) },
	}
	select {
	case c.normal <- in:
	default: // the next request tells it
		e.returning.Store(false)
	}
}

// check is a look at a host at an instant.
type check struct {
	at clock.Instant
	e  *hostEntry
}

// watch holds one check for every host that is online, so that ten thousand
// idle hosts cost one look each in OfflineAfter.
type watch []check

func (w watch) Len() int           { return len(w) }
func (w watch) Less(i, j int) bool { return w[i].at < w[j].at }
func (w watch) Swap(i, j int)      { w[i], w[j] = w[j], w[i] }

// Push implements heap.Interface.
func (w *watch) Push(x any) { *w = append(*w, x.(check)) }

// Pop implements heap.Interface.
func (w *watch) Pop() any {
	old := *w
	x := old[len(old)-1]
	old[len(old)-1] = check{}
	*w = old[:len(old)-1]
	return x
}

// watchHost begins to watch a host that is online.
func (c *Control) watchHost(e *hostEntry) {
	if e.watched || !e.view.Load().online {
		return
	}
	e.watched = true
	last := clock.Instant(e.lastSeen.Load())
	heap.Push(&c.watch, check{last.Add(c.cfg.OfflineAfter), e})
}

// watchAll gives every host that is known to be online a fresh period of grace.
func (c *Control) watchAll() {
	now := c.now()
	c.watch = c.watch[:0]
	c.hosts.mu.RLock()
	defer c.hosts.mu.RUnlock()
	for _, e := range c.hosts.m {
		e.watched = false
		e.lastSeen.Store(max(e.lastSeen.Load(), int64(now)))
		c.watchHost(e)
	}
}

// checkPresence looks at every host whose time has come.
func (t *turn) checkPresence() error {
	c := t.c
	for len(c.watch) > 0 && c.watch[0].at <= t.now {
		e := heap.Pop(&c.watch).(check).e
		e.watched = false
		if !e.view.Load().online {
			continue
		}
		last := clock.Instant(e.lastSeen.Load())
		if e.polls.Load() > 0 {
			last = t.now // an open long-poll is liveness enough
		}
		if due := last.Add(c.cfg.OfflineAfter); due > t.now {
			e.watched = true
			heap.Push(&c.watch, check{due, e})
			continue
		}
		if err := t.add(plan.Presence(t.s, e.name, false, last, t.now)); err != nil {
			return err
		}
	}
	return nil
}
