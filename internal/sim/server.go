package sim

import (
	"errors"
	"fmt"
	"time"

	"github.com/steadyfleet/steady/internal/core/audit"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
	coreserver "github.com/steadyfleet/steady/internal/core/server"
)

// times are those of the server's defaults. Nothing is decided without a reason, or
// pruned by itself: what nobody wakes for has to be found.
var times = coreserver.Config{OnReasonOnly: true, Retention: plan.Retention{Age: 10_000 * clock.Day, Keep: 1000}}.WithDefaults()

const (
	tickCost = 50 * time.Millisecond // of the planner, as a busy server has it
	askEvery = 8                     // ticks: after one a host is asked why it waits that did not move before it
)

// server drives the server's reducer as its shell does: one mutator, everything
// committed before it is answered. It decides nothing.
type server struct {
	w          *World
	core       *coreserver.Server
	state      *plan.State // of core
	head       int         // how much of the log it has folded
	folded     []folded    // since its last commit
	latest     event.Entry // folded and not yet checked; no type when there is none
	term       uint64
	down       bool
	gone       bool // replaced, for good
	wall       clock.Duration
	last       clock.Instant
	lastSeen   map[string]clock.Instant
	lastEvents map[string]uint64 // the newest event of each host that said so
	sessions   map[string]*coreserver.Session
	views      map[string]*coreserver.View
	parked     map[*agent]func() // long-polls
	life       int               // counts starts
	wakeAt     clock.Instant
	ticks      int
	moved      map[string]bool // hosts that something was logged of since the last tick
	// began, until and owed are the judge's: when it started, when it has waited long
	// enough for hosts to report, and what it has to wait for.
	began, until clock.Instant
	since        clock.Instant // of the world, when the process began
	owed         map[string]debt
	labs         *labs // nil while it runs none
}

func newServer(w *World) *server {
	w.log.term++
	s := &server{w: w, term: w.log.term, lastSeen: map[string]clock.Instant{}, moved: map[string]bool{}, parked: map[*agent]func(){}}
	s.begin(plan.New(w.docs), 0)
	return s
}

// begin has a process go on with a state that was folded from so many events.
func (s *server) begin(state *plan.State, head int) {
	if s.state != nil {
		s.state.Watch(nil)
	}
	s.state, s.head, s.folded, s.latest = state, head, s.folded[:0], event.Entry{}
	s.lastEvents, s.sessions, s.views, s.owed = map[string]uint64{}, map[string]*coreserver.Session{}, map[string]*coreserver.View{}, map[string]debt{}
	s.life++
	s.w.log.processes++
	s.wakeAt, s.last, s.since = 0, 0, s.w.now
	s.core = coreserver.Begin(times, s.fresh(state, head), s.term, fmt.Sprint("p", s.w.log.processes), s, s.time(), head > 0, s.w.log.setBack())
	state.Watch(func(e event.Entry, ev event.Event) {
		s.follow(e)
		s.folded = append(s.folded, folded{e, ev})
	})
	s.open()
}

// served is what answers to hosts tell, in whole seconds.
func (s *server) served() clock.Duration {
	return s.w.now.Sub(s.since)/clock.Second*clock.Second + clock.Second
}

// now is the wall clock, which never goes back while the process lives.
func (s *server) now() clock.Instant {
	s.last = max(s.last, s.w.now.Add(s.wall))
	return s.last
}

func (s *server) time() coreserver.Time {
	return coreserver.Time{Now: s.now(), Up: clock.Duration(s.w.now).Std()}
}

// LastSeen implements coreserver.Contacts.
func (s *server) LastSeen(name string) (at clock.Instant, polling bool) {
	for a := s.w.hosts[name]; a != nil; a = a.copy {
		polling = polling || s.parked[a] != nil
	}
	return s.lastSeen[name], polling
}

// LastEvent implements coreserver.Contacts.
func (s *server) LastEvent(name string) (uint64, bool) {
	seq, ok := s.lastEvents[name]
	return seq, ok
}

func (s *server) session(name string) *coreserver.Session {
	if s.sessions[name] == nil {
		s.sessions[name] = &coreserver.Session{}
	}
	return s.sessions[name]
}

