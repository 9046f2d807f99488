package server

import (
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/plan"
)

// presence has one check for every host that is online, so that ten thousand idle hosts
// cost one check each in a period of grace.
type presence struct {
	grace   clock.Duration
	since   clock.Instant       // a host counts as heard from then, at least
	checks  clock.Queue[string] // hosts
	checked map[string]bool
}

// restart begins to check every host that is online, with a fresh period of grace.
func (p *presence) restart(s *plan.State, grace clock.Duration, now clock.Instant) {
	*p = presence{grace: grace, since: now, checked: make(map[string]bool, len(s.Hosts))}
	for _, name := range s.HostNames() {
		p.add(s.Hosts[name], now)
	}
}

// add begins to check a host that is online, if it does not yet.
func (p *presence) add(h *plan.Host, now clock.Instant) {
	if h != nil && h.Online && !p.checked[h.Name] {
		p.checked[h.Name] = true
		p.checks.Push(now.Add(p.grace), h.Name)
	}
}

// next is when a host has to be checked; zero: never.
func (p *presence) next() clock.Instant { return p.checks.Next() }

// silence is a host that was not heard from for the period of grace.
type silence struct {
	host string
	last clock.Instant
}

// silent checks every host whose time has come and returns those that are silent.
func (p *presence) silent(s *plan.State, contacts Contacts, now clock.Instant) (silent []silence) {
	for p.checks.Due(now) {
		_, name := p.checks.Pop()
		delete(p.checked, name)
		if h := s.Hosts[name]; h == nil || !h.Online {
			continue
		}
		last, polling := contacts.LastSeen(name)
		if last = max(last, p.since); polling {
			last = now
		}
		if due := last.Add(p.grace); due > now {
			p.checked[name] = true
			p.checks.Push(due, name)
			continue
		}
		silent = append(silent, silence{name, last})
	}
	return silent
}
