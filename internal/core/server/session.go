package server

import (
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/plan"
)

// Session is what a process remembers of one host's requests. The zero value is of a
// host that made none. It belongs to one goroutine at a time.
type Session struct {
	processes processes
	// offered is the grant that was offered last, how often, and when, so that a host
	// which is busy with it is not offered it over and over.
	offered   string
	times     int
	offeredAt clock.Instant
	share     RateBucket    // of the log
	limitedAt clock.Instant // when share was used up last
	forking   bool          // a second history is being recorded
}

// A grant that was offered is offered again, for the answer may have been lost, but each
// time later: an agent asks again while it prepares.
const (
	againBase = 4 * clock.Second
	againCap  = 15 * clock.Second
)

// Offer returns the grant of a view to offer now, or nil and how long to wait before it
// is asked for again; zero: until the view changes.
func (s *Session) Offer(v *View, now clock.Instant) (g *plan.Grant, wait clock.Duration) {
	if g = v.Offer(now); g == nil {
		return nil, 0
	}
	if s.offered != g.ID {
		s.offered, s.times, s.offeredAt = g.ID, 1, now
		return g, 0
	}
	next := s.offeredAt.Add(min(againBase<<min(s.times-1, 10), againCap))
	if !next.Reached(now) {
		return nil, next.Sub(now)
	}
	s.times++
	s.offeredAt = now
	return g, 0
}

// eventWeight is what the record of an event takes beside its body, in bytes, about.
const eventWeight = 512

// Weight is what entries take of a host's share of the log, in bytes.
func Weight(entries []event.Entry) int64 {
	n := int64(0)
	for i := range entries {
		n += eventWeight + int64(len(entries[i].Body))
	}
	return n
}

// SpendLog takes bytes of the host's share of the log, or returns how long to wait for
// them. News is true once an hour while the share is used up.
func (s *Session) SpendLog(l RateLimit, bytes int64, now clock.Instant) (wait clock.Duration, news bool) {
	wait = s.share.Spend(l, bytes, now)
	if news = wait > 0 && (s.limitedAt == 0 || now.Sub(s.limitedAt) >= clock.Hour); news {
		s.limitedAt = now
	}
	return wait, news
}

// ReturnLog gives bytes back that were not logged.
func (s *Session) ReturnLog(l RateLimit, bytes int64) { s.share.Return(l, bytes) }

// BeginFork reports whether the caller is the one to record a second history; it calls
// EndFork when it did or could not.
func (s *Session) BeginFork(v *View) bool {
	if s.forking || v.Forked {
		return false
	}
	s.forking = true
	return true
}

// EndFork follows BeginFork.
func (s *Session) EndFork() { s.forking = false }

// Heartbeat is a host's report that it is there.
type Heartbeat struct {
	Incarnation uint64
	LastSeq     uint64 // its newest event
	Pending     uint64 // events that it says are not acknowledged
	Repairing   string // the grant that it repairs under
	Process     string // names its process; empty for an agent that does not say
	Mark        uint64 // the newest that it was given
	Parked      string // the code of why it does nothing more, if it does not
}

// HeartbeatAnswer is what a heartbeat is answered, and what follows from it.
type HeartbeatAnswer struct {
	Acked uint64
	// Mark is for the agent to send back; zero for one that names no process.
	Mark uint64
	// Interval is when the next heartbeat is wanted.
	Interval clock.Duration
	// Ahead is how many events the host claims to have acknowledged when the log has
	// less, else zero.
	Ahead uint64
	// Believed says that LastSeq may be believed: the host acts on no claim that the log
	// lacks.
	Believed bool
	// Forked says that two processes are proven to share the identity, and that the log
	// does not know.
	Forked bool
	// Parked is the code that the host gives for being parked, when the log lacks that.
	Parked string
	// Behind says that the log holds events that the host says it never made.
	Behind bool
}

// maxParkedCode bounds what a host may call its reason, in bytes.
const maxParkedCode = 64

// Heartbeat answers a heartbeat; it never advances a state. Every is the host's interval
// and base a random number.
func (s *Session) Heartbeat(v *View, m Heartbeat, every clock.Duration, base uint64) HeartbeatAnswer {
	a := HeartbeatAnswer{Acked: v.Seq, Interval: every}
	if m.Incarnation != v.Incarnation {
		return a
	}
	if acked := m.LastSeq - min(m.LastSeq, m.Pending); acked > v.Seq {
		a.Ahead = acked
	}
	a.Behind = m.LastSeq < v.Seq || v.Forked
	if !v.Parked {
		a.Parked = m.Parked[:min(len(m.Parked), maxParkedCode)]
	}
	a.Believed = m.Repairing == "" || v.Grant != nil && v.Grant.Claimed && v.Grant.ID == m.Repairing
	mark, soon, twice := s.processes.beat(&m, base)
	a.Mark, a.Forked = mark, twice && !v.Forked
	if soon {
		a.Interval = min(a.Interval, soonInterval)
	}
	return a
}

// soonInterval is how soon the next heartbeat is asked for when another process than
// before speaks for a host.
const soonInterval = 5 * clock.Second

const (
	maxFormer    = 8
	maxProcessID = 64
)

// processes finds an identity that runs twice by its heartbeats alone, also when
// both copies have nothing to tell. Every reply carries a mark, and an agent sends
// back the latest that it was given: that it was alive after that reply is then
// proven, however late the heartbeat arrives. A restart, a lost answer and a late
// or repeated request can never look like a fork: only a process that was alive
// before another one, and again after it, can answer so.
type processes struct {
	incarnation uint64
	base, seq   uint64 // marks given out are above base, up to seq; base is random, so that those of another run are strange
	current     string
	since       uint64   // the mark at which current was proven alive
	former      []string // those before it, newest last
}

// beat returns the mark for the reply, whether another heartbeat is wanted soon, and
// whether the identity runs twice.
func (p *processes) beat(m *Heartbeat, base uint64) (mark uint64, soon, twice bool) {
	if m.Process == "" || len(m.Process) > maxProcessID {
		return 0, false, false // an agent that does not say
	}
	if p.base == 0 || m.Incarnation != p.incarnation {
		base = base>>13 + 1 // whole in JSON
		*p = processes{incarnation: m.Incarnation, base: base, seq: base}
	}
	p.seq++
	known := m.Mark > p.base && m.Mark < p.seq // given by this run
	switch {
	case p.current == "":
		p.current, p.since = m.Process, p.seq
	case m.Process == p.current:
	case slices.Contains(p.former, m.Process):
		// It was there before current was. Proven alive after current was, it is
		// a second one.
		twice = known && m.Mark >= p.since
		soon = !twice
	case known && m.Mark >= p.since:
		// It was first heard from after current was, and is alive since. One whose
		// mark is older may have died before current began, and be heard late.
		if p.former = append(p.former, p.current); len(p.former) > maxFormer {
			p.former = p.former[1:]
		}
		p.current, p.since = m.Process, p.seq
	default:
		soon = true
	}
	return p.seq, soon, twice
}