// step has an input decided and commits that. It reports whether all went well; refused
// says why the input was refused.
func (s *server) step(in coreserver.Input) (ok bool, refused error) {
	t := coreserver.Turn{Time: s.time()}
	err := s.core.Step(&t, in)
	if coreserver.Refused(err) {
		return true, err
	}
	ok = s.append(t.Events, err)
	if ok {
		s.wake()
	}
	return ok, nil
}

// commit is step of what was decided about the state by a function of the plan.
func (s *server) commit(entries []event.Entry, err error) bool {
	ok, _ := s.step(coreserver.Operator{Decide: func(*plan.State, clock.Instant) ([]event.Entry, error) { return entries, err }})
	return ok && err == nil
}

// append makes entries durable. A crash may come right before it, in which case
// nothing was ever said; a server that was replaced finds out by it.
func (s *server) append(entries []event.Entry, err error) bool {
	if err != nil {
		s.w.violate("core", "%v", err)
		return false
	}
	if len(entries) == 0 {
		return true
	}
	if s.w.faulty(ServerCrash, 0.0005*min(1, float64(clock.Day)/float64(s.w.cfg.Faulty))) { // a server starts on all of its log
		s.w.trace("the server dies before a commit")
		s.head, s.w.log.second = -1, nil // what they folded is not in the log
		s.die(s.w.between(clock.Second, 2*clock.Minute))
		return false
	}
	made := s.folded
	s.folded = s.folded[:0]
	switch err := s.w.log.append(s.head, s.term, entries, made); {
	case errors.Is(err, errFenced):
		s.stop("finds that it was replaced")
		return false
	case err != nil:
		s.w.violate("S25", "%v", err)
		return false
	}
	s.head += len(entries)
	s.agrees()
	s.publish(entries)
	return !s.down
}

// publish answers long-polls that a commit changed, and has it judged.
func (s *server) publish(entries []event.Entry) {
	for i := range entries {
		e := &entries[i]
		if s.w.ending {
			s.follows(e)
		}
		if e.Type == (event.Granted{}).EventType() {
			s.w.checks.given(s, e.Host())
		}
	}
	for _, name := range s.core.Committed(entries, s.state.Signed, s.time()).Hosts {
		s.moved[name] = true
		old := s.views[name]
		s.views[name] = s.core.View(name, old)
		if s.views[name].Wakes(old) {
			s.answerPolls(name)
		}
	}
	s.tellLabs(entries)
}

// view is a host as requests see it.
func (s *server) view(name string) *coreserver.View {
	if s.views[name] == nil {
		s.views[name] = s.core.View(name, nil)
	}
	return s.views[name]
}

// wake has the server run when it wants to.
func (s *server) wake() {
	if s.down {
		return
	}
	at := s.w.now.Add(clock.FromStd(s.core.Sleep(s.time()) + time.Millisecond - 1))
	if s.wakeAt != 0 && s.wakeAt <= at {
		return
	}
	s.wakeAt = at
	life := s.life
	s.w.after(at.Sub(s.w.now), func() {
		if s.life == life && s.wakeAt == at && !s.down {
			s.wakeAt = 0
			s.run()
		}
	})
}

// run is a round of the server without an input.
func (s *server) run() {
	if s.core.MustRaise(s.time()) != "" {
		if s.w.stale == s {
			s.stop("finds that it was replaced")
			return
		}
		s.w.log.term++
		s.term = s.w.log.term
		s.core.Raised(s.term)
	}
	if ok, _ := s.step(coreserver.Elapsed{}); !ok {
		return
	}
	if s.core.TickDue(s.time()) && !s.tick() {
		return
	}
	s.wake()
}

// tick runs the planner, and has what it decided judged.
func (s *server) tick() bool {
	t := coreserver.Turn{Time: s.time()}
	waits := s.waits()
	err := s.core.Step(&t, coreserver.Tick{})
	s.core.Ticked(t.Time, tickCost)
	if waits && s.began.Add(times.ReplayWait).Reached(t.Now) {
		s.w.violate("L6", "the server waits for a host's history %s after it started", t.Now.Sub(s.began))
	}
	if err == nil && !waits {
		s.compare(&plan.Plan{Events: t.Events}, t.Now)
	}
	if !s.append(t.Events, err) {
		return false
	}
	if !waits {
		s.rest(t.Now, s.core.State.Due())
	}
	return !s.down
}

