package plan

import (
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/host"
)

// MaxFreeze bounds how far ahead a freeze may end. One that is meant to last is
// the release's business.
const MaxFreeze = 90 * clock.Day

// Freezing is an operator's word that a host is given no grant but one to go
// back.
type Freezing struct {
	Until  clock.Instant `json:"until"`
	Reason string        `json:"reason"`
	Actor  string        `json:"actor"`
}

// frozenUntil is when the host's freeze ends; zero when there is none.
func (h *Host) frozenUntil() clock.Instant {
	if h.Freeze == nil {
		return 0
	}
	return h.Freeze.Until
}

// frozen blocks whatever a frozen host may not be granted.
func (h *Host) frozen(now clock.Instant) *gate.Block {
	if h.Freeze == nil {
		return nil
	}
	return gate.CheckFreeze(h.Name, h.Freeze.Until, h.Freeze.Reason+" ("+h.Freeze.Actor+")", now)
}

func (s *State) foldFreeze(h *Host, ev event.Event) {
	switch ev := ev.(type) {
	case event.HostFrozen:
		h.Freeze = &Freezing{Until: ev.Until, Reason: ev.Reason, Actor: ev.Actor}
		s.wake(ev.Until, h.Name)
	case event.HostUnfrozen:
		h.Freeze = nil
	}
	s.repairs = s.repairs || h.Repair != nil
	s.markHost(h)
}

// thaw ends a freeze whose time has come.
func (p *planner) thaw(h *Host) {
	if f := h.Freeze; f != nil && f.Until.Reached(p.now) {
		ev := event.HostUnfrozen{Reason: "the freeze until " + f.Until.String() + " is over"}
		p.do(unfreeze{ev, h.Name}, h.Name, ev)
	}
}

// Freeze keeps a host from every grant but one to go back until an instant, and
// takes back what it was offered. What it claimed it finishes.
func Freeze(s *State, name string, until clock.Instant, reason, actor string, now clock.Instant) ([]event.Entry, error) {
	h := s.Hosts[name]
	switch {
	case h == nil:
		return nil, unknownErrorf("there is no host %q; steady host list shows them", name)
	case until <= now:
		return nil, verbErrorf("a freeze of host %s until %s is over already; steady host unfreeze ends one", name, until)
	case until > now.Add(MaxFreeze):
		return nil, verbErrorf("a freeze ends within %s; to keep host %s out for longer, take it out of the release", MaxFreeze, name)
	}
	d := &decider{s: s, now: now}
	d.add(name, event.HostFrozen{Until: until, Reason: reason, Actor: actor})
	if g := h.Grant; g != nil && !g.Claimed && g.Purpose != host.Back {
		d.add(name, event.GrantEnded{Grant: g.ID, Reason: "host " + name + " was frozen: " + reason})
	}
	return d.entries, d.err
}

// Unfreeze ends a host's freeze.
func Unfreeze(s *State, name, reason, actor string, now clock.Instant) ([]event.Entry, error) {
	h := s.Hosts[name]
	if h == nil || h.Freeze == nil {
		return nil, verbErrorf("host %s is not frozen", name)
	}
	return Record(s, name, now, event.HostUnfrozen{Reason: reason, Actor: actor})
}
