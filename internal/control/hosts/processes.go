package hosts

import (
	"math/rand/v2"
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/wire"
)

// Hurry is how soon the next heartbeat is asked for when another process than
// before speaks for a host.
const Hurry = 5 * clock.Second

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

// beat takes in a heartbeat. It returns the mark for the reply, whether another
// is wanted soon, and whether the identity runs twice.
func (p *processes) beat(m *wire.Heartbeat) (mark uint64, hurry, twice bool) {
	if m.Process == "" || len(m.Process) > maxProcessID {
		return 0, false, false // an agent that does not say
	}
	if p.base == 0 || m.Incarnation != p.incarnation {
		base := rand.Uint64N(1<<51) + 1
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
		hurry = !twice
	case known && m.Mark >= p.since:
		// It was first heard from after current was, and is alive since. One whose
		// mark is older may have died before current began, and be heard late.
		if p.former = append(p.former, p.current); len(p.former) > maxFormer {
			p.former = p.former[1:]
		}
		p.current, p.since = m.Process, p.seq
	default:
		hurry = true
	}
	return p.seq, hurry, twice
}

// Beat takes in which process of the host sent a heartbeat. It returns the mark
// for the reply, zero for an agent that names no process; whether the next
// heartbeat is wanted within Hurry; and whether two processes are proven to share
// the identity.
func (h *Host) Beat(m *wire.Heartbeat) (mark uint64, hurry, twice bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.processes.beat(m)
}
