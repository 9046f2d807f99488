package sim

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"

	"github.com/steadyfleet/steady/internal/core/audit"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	coreserver "github.com/steadyfleet/steady/internal/core/server"
)

// A log that is pruned behind a checkpoint: servers and the audit go on from there. The
// judge keeps what is gone, and holds what they make of the rest against the whole.

// base is what the first n events come to, as encoded when the log had made of them.
type base struct {
	n, made      int
	state, audit []byte
}

// prunes has the log of some schedules pruned. The draw is its own, so that other
// schedules stay as they are.
func (p *planning) prunes() {
	w, q := p.w, &planning{w: p.w, r: rand.New(rand.NewPCG(p.w.cfg.Seed, 0x70726e))}
	if q.r.IntN(4) != 0 {
		return
	}
	for range 1 + q.r.IntN(3) {
		age := q.between(0, 3*clock.Minute)
		q.add(q.some(0), func() { w.checkpoint(age) }, "the log is pruned to a checkpoint %s old", age)
	}
}

// checkpoint records what the log comes to, and prunes it some time later.
func (w *World) checkpoint(age clock.Duration) {
	s, l := w.server, w.log
	if s.away() || w.stale != nil || len(l.entries) == 0 {
		return
	}
	state, err := json.Marshal(s.state)
	b := base{n: len(l.entries), state: state}
	if err == nil {
		b.audit, err = l.audit.Snapshot()
	}
	if err != nil {
		w.violate("core", "%v", err)
		return
	}
	made := event.LogCheckpoint{Through: uint64(b.n), Hash: make([]byte, 32), Format: "sim", State: digest.Of(b.state), Audit: digest.Of(b.audit)}
	ok, refused := s.step(coreserver.Record{Decide: func(*coreserver.State, clock.Instant) ([]event.Event, error) { return []event.Event{made}, nil }})
	if !ok || refused != nil {
		return
	}
	b.made = len(l.entries)
	w.after(age, func() { w.prune(b) })
}

// prune has everybody who starts from now on begin at a checkpoint, unless the log lost it.
func (w *World) prune(b base) {
	l := w.log
	if b.n <= l.base().n || b.made > len(l.entries) {
		return
	}
	ev, is := l.events[b.made-1].(event.LogCheckpoint)
	if !is || ev.State != digest.Of(b.state) || ev.Audit != digest.Of(b.audit) {
		return
	}
	w.trace("the log is pruned through event %d of %d", b.n, len(l.entries))
	b.made = len(l.entries)
	l.bases = append(l.bases, b)
	l.auditAgain()
}

// base is what the log was pruned to last.
func (l *store) base() base {
	if len(l.bases) == 0 {
		return base{}
	}
	return l.bases[len(l.bases)-1]
}

func (l *store) auditFrom(b base) (*audit.Log, error) {
	if b.audit == nil {
		return audit.NewLog(l.w.docs), nil
	}
	return audit.Restore(b.audit, l.w.docs)
}

// auditAgain has the audit begin anew, as with a server, and come to where the whole log
// brings one.
func (l *store) auditAgain() {
	var logs []*audit.Log
	for _, b := range []base{{}, l.base()} {
		log, err := l.auditFrom(b)
		if err != nil {
			l.w.violate("S25", "the audit does not begin at event %d: %v", b.n, err)
			return
		}
		for i := b.n; i < len(l.entries); i++ {
			log.ObserveEvent(uint64(i)+1, l.entries[i], l.events[i])
		}
		logs = append(logs, log)
	}
	whole, err1 := logs[0].Snapshot()
	l.audit = logs[1]
	if kept, err2 := l.audit.Snapshot(); err1 != nil || err2 != nil || !bytes.Equal(whole, kept) {
		l.w.violate("S25", "the audit of the log behind event %d does not know what that of the whole knows (%v, %v): %s and %s", l.base().n, err1, err2, kept, whole)
	}
}
