package plan

import (
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/rollout"
	"github.com/steadyfleet/steady/internal/core/window"
)

// Maintenance windows hold grants to activate and to repair by stopping what
// runs. They never hold the way back, nor what a host restores by itself.

// closed reports whether a maintenance window of these, by index into the
// manifest's list, keeps hosts of a rollout back, and has the channel planned
// again when all are open.
func (p *planner) closed(r *rollout.Rollout, windows []int) bool {
	if len(windows) == 0 {
		return false
	}
	b := windowBlock(r, windows, p.now)
	if b == nil {
		return false
	}
	p.s.wakeChannel(r.Channel, b.Earliest, p.now)
	return true
}

// windowBlock asks the gate for hosts that have these windows.
func windowBlock(r *rollout.Rollout, windows []int, now clock.Instant) *gate.Block {
	ws := make([]window.Window, 0, len(windows))
	for _, i := range windows {
		ws = append(ws, r.Plan.Header.Windows[i])
	}
	return gate.CheckWindow("these hosts", ws, now)
}

// wakeChannel has a channel planned at an instant, once.
func (s *State) wakeChannel(channel string, at, now clock.Instant) {
	if at == 0 {
		return
	}
	if due := s.openings[channel]; due > now && due <= at {
		return
	}
	s.openings[channel] = at
	s.wakeAt(timer{at: at, channel: channel})
}

// windowHolds is the block of a rollout whose open waves wait for nothing but
// maintenance windows; nil when something else holds a host that is ready.
func (s *State) windowHolds(r *rollout.Rollout, now clock.Instant) *gate.Block {
	var first *gate.Block
	for k := range r.Classes {
		c := &r.Classes[k]
		if c.Ready.Len() == 0 || c.Wave > r.Cursor || r.Forced(c.Wave) != nil {
			continue
		}
		if len(c.Windows) == 0 {
			return nil
		}
		b := windowBlock(r, c.Windows, now)
		if b == nil {
			return nil
		}
		if first == nil || b.Earliest != 0 && (first.Earliest == 0 || b.Earliest < first.Earliest) {
			first = b
		}
	}
	return first
}

// wakeRepair has a repair that waits for a window looked at when it opens, once.
func (s *State) wakeRepair(h *Host, at clock.Instant) {
	if at != 0 && h.opening != at {
		h.opening = at
		s.wake(at, h.Name)
	}
}

// endsBy is when a grant that expires at an instant must be claimed: no later
// than the first of the windows closes.
func endsBy(windows []window.Window, now, expires clock.Instant) clock.Instant {
	for i := range windows {
		expires = min(expires, windows[i].Closes(now, expires))
	}
	return expires
}
