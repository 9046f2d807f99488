package server

import (
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/plan"
)

// safeMode lists the hosts that know a longer history than the log. What they claim is
// unsigned, so it holds others up only in the window after a start (a log is restored
// while its server is down), of hosts that the log had then, once for each, and never past
// the end of that one window. The zero value believes nobody.
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
	if s.until == 0 || s.known[host] != incarnation || incarnation == 0 {
		return false
	}
	if d := s.owing[host]; d != nil {
		if !d.paid && d.incarnation == incarnation {
			d.need = max(d.need, need)
		}
		return false
	}
	over := s.until.Reached(now)
	s.owing[host] = &debt{need: need, incarnation: incarnation, late: over}
	return !over
}

// acked is up to where a host claims to have been acknowledged; zero if it claims nothing.
func (s *safeMode) acked(host string, incarnation uint64) uint64 {
	if d := s.owing[host]; d != nil && !d.paid && d.incarnation == incarnation {
		return d.need
	}
	return 0
}

// block blocks everything but ways back for the first host by name that still owes a
// part of the log, or is nil.
func (s *safeMode) block(hosts map[string]*plan.Host, now clock.Instant) *gate.Block {
	if s.until.Reached(now) {
		return nil
	}
	first, n := "", 0
	for name, d := range s.owing { // order-free: it counts, and takes the first by name
		if d.check(hosts[name]) {
			continue
		}
		if n++; first == "" || name < first {
			first = name
		}
	}
	return gate.CheckBehind(first, n-1, s.until)
}

// owed lists by name what hosts owe while block blocks for it.
func (s *safeMode) owed(hosts map[string]*plan.Host, now clock.Instant) (list []Owed) {
	if s.until.Reached(now) {
		return nil
	}
	for name, d := range s.owing { // order-free: sorted below
		if h := hosts[name]; !d.check(h) {
			list = append(list, Owed{name, h.Seq, d.need})
		}
	}
	slices.SortFunc(list, func(a, b Owed) int { return strings.Compare(a.Host, b.Host) })
	return list
}

// end has nothing more be waited for.
func (s *safeMode) end(now clock.Instant) { s.until = min(s.until, now) }

// Owed is what a host has to send again: the log has its events up to Logged, and it was
// acknowledged those up to Acknowledged as it says.
type Owed struct {
	Host         string `json:"host"`
	Logged       uint64 `json:"logged"`
	Acknowledged uint64 `json:"acknowledged"`
}

// RestoreWait is what a server waits for since it began, because its log lacks, or may
// lack, what hosts know. Nothing but ways back is granted until Until, or until Owed is empty. A
// host of Unheard has not said yet how far its events go: until UnheardUntil it counts
// against budgets when a claim comes.
type RestoreWait struct {
	Owed         []Owed        `json:"owed"`
	Until        clock.Instant `json:"until,omitempty"`
	Unheard      []string      `json:"unheard"`
	UnheardUntil clock.Instant `json:"unheardUntil,omitempty"`
}

// RestoreWait lists what the server waits for.
func (s *Server) RestoreWait(now clock.Instant) RestoreWait {
	w := RestoreWait{Owed: s.safe.owed(s.Plan.Hosts, now), Unheard: []string{}}
	if len(w.Owed) > 0 {
		w.Until = s.safe.until
	} else {
		w.Owed = []Owed{}
	}
	if missing := s.roll.missingHosts(s.Plan.Hosts, s.contacts.LastEvent, now); missing != nil {
		for name := range missing {
			if h := s.Plan.Hosts[name]; h.Incarnation != 0 && h.IdentityStatus() == "" {
				w.Unheard = append(w.Unheard, name)
			}
		}
		slices.Sort(w.Unheard)
		if len(w.Unheard) > 0 {
			w.UnheardUntil = s.roll.until
		}
	}
	return w
}

// check reports whether the host has sent what it owed, or never will: its identity
// ended, or it enrolled again.
func (d *debt) check(h *plan.Host) bool {
	d.paid = d.paid || h == nil || h.Seq >= d.need || h.Incarnation != d.incarnation || !h.Reports()
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
