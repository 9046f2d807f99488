// Package forecast plays a fleet ahead in virtual time: the real planner over the
// real state, with hosts that run the real reducer of the agent and whose work
// takes the time, and fails, as a model says. One seed is one course of events.
// It reads no clock and reaches nothing outside itself.
package forecast

import (
	"errors"
	"fmt"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/plan"
)

// World is one course of events. Fields may be set before the first Run.
type World struct {
	State *plan.State
	Docs  plan.Documents
	Now   clock.Instant
	Model Model
	// Lag is how long after an input, or after the instant that the planner
	// waits for, it plans at the latest. Zero plans once an instant is over.
	Lag clock.Duration
	// Quiet, if set, reports that the planner did not run at an instant although
	// it was due: the server was away.
	Quiet func(due clock.Instant) bool
	// Refreshed has the freshness statement renewed in time, as its holder does.
	Refreshed bool
	// Term is that of the server.
	Term uint64
	// Planned is given what each run of the planner decided; Committed everything
	// that entered the log, decisions included.
	Planned   func(decided []event.Entry)
	Committed func(entries []event.Entry)

	queue queue
	order uint64
	owed  clock.Instant // when the planner was first due since it ran last
	next  clock.Instant // when time alone calls for it
	hosts map[string]*Host
	err   error
	tasks int
	bare  bool
}

// task is something that happens at an instant.
type task struct {
	at    clock.Instant
	order uint64
	run   func()
}

type queue []task

func (q queue) before(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].order < q[j].order
}

// push and pop are those of container/heap, which would put every task into an
// interface.
func (q *queue) push(t task) {
	*q = append(*q, t)
	h := *q
	for i := len(h) - 1; i > 0 && h.before(i, (i-1)/2); i = (i - 1) / 2 {
		h[i], h[(i-1)/2] = h[(i-1)/2], h[i]
	}
}

func (q *queue) pop() task {
	h := *q
	t, last := h[0], len(h)-1
	h[0], h[last] = h[last], task{}
	h = h[:last]
	for i := 0; 2*i+1 < last; {
		least := 2*i + 1
		if least+1 < last && h.before(least+1, least) {
			least++
		}
		if !h.before(least, i) {
			break
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
	*q = h
	return t
}

// NewWorld returns a world in a state, in which no host acts until it is Taken.
func NewWorld(s *plan.State, docs plan.Documents, now clock.Instant, m Model) *World {
	return &World{State: s, Docs: docs, Now: now, Model: m, Term: 1, hosts: map[string]*Host{}, owed: now}
}

// Bare has entries come without bodies from now on: nobody keeps the log.
func (w *World) Bare() {
	w.bare = true
	w.State.Bare()
}

// At has run called at an instant; one that has passed is now.
func (w *World) At(at clock.Instant, run func()) {
	w.order++
	w.queue.push(task{max(at, w.Now), w.order, run})
}

func (w *World) after(d clock.Duration, run func()) { w.At(w.Now.Add(max(d, 0)), run) }

// Fail ends the run with an error; the first one counts.
func (w *World) Fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

// Run plays until nothing is left to happen or the next thing would be after
// until. It reports whether all came to rest. It may be called again with a
// later until.
func (w *World) Run(until clock.Instant) (rest bool, err error) {
	for w.err == nil {
		next := clock.Instant(0)
		if len(w.queue) > 0 {
			next = w.queue[0].at
		}
		if due := w.due(); due != 0 && (next == 0 || next > due) {
			if due > until {
				return false, nil
			}
			w.Now = max(w.Now, due)
			if w.Quiet != nil && w.Quiet(due) {
				w.owed, w.next = 0, 0 // what comes next plans
				continue
			}
			w.Tick()
			continue
		}
		if next == 0 {
			return true, nil
		}
		if next > until {
			return false, nil
		}
		t := w.queue.pop()
		w.Now = t.at
		w.tasks++
		t.run()
	}
	return false, w.err
}

// due is when the planner has to run unless something else does before.
func (w *World) due() clock.Instant {
	if due := clock.Earliest(w.owed, w.next); due != 0 {
		return due.Add(w.Lag)
	}
	return 0
}

// Tick runs the planner now.
func (w *World) Tick() {
	if w.err != nil {
		return
	}
	w.refresh()
	p, err := plan.Next(w.State, w.Now)
	if err != nil {
		w.Fail(fmt.Errorf("plan: %w", err))
		return
	}
	w.owed, w.next = 0, p.Next
	if len(p.Decisions) == 0 {
		return
	}
	entries := make([]event.Entry, len(p.Decisions))
	for i := range p.Decisions {
		entries[i] = p.Decisions[i].Entry
	}
	if w.Planned != nil {
		w.Planned(entries)
	}
	w.heard(entries)
}

// refresh renews the freshness statement before it is half as old as any channel
// allows.
func (w *World) refresh() {
	if !w.Refreshed {
		return
	}
	stamp := w.State.Timestamp
	for _, c := range w.State.Channels { // order-free: any one that needs it does
		if 2*w.Now.Sub(stamp.IssuedAt) > c.FreshnessWindow {
			stamp.IssuedAt = w.Now
			stamp.Version++
			w.Commit(plan.Record(w.State, "", w.Now, stamp))
			return
		}
	}
}

// Commit takes what a decide function returned.
func (w *World) Commit(entries []event.Entry, err error) bool {
	if err != nil {
		w.Fail(err)
		return false
	}
	if len(entries) > 0 {
		w.owed = clock.Earliest(w.owed, w.Now)
		w.heard(entries)
	}
	return true
}

// Owe has the planner run within Lag although nothing was committed.
func (w *World) Owe() { w.owed = clock.Earliest(w.owed, w.Now) }

// heard tells the hosts and the observer.
func (w *World) heard(entries []event.Entry) {
	for i := range entries {
		if e := &entries[i]; e.Host != "" {
			if h := w.hosts[e.Host]; h != nil {
				h.told(e)
			}
		}
	}
	if w.Committed != nil {
		w.Committed(entries)
	}
}

// claim asks the planner; accepted is false when it refused.
func (w *World) claim(host, grant string) (accepted bool) {
	entries, err := plan.Claim(w.State, host, grant, w.Now)
	if refused := (*plan.ClaimRefusedError)(nil); errors.As(err, &refused) {
		return false
	}
	return w.Commit(entries, err)
}
