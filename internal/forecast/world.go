// Package forecast plays a fleet ahead in virtual time: the server's reducer over the
// real state, with hosts that run the real reducer of the agent and whose work
// takes the time, and fails, as a model says. One seed is one course of events.
// It reads no clock and reaches nothing outside itself.
package forecast

import (
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/server"
)

// World is one course of events. Fields may be set before the first Run, but State.
type World struct {
	State *plan.State
	Docs  plan.Documents
	Now   clock.Instant
	Model Model
	// When, if set, says when the server runs that is due since an instant: later than
	// that, or zero for not before something else happened.
	When func(since clock.Instant) clock.Instant
	// Refreshed has the freshness statement renewed in time, as its holder does.
	Refreshed bool
	// Term is that of the server, and Nonces what grants carry beside each term, if they do.
	Term   uint64
	Nonces map[uint64]string
	// Planned is given what each run of the planner decided; Committed everything
	// that entered the log, decisions included. Neither may keep the slice.
	Planned   func(decided []event.Entry)
	Committed func(entries []event.Entry)

	server *server.Server // of State
	since  clock.Instant  // when it was first due, and has not run
	turn   server.Turn    // the one that is decided; its slices are used again
	queue  clock.Queue[action]
	hosts  map[string]*Host
	err    error
	bare   bool
}

// action is what is to happen. One of a host happens only while the host acts in the
// world, and in one turn of it unless that is anyTurn.
type action struct {
	run  func()
	host *Host
	turn int
}

const anyTurn = -1

func (a *action) void() bool {
	h := a.host
	return h != nil && (h.w.hosts[h.name] != h || a.turn != anyTurn && a.turn != h.turn)
}

// NewWorld returns a world in a state, in which no host acts until it is Driven.
func NewWorld(s *plan.State, docs plan.Documents, now clock.Instant, m Model) *World {
	w := &World{State: s, Docs: docs, Now: now, Model: m, hosts: map[string]*Host{}}
	w.Lead(1)
	return w
}

// times are the server's. Events alone say who is there and what was pruned, and nothing
// is decided without a reason.
var times = server.Config{OfflineAfter: 10_000 * clock.Day, OnReasonOnly: true,
	Retention: plan.Retention{Age: 10_000 * clock.Day, Keep: 1000}}.WithDefaults()

// Lead has a server that knows the state as it is go on under a term.
func (w *World) Lead(term uint64) {
	w.Term = term
	w.server = server.Begin(times, server.NewPlanState(w.State, w.Docs), term, w.Nonces[term], w, w.time(), false, nil)
}

// Restart has another server go on, which leads under a term and knows what it reads.
func (w *World) Restart(term uint64) {
	s, err := plan.Clone(w.State, w.Docs)
	if err != nil {
		w.Fail(err)
		return
	}
	w.State = s
	w.Lead(term)
}

func (w *World) time() server.Time {
	return server.Time{Now: w.Now, Up: clock.Duration(w.Now).Std()}
}

// LastSeen implements server.Contacts.
func (w *World) LastSeen(string) (clock.Instant, bool) { return w.Now, true }

// LastEvent implements server.Contacts.
func (w *World) LastEvent(string) (uint64, bool) { return 0, true }

// Bare has entries come without bodies from now on: nobody keeps the log.
func (w *World) Bare() {
	w.bare = true
	w.State.Bare()
}

// At has run called at an instant; one that has passed is now.
func (w *World) At(at clock.Instant, run func()) { w.queue.Push(max(at, w.Now), action{run: run}) }

// Fail ends the run with an error; the first one counts.
func (w *World) Fail(err error) {
	if w.err == nil && err != nil {
		w.err = err
	}
}

// Run plays until nothing is left to happen or the next thing would be after
// until. It reports whether all came to rest. It may be called again with a
// later until.
func (w *World) Run(until clock.Instant) (rest bool, err error) {
	for w.err == nil {
		next, due := w.queue.Next(), w.due()
		runs := due != 0 && (next == 0 || next > due)
		if runs {
			next = due
		}
		if next == 0 || next > until {
			return next == 0, nil
		}
		if runs {
			w.Now = max(w.Now, due)
			w.Tick()
			continue
		}
		var a action
		if w.Now, a = w.queue.Pop(); !a.void() {
			a.run()
		}
	}
	return false, w.err
}

// due is when the server runs unless something else happens before; zero: not at all.
func (w *World) due() clock.Instant {
	if w.server.Idle() && w.server.Due() == 0 {
		return 0
	}
	w.since = clock.Earliest(w.since, w.Now.Add(clock.FromStd(w.server.Sleep(w.time()))))
	if w.When != nil {
		return w.When(w.since)
	}
	return w.since
}

// Tick has the server plan now.
func (w *World) Tick() {
	if w.err != nil {
		return
	}
	w.refresh()
	t := w.begin()
	if err := w.server.Step(t, server.Tick{}); err != nil {
		w.Fail(err)
		return
	}
	w.server.Ticked(t.Time, 0)
	w.since = 0
	if w.Planned != nil && len(t.Events) > 0 {
		w.Planned(t.Events)
	}
	w.committed(t.Events)
}

// begin returns the next turn, which ends the one before.
func (w *World) begin() *server.Turn {
	w.turn = server.Turn{Time: w.time(), Events: w.turn.Events[:0], Effects: w.turn.Effects[:0]}
	return &w.turn
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
			w.Fail(w.Step(Record("", stamp)))
			return
		}
	}
}

// Step has the server decide an input. It returns why that was refused.
func (w *World) Step(in server.Input) (refused error) {
	t := w.begin()
	if err := w.server.Step(t, in); err != nil {
		if server.Refused(err) {
			return err
		}
		w.Fail(err)
	}
	w.committed(t.Events)
	return nil
}

// View is a host as the server has it.
func (w *World) View(host string) *server.View { return w.server.View(host, nil) }

// Decide is Step of what an operator has decided; after a refusal nothing is.
func (w *World) Decide(decide func(s *plan.State, now clock.Instant) ([]event.Entry, error)) (refused error) {
	return w.Step(server.Operator{Decide: decide})
}

// Record is the input that records events of a host, or of the fleet.
func Record(host string, events ...event.Event) server.Record {
	return server.Record{Host: host, Decide: func(*server.State, clock.Instant) ([]event.Event, error) { return events, nil }}
}

// committed tells the hosts and the observer.
func (w *World) committed(entries []event.Entry) {
	if len(entries) == 0 || w.err != nil {
		return
	}
	for i := range entries {
		if h := w.hosts[entries[i].Host()]; h != nil {
			h.logged(&entries[i])
		}
	}
	if w.Committed != nil {
		w.Committed(entries)
	}
}
