package hosts

import (
	"container/heap"

	"github.com/steadyfleet/steady/internal/core/clock"
)

// Watch holds one check for every host that is online, so that ten thousand
// idle hosts cost one look each in a period of grace. It is one goroutine's.
type Watch struct {
	grace  clock.Duration
	checks checks
}

// NewWatch returns a watch that finds hosts silent after a period of grace.
func NewWatch(grace clock.Duration) *Watch { return &Watch{grace: grace} }

// Add begins to watch a host that is online.
func (w *Watch) Add(h *Host) {
	if h.watched || !h.View().Online {
		return
	}
	h.watched = true
	heap.Push(&w.checks, check{h.LastSeen().Add(w.grace), h})
}

// Restart watches every host of the directory that is online, and gives each a
// fresh period of grace.
func (w *Watch) Restart(d *Directory, now clock.Instant) {
	w.checks = w.checks[:0]
	d.mu.RLock()
	defer d.mu.RUnlock()
	for _, h := range d.m {
		h.watched = false
		h.lastSeen.Store(max(h.lastSeen.Load(), int64(now)))
		w.Add(h)
	}
}

// Next is when the next host is to be looked at; not ok when none is watched.
func (w *Watch) Next() (at clock.Instant, ok bool) {
	if len(w.checks) == 0 {
		return 0, false
	}
	return w.checks[0].at, true
}

// Silence is a host that was not heard from for the period of grace.
type Silence struct {
	Host string
	Last clock.Instant
}

// Silent looks at every host whose time has come and returns those that are
// silent. They are watched again when they are added.
func (w *Watch) Silent(now clock.Instant) (silent []Silence) {
	for len(w.checks) > 0 && w.checks[0].at <= now {
		h := heap.Pop(&w.checks).(check).h
		h.watched = false
		if !h.View().Online {
			continue
		}
		last := h.LastSeen()
		if h.polls.Load() > 0 {
			last = now
		}
		if due := last.Add(w.grace); due > now {
			h.watched = true
			heap.Push(&w.checks, check{due, h})
			continue
		}
		silent = append(silent, Silence{h.Name, last})
	}
	return silent
}

// check is a look at a host at an instant.
type check struct {
	at clock.Instant
	h  *Host
}

// checks is a heap, the next one in front.
type checks []check

func (c checks) Len() int           { return len(c) }
func (c checks) Less(i, j int) bool { return c[i].at < c[j].at }
func (c checks) Swap(i, j int)      { c[i], c[j] = c[j], c[i] }

// Push implements heap.Interface.
func (c *checks) Push(x any) { *c = append(*c, x.(check)) }

// Pop implements heap.Interface.
func (c *checks) Pop() any {
	old := *c
	x := old[len(old)-1]
	old[len(old)-1] = check{}
	*c = old[:len(old)-1]
	return x
}