// waits reports whether the server waits for a host's history.
func (s *server) waits() bool { return s.core.Block(s.now()) != nil }

// rest checks the state after a tick, at the same instant.
func (s *server) rest(now, next clock.Instant) {
	w := s.w
	s.ticks++
	w.found = append(w.found, w.againstOthers(audit.CheckSome(s.state, now, func(i int, host string) bool { return s.moved[host] || (i+s.ticks)%askEvery == 0 }))...)
	clear(s.moved)
	if again, err := plan.Next(s.state, now); err != nil || len(again.Events) > 0 {
		w.violate("S27", "a second tick at the same instant decides %d more things (%v)", len(again.Events), err)
	}
	w.checkHeld(s)
	if w.server == s {
		w.checkClaims(s)
		w.checkNoticed(s)
		w.checkFacts(s)
		w.checkArrived(s)
		w.checkWakes(s, now, next)
	}
}

// seen takes note that a host made a request. It reports whether the server goes on with
// the request: one of an identity that has ended is refused.
func (s *server) seen(a *agent) bool {
	if err := s.identify(a); err != nil {
		if s == s.w.server {
			s.w.escalate(a)
		}
		return false
	}
	s.lastSeen[a.name] = s.now()
	if h := s.state.Hosts[a.name]; h != nil && !h.Online {
		s.step(coreserver.Connected{Host: a.name})
	}
	return !s.down
}

// heartbeat answers one. A host that knows more than the log holds has the server wait
// for it.
func (s *server) heartbeat(a *agent, m coreserver.Heartbeat) coreserver.HeartbeatAnswer {
	base := uint64(0) // of marks, which only agents with a process have
	if a.copied {
		base = s.w.rand.Uint64()
	}
	answer := s.session(a.name).Heartbeat(s.view(a.name), m, times.Heartbeat, base)
	if answer.Believed {
		s.lastEvents[a.name] = m.LastSeq
	}
	if answer.Ahead > 0 {
		s.ahead(a, answer.Ahead)
	}
	if answer.Forked && !s.away() {
		s.forked(a, a.acked)
	}
	if answer.Parked != "" && !s.away() {
		s.w.trace("%s says that it is parked", a.name)
		s.step(coreserver.Fork{Host: a.name, Incarnation: a.inc, Seq: m.LastSeq, Parked: answer.Parked})
	}
	return answer
}

// ahead has the server wait for a part of a host's history.
func (s *server) ahead(a *agent, need uint64) {
	if !a.overclaims {
		s.w.checks.owes(s, a, need)
	}
	s.step(coreserver.Ahead{Host: a.name, Incarnation: a.inc, Need: need})
}

// quiet reports whether the server has nothing left to do by itself.
func (s *server) quiet(why *plan.Explainer) bool {
	if s.away() || !s.core.Idle() || s.w.stale != nil {
		return false
	}
	for _, name := range s.state.ChannelNames() {
		if r := s.state.Rollouts[s.state.Channels[name].Active]; r != nil && !r.Phase.Ended() && !s.held(why, r) {
			return false
		}
	}
	return true
}

// held reports whether a rollout waits for something that only people can
// bring: evidence of a wave that can have none, a quarantined or refused
// target, or a host that failed for good.
func (s *server) held(why *plan.Explainer, r *rollout.Rollout) bool {
	stranded, moving := 0, r.Total().Moving()
	for i := range r.Members {
		if moving > 0 && r.Members[i].Status == rollout.Claimed && strandedIn(why, r.Plan.Leaves[i].Host) {
			stranded++
		}
	}
	if moving > stranded {
		return false
	}
	for i := range r.Members {
		m := &r.Members[i]
		if m.Status != rollout.Waiting {
			continue
		}
		a, err := why.Why(r.Plan.Leaves[i].Host)
		if err != nil || a.Block == nil || a.Block.Code == gate.Backoff || a.Block.Code == gate.Window {
			return false
		}
	}
	return true
}

// stuckFor reports whether only people can let a host repair.
func stuckFor(why *plan.Explainer, name string) bool {
	a, err := why.Why(name)
	if err != nil || a.Repair == nil || a.Repair.Block == nil {
		return false
	}
	c := a.Repair.Block.Code
	return c != gate.Presence && c != gate.Backoff && c != gate.Window // a failed host may hold the slot
}
