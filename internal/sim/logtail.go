package sim

import (
	"fmt"
	"math/rand/v2"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	coreserver "github.com/steadyfleet/steady/internal/core/server"
)

// A server whose log lost its end beside its anchor.

// lostTails has the log of some schedules lose its end. The draw is its own, so that other
// schedules stay as they are.
func (p *planning) lostTails() {
	w, r := p.w, rand.New(rand.NewPCG(p.w.cfg.Seed, 0x5e7bac))
	often := 16
	if w.cfg.Restore == Always {
		often = 2
	}
	if r.IntN(often) != 0 || w.cfg.Restore == Never {
		return
	}
	at := epoch.Add(clock.Duration(r.Int64N(int64(w.cfg.Faulty))))
	share, wait := r.Float64(), clock.Second+clock.Duration(r.Int64N(int64(5*clock.Minute)))
	p.add(at, func() { w.loseTail(share, wait) }, "the server's log loses its end, and its owner goes on without after %s", wait)
}

// loseTail has the server start on a part of its log, whose anchor stays.
func (w *World) loseTail(share float64, wait clock.Duration) {
	l := w.log
	if l.whole == 0 || w.server.away() || w.stale != nil || w.paused {
		return
	}
	n := l.whole + int(share*float64(len(l.entries)-l.whole))
	w.trace("the log loses what came after %d of %d events", n, len(l.entries))
	acknowledged := l.acknowledged
	l.truncate(n)
	l.acknowledged = acknowledged
	w.checks.restored()
	w.server.die(clock.Second)
	w.after(clock.Second+wait, w.endSafeMode)
	w.after(2*clock.Second, w.rounds)
}

// rounds has a server that refuses everybody look at what is due by time, as its shell does.
func (w *World) rounds() {
	if w.log.setBack() == nil {
		return
	}
	if s := w.server; !s.down {
		s.run()
	}
	w.after(30*clock.Second, w.rounds)
}

// endSafeMode is the word of the owner of the data folder, who repeats it to a server that dies at it.
func (w *World) endSafeMode() {
	s := w.server
	if s.down {
		w.after(5*clock.Second, w.endSafeMode)
		return
	}
	if w.log.setBack() == nil {
		return
	}
	if ok, _ := s.step(coreserver.EndSafeMode{Actor: "owner", Reason: "drill", Owner: true}); !ok {
		w.after(5*clock.Second, w.endSafeMode)
		return
	}
	w.trace("the owner ended the safe mode")
	s.began = s.now()
	s.until = s.began.Add(times.OfflineAfter)
	w.after(clock.Second, w.again)
}

// away reports whether nobody gets an answer: the server is down, or refuses everybody.
func (s *server) away() bool { return s.down || s.core.SetBack() != nil }

// setBack is what a server finds as it starts on the log.
func (l *store) setBack() *coreserver.SetBack {
	if len(l.entries) >= l.acknowledged {
		return nil
	}
	return &coreserver.SetBack{Logged: uint64(len(l.entries)), Acknowledged: uint64(l.acknowledged), Reason: "its end is lost"}
}

// closed checks that nothing is appended to a log that was set back but the owner's word.
func (l *store) closed(entries []event.Entry) error {
	if l.setBack() == nil || len(entries) == 1 && entries[0].Type == (event.SafeModeEnded{}).EventType() {
		return nil
	}
	return fmt.Errorf("%s was appended to a log of %d events, of which %d were acknowledged", entries[0].Type, len(l.entries), l.acknowledged)
}
