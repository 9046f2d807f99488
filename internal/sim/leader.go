package sim

import (
	"math/rand/v2"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/plan"
	coreserver "github.com/steadyfleet/steady/internal/core/server"
)

// How servers end, begin again on the log, replace each other, and lose a part of it.

// die throws the state away; the process is back after a while and folds the
// log again.
func (s *server) die(down clock.Duration) {
	s.down = true
	s.w.trace("the server dies")
	s.close()
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
		state, err = plan.Clone(state, s.w.docs) // as a server begins with a snapshot
	}
	if err != nil {
		s.w.violate("S25", "fold the log: %v", err)
		return
	}
	s.w.log.term++
	s.term, s.down = s.w.log.term, false
	s.begin(state, len(s.w.log.entries))
	s.began = s.now()
	s.until = s.began.Add(times.OfflineAfter)
	s.w.trace("the server is back at %d events", s.head)
	if head == s.head && !s.w.log.cut {
		if differs := differ(was, state); differs != "" {
			s.w.violate("S25", "%s is not what the log folds to", differs)
		}
		s.sameAs(was, s.began)
	}
	if ok, refused := s.step(coreserver.Resumed{Reason: "it began to lead"}); !ok && refused == nil {
		return // it died
	}
	s.wake()
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
	was.Lead("") // grants carry who gave them
	was.MarkAll()
	a, errA := plan.Next(was, now)
	b, errB := plan.Next(fresh, now)
	if errA != nil || errB != nil {
		return // a state that could not commit decides nothing that matters
	}
	same := len(a.Events) == len(b.Events)
	for i := 0; same && i < len(a.Events); i++ {
		x, y := a.Events[i], b.Events[i]
		same = x.Type == y.Type && x.Host() == y.Host() && string(x.Body) == string(y.Body)
	}
	if !same {
		s.w.violate("S26", "the live state decides %d things, the folded one %d", len(a.Events), len(b.Events))
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
	s.close()
	s.hangUp()
	s.w.stale = nil
}

// takeOver pauses the leader and has another one take over. When the first wakes up
// it goes on with what it knows until a write tells it.
func (w *World) takeOver(pause clock.Duration) {
	old := w.server
	if old.away() || w.stale != nil || w.paused {
		return
	}
	w.trace("the server is paused for %s", pause)
	w.checks.labs.doubted = true
	old.down = true
	old.hangUp()
	next := newServer(w)
	next.wall, next.down = old.wall, true
	for name, at := range old.lastSeen { // order-free: it is copied
		next.lastSeen[name] = at
	}
	w.server, w.paused = next, true
	next.start()
	w.after(pause, func() {
		w.paused = false
		if w.now >= w.faultsEnd {
			old.gone = true
			old.close()
			return
		}
		w.trace("the replaced server wakes up")
		old.down, w.stale = false, old
		old.wakeAt = 0
		old.wake()
	})
}

// serverClock has the server's wall clock jump.
func (w *World) serverClock(jump clock.Duration) {
	w.server.wall += jump
	w.checks.labs.unquiet = w.now
	w.server.turnsAt(w.now)
}

// restore puts the log back to a part of itself and starts the server on it. The
// release is pushed again, as people do after that.
func (w *World) restore(share float64, down clock.Duration) {
	l := w.log
	if l.whole == 0 || w.server.away() || w.stale != nil || w.paused {
		return
	}
	n := l.whole + int(share*float64(len(l.entries)-l.whole))
	w.trace("the server is restored from a backup of %d of %d events", n, len(l.entries))
	l.truncate(n)
	w.checks.restored()
	w.server.die(down)
	w.after(down+clock.Second, w.again)
	if w.impatient > 0 {
		w.after(down+w.impatient, w.endWait)
	}
}

// impatience has operators of half the schedules end the wait of a restored server. The draw is
// its own, so that other schedules stay as they are.
func (p *planning) impatience() {
	r := rand.New(rand.NewPCG(p.w.cfg.Seed, 0x1e4d))
	if r.IntN(2) != 0 {
		return
	}
	wait := clock.Second + clock.Duration(r.Int64N(int64(clock.Minute)))
	p.add(epoch, func() { p.w.impatient = wait }, "operators end the wait of a restored server after %s", wait)
}

// endWait has an operator end what a restored server waits for, as soon as it does.
func (w *World) endWait() {
	s := w.server
	if s.away() {
		return
	}
	waits := len(s.core.RestoreWait(s.now()).Owed) > 0
	ok, refused := s.step(coreserver.EndSafeMode{Actor: "operator", Reason: "drill"})
	if !ok {
		return
	}
	if waits != (refused == nil) {
		w.violate("L6", "a server that waits for hosts, %t, answers an operator who ends that with %v", waits, refused)
	}
	if waits {
		w.trace("an operator ended the wait for what hosts owe")
		clear(s.owed)
		s.began = s.began.Add(-times.ReplayWait) // of the judge: the time is over
	} else if !s.began.Add(times.ReplayWait).Reached(s.now()) {
		w.after(10*clock.Second, w.endWait)
	}
}

// choose is the server that a message of a host arrives at.
func (w *World) choose() *server {
	if w.stale != nil && w.rand.IntN(2) == 0 {
		return w.stale
	}
	return w.server
}
