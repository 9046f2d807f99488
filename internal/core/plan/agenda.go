package plan

import "github.com/steadyfleet/steady/internal/core/clock"

// agenda is what the next run of the planner looks at. It decides nothing: all of it
// follows from the state, and a restored state has it anew.
type agenda struct {
	dirty        map[string]bool          // channels to plan
	repairsDirty bool                     // something touched the queue of repairs
	timers       clock.Queue[timer]       // instants at which a host or a channel must be looked at
	openings     map[string]clock.Instant // of channels that wait for a maintenance window
}

// timer asks for a look at a host, or at a channel.
type timer struct{ host, channel string }

// wake has a host looked at when an instant comes; zero never does.
func (a *agenda) wake(at clock.Instant, host string) {
	a.wakeAt(at, timer{host: host})
}

func (a *agenda) wakeAt(at clock.Instant, t timer) {
	if at != 0 {
		a.timers.Push(at, t)
	}
}

// wakeChannel has a channel planned at an instant, once.
func (a *agenda) wakeChannel(channel string, at, now clock.Instant) {
	if at == 0 {
		return
	}
	if due := a.openings[channel]; due > now && due <= at {
		return
	}
	a.openings[channel] = at
	a.wakeAt(at, timer{channel: channel})
}

// markGated has the channels planned again that wait for one of the host's.
func (s *State) markGated(h *Host) {
	for _, at := range h.memberships {
		for _, e := range s.Edges {
			if e.Gates == at.r.Channel && s.Channels[e.Gated] != nil {
				s.dirty[e.Gated] = true
			}
		}
	}
}

// markHost has the host's channels planned again.
func (a *agenda) markHost(h *Host) {
	for _, at := range h.memberships {
		a.dirty[at.r.Channel] = true
	}
}
