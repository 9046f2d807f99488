package sim

import (
	"encoding/json"
	"errors"

	"github.com/steadyfleet/steady/internal/control/hosts"
	"github.com/steadyfleet/steady/internal/core/audit"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
	"github.com/steadyfleet/steady/internal/core/safemode"
)

// Presence as the server judges it, and its other times.
const (
	offlineAfter = 180 * clock.Second
	tickGap      = 500 * clock.Millisecond
	reofferAfter = 5 * clock.Second
	replayWait   = 10 * clock.Minute
	askEvery     = 3 // ticks: a third of the hosts is asked why it waits after each
)

// server drives the planner as the real server does: one mutator, everything
// committed before it is answered.
type server struct {
	w        *World
	state    *plan.State
	head     int      // how much of the log it has folded
	folded   []folded // since its last commit
	term     uint64
	down     bool
	gone     bool // replaced, for good
	wall     clock.Duration
	last     clock.Instant
	lastSeen map[string]clock.Instant
	safe     safemode.State
	began    clock.Instant   // hosts that claim to know more are believed from then on
	owed     map[string]debt // what safe has to know
	roll     hosts.Roll
	until    clock.Instant     // the roll call ends
	told     map[string]uint64 // the newest event of each host that said so
	parked   map[*agent]func() // long-polls
	// processes are those of hosts whose state is copied some time.
	processes map[string]*hosts.Host
	handed    map[string]clock.Instant
	ticking   bool // a tick is scheduled
	next      clock.Instant
	lastTick  clock.Instant
	ticks     int
}

func newServer(w *World) *server {
	w.log.term++
	s := &server{w: w, term: w.log.term, lastSeen: map[string]clock.Instant{},
		parked: map[*agent]func(){}, handed: map[string]clock.Instant{}, told: map[string]uint64{}}
	s.goOn(plan.New(w.docs), 0)
	return s
}

// goOn has the server stand on a state that was folded from so many events.
func (s *server) goOn(state *plan.State, head int) {
	if s.state != nil {
		s.state.Watch(nil)
	}
	s.state, s.head, s.folded = state, head, s.folded[:0]
	state.Watch(func(e event.Entry, ev event.Event) {
		s.follow(e, ev)
		s.folded = append(s.folded, folded{e, ev})
	})
}

// now is the wall clock, which never goes back while the process lives.
func (s *server) now() clock.Instant {
	s.last = max(s.last, s.w.now.Add(s.wall))
	return s.last
}

