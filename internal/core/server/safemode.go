package server

import (
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/plan"
)

// safeMode lists the hosts that know a longer history than the log. What they claim is
// unsigned, so it counts only in the window after a start (a log is restored while its
// server is down), of hosts that the log had then, once for each, and never past the end
// of that one window. The zero value believes
// nobody.
type safeMode struct {
	until clock.Instant
	known map[string]uint64 // the incarnations of the hosts at the start
	owing map[string]*debt
}

// debt is the part of the history that a host has to send again.
type debt struct {
	need        uint64
	incarnation uint64
	paid        bool // the host sent it, or its identity ended: it is not believed again
	late        bool // reported
}

// beginSafeMode is the state of a server that starts: the hosts that it has are believed until
// an instant.
func beginSafeMode(hosts map[string]*plan.Host, until clock.Instant) safeMode {
	s := safeMode{until: until, known: make(map[string]uint64, len(hosts)), owing: map[string]*debt{}}
	for name, h := range hosts { // order-free: it fills a map
		s.known[name] = h.Incarnation
	}
	return s
}

// claim takes a host's claim that its events up to need were acknowledged, and
// reports whether the server waits for this host from now on.
func (s *safeMode) claim(host string, incarnation, need uint64, now clock.Instant) bool {
	if s.until == 0 || s.until.Reached(now) || s.known[host] != incarnation || incarnation == 0 {
		return false
	}
	if d := s.owing[host]; d != nil {
		if !d.paid && d.incarnation == incarnation {
			d.need = max(d.need, need)
		}
		return false
	}
	s.owing[host] = &debt{need: need, incarnation: incarnation}
	return true
}

// block blocks everything but ways back for the first host by name that still owes a
// part of the log, or is nil.
func (s *safeMode) block(hosts map[string]*plan.Host, now clock.Instant) *gate.Block {
	if s.until.Reached(now) {
		return nil
	}
	first := ""
	for name, d := range s.owing { // order-free: the first by name
		if (first == "" || name < first) && !d.check(hosts[name]) {
			first = name
		}
	}
	return gate.CheckBehind(first, s.until)
}

// check reports whether the host has sent what it owed, or never will: its identity
// ended, or it enrolled again.
func (d *debt) check(h *plan.Host) bool {
	d.paid = d.paid || h == nil || h.Seq >= d.need || h.Incarnation != d.incarnation || h.IdentityStatus() != ""
	return d.paid
}

// waiting reports whether block blocks, and names each host that had not sent
// what it owed when the window ended, once.
func (s *safeMode) waiting(hosts map[string]*plan.Host, now clock.Instant) (waiting bool, late []string) {
	if len(s.owing) == 0 {
		return false, nil
	}
	if !s.until.Reached(now) {
		return s.block(hosts, now) != nil, nil
	}
	for name, d := range s.owing { // order-free: sorted below
		if !d.check(hosts[name]) && !d.late {
			d.late = true
			late = append(late, name)
		}
	}
	slices.Sort(late)
	return false, late
}