// commit makes entries durable. A crash may come right before it, in which case
// nothing was ever said; a server that was replaced finds out by it.
func (s *server) commit(entries []event.Entry, err error) bool {
	if err != nil {
		s.w.violate("core", "%v", err)
		return false
	}
	if len(entries) == 0 {
		return true
	}
	if s.w.faulty(ServerCrash, 0.0005) {
		s.w.trace("the server dies before a commit")
		s.head, s.w.log.shadow = -1, nil // what they folded is not in the log
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
	s.nudge()
	for i := range entries {
		e := &entries[i]
		if s.w.ending {
			s.follows(e)
		}
		if e.Type == (event.Granted{}).EventType() {
			s.w.truth.given(s, e.Host)
			s.hand(e.Host)
		}
	}
	return true
}

// nudge has a tick happen soon: at once for the first event, later ones
// collapse into the gap.
func (s *server) nudge() {
	if s.ticking || s.down {
		return
	}
	s.ticking = true
	s.w.after(max(0, s.lastTick.Add(tickGap).Sub(s.w.now)), s.tick)
}

func (s *server) tick() {
	s.ticking = false
	if s.down {
		return
	}
	s.lastTick = s.w.now
	now := s.now()
	if waiting, _ := s.safe.Waiting(s.state.Hosts, now); waiting {
		s.back(now)
		s.w.after(10*clock.Second, s.nudge)
		return
	}
	p, err := plan.Next(s.state, now)
	if err != nil {
		s.w.violate("core", "%v", err)
		return
	}
	entries := make([]event.Entry, len(p.Decisions))
	for i, d := range p.Decisions {
		entries[i] = d.Entry
	}
	s.compare(p, now)
	if !s.commit(entries, nil) {
		return
	}
	s.rest(now, p.Next)
}

// waits reports whether the server waits for a host's history.
func (s *server) waits() bool { return s.safe.Block(s.state.Hosts, s.now()) != nil }

// back sends hosts back while the server waits for hosts that claim to know more than
// it does. Whatever they claim, that ends some time after the start.
func (s *server) back(now clock.Instant) {
	if s.began.Add(replayWait).Reached(now) {
		s.w.violate("L6", "the server waits for a host's history %s after it started", now.Sub(s.began))
	}
	p, err := plan.NextBack(s.state, now)
	if err != nil {
		s.w.violate("core", "%v", err)
		return
	}
	entries := make([]event.Entry, len(p.Decisions))
	for i, d := range p.Decisions {
		entries[i] = d.Entry
	}
	s.commit(entries, nil)
}

// rest checks the state after a tick, at the same instant, and sleeps.
func (s *server) rest(now, next clock.Instant) {
	w := s.w
	s.ticks++
	w.found = append(w.found, audit.CheckSome(s.state, now, s.ticks, askEvery)...)
	if again, err := plan.Next(s.state, now); err != nil || len(again.Decisions) > 0 {
		w.violate("S27", "a second tick at the same instant decides %d more things (%v)", len(again.Decisions), err)
	}
	w.checkHeld(s)
	if w.server == s {
		w.checkClaims(s)
		w.checkNoticed(s)
		w.checkArrived(s)
		w.checkWakes(s, now, next)
	}
	if next != 0 && next != s.next {
		s.next = next
		w.after(next.Sub(now), s.nudge)
	}
}

// watch looks at presence every few seconds, like the server's presence worker.
func (s *server) watch() {
	if s.gone {
		return
	}
	s.w.after(5*clock.Second, s.watch)
	if s.down {
		return
	}
	now := s.now()
	for _, a := range s.w.agents {
		if s.parked[a] != nil || a.copy != nil && s.parked[a.copy] != nil {
			s.lastSeen[a.name] = now // an open long-poll is liveness enough
		}
		if seen := s.lastSeen[a.name]; seen != 0 && now.Sub(seen) >= offlineAfter && !s.down {
			s.commit(plan.Presence(s.state, a.name, false, seen, now))
		}
	}
}

// seen takes note that a host spoke. A host that knows more than the log holds
// has the server wait for it. It reports whether the server goes on with the
// request: one of an identity that has ended is refused.
func (s *server) seen(a *agent, acked uint64) bool {
	if err := s.identify(a); err != nil {
		if s == s.w.server {
			s.w.attend(a)
		}
		return false
	}
	now := s.now()
	s.lastSeen[a.name] = now
	if h := s.state.Hosts[a.name]; h != nil && h.Incarnation == a.inc && acked > h.Seq {
		if !a.boasts {
			s.w.truth.owes(s, a, acked)
		}
		if s.safe.Claim(a.name, a.inc, acked, now) {
			s.w.trace("%s knows %d events of its own, the server %d: nothing but ways back is granted", a.name, acked, h.Seq)
		}
	}
	s.commit(plan.Presence(s.state, a.name, true, now, now))
	return !s.down
}

// die throws the state away; the process is back after a while and folds the
// log again.
func (s *server) die(down clock.Duration) {
	s.down, s.ticking = true, false
	s.w.trace("the server dies")
	s.hangUp()
	if s.w.stale == s {
		s.stop("dies")
		return
	}
	s.w.after(down, s.start)
}

func (s *server) crash(down clock.Duration) {
	if !s.down {
		s.die(down)
	}
}

// hangUp ends every long-poll.
func (s *server) hangUp() {
	for _, a := range s.w.agents {
		for a := a; a != nil; a = a.copy {
			if s.parked[a] != nil {
				delete(s.parked, a)
				a.hungUp()
			}
		}
	}
}

// start folds the log and takes the next term. What the dead state would have
// decided at this instant, the fresh one decides as well.
func (s *server) start() {
	if s.gone {
		return
	}
	was, head := s.state, s.head
	state, err := s.w.log.fold()
	if err == nil && s.w.cfg.Seed%4 == 1 {
		state, err = snapshot(state, s.w.docs)
	}
	if err != nil {
		s.w.violate("S25", "fold the log: %v", err)
		return
	}
	s.w.log.term++
	s.goOn(state, len(s.w.log.entries))
	s.term = s.w.log.term
	s.down, s.next, s.lastTick, s.last = false, 0, 0, 0
	s.owed, s.processes = nil, nil
	clear(s.handed)
	now := s.now()
	s.safe, s.began = safemode.Begin(state.Hosts, now.Add(replayWait)), now
	clear(s.told)
	s.until = now.Add(offlineAfter)
	s.roll.Call(s.until)
	for name := range s.lastSeen { // order-free: every host gets the same grace
		s.lastSeen[name] = now
	}
	s.w.trace("the server is back at %d events", s.head)
	if head == s.head && !s.w.log.cut {
		s.sameAs(was, now)
	}
	s.nudge()
}

// snapshot has a state written and read back, as a server begins with one.
func snapshot(s *plan.State, docs plan.Documents) (*plan.State, error) {
	raw, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	fresh := plan.New(docs)
	if err := json.Unmarshal(raw, fresh); err != nil {
		return nil, err
	}
	return fresh, plan.Restore(fresh, docs)
}

// sameAs checks S26 on copies: neither decision is committed.
func (s *server) sameAs(was *plan.State, now clock.Instant) {
	if s.w.cfg.Seed%2 != 0 {
		return // half of the schedules will do
	}
	fresh, err := s.w.log.fold()
	if err != nil {
		return // reported by start
	}
	was.Nudge()
	a, errA := plan.Next(was, now)
	b, errB := plan.Next(fresh, now)
	if errA != nil || errB != nil {
		return // a state that could not commit decides nothing that matters
	}
	same := len(a.Decisions) == len(b.Decisions)
	for i := 0; same && i < len(a.Decisions); i++ {
		x, y := a.Decisions[i].Entry, b.Decisions[i].Entry
		same = x.Type == y.Type && x.Host == y.Host && string(x.Body) == string(y.Body)
	}
	if !same {
		s.w.violate("S26", "the live state decides %d things, the folded one %d", len(a.Decisions), len(b.Decisions))
	}
}

// stop ends a server that was replaced.
func (s *server) stop(words string) {
	if s.w.stale != s {
		s.w.violate("S31", "the leader was refused by its own log")
		return
	}
	s.w.trace("the replaced server %s", words)
	s.down, s.gone = true, true
	s.hangUp()
	s.w.stale = nil
}

// usurp pauses the leader and has another one take over. When the first wakes up
// it goes on with what it knows until a write tells it.
func (w *World) usurp(pause clock.Duration) {
	old := w.server
	if old.down || w.stale != nil || w.paused {
		return
	}
	w.trace("the server is paused for %s", pause)
	old.down = true
	old.hangUp()
	next := newServer(w)
	next.wall, next.down = old.wall, true
	for name, at := range old.lastSeen { // order-free: it is copied
		next.lastSeen[name] = at
	}
	w.server, w.paused = next, true
	next.start()
	next.watch()
	w.after(pause, func() {
		w.paused = false
		if w.now >= w.calm {
			old.gone = true
			return
		}
		w.trace("the replaced server wakes up")
		old.down, old.ticking, w.stale = false, false, old
		old.nudge()
	})
}

// serverClock has the server's wall clock jump.
func (w *World) serverClock(jump clock.Duration) { w.server.wall += jump }

// restore puts the log back to a part of itself and starts the server on it. The
// release is pushed again, as people do after that.
func (w *World) restore(share float64, down clock.Duration) {
	l := w.log
	if l.whole == 0 || w.server.down || w.stale != nil || w.paused {
		return
	}
	n := l.whole + int(share*float64(len(l.entries)-l.whole))
	w.trace("the server is restored from a backup of %d of %d events", n, len(l.entries))
	l.truncate(n)
	w.truth.restored()
	w.server.die(down)
	w.after(down+clock.Second, w.again)
}

// choose is the server that a message of a host arrives at.
func (w *World) choose() *server {
	if w.stale != nil && w.rand.IntN(2) == 0 {
		return w.stale
	}
	return w.server
}

// quiet reports whether the server has nothing left to do by itself.
func (s *server) quiet(why *plan.Reasons) bool {
	if s.down || s.ticking || s.w.stale != nil {
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
func (s *server) held(why *plan.Reasons, r *rollout.Rollout) bool {
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
func stuckFor(why *plan.Reasons, name string) bool {
	a, err := why.Why(name)
	if err != nil || a.Repair == nil || a.Repair.Block == nil {
		return false
	}
	c := a.Repair.Block.Code
	return c != gate.Presence && c != gate.Backoff && c != gate.Window // a failed host may hold the slot
}
