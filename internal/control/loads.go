package control

import (
	"sync"

	"github.com/steadyfleet/steady/internal/core/clock"
)

// loadSlots is how many minutes are remembered of what a host measured: with all of the
// 8 bytes of each, 480 bytes of a host and 4.8 MB of 10,000.
const loadSlots = 60

// load is how busy a host was: per mille, or unmeasured.
type load struct{ cpu, memory int16 }

const unmeasured = -1

// Load is what a host measured in one minute. Both are nil at a gap: the host was not heard of.
type Load struct {
	At     clock.Instant
	CPU    *int16 // per mille of all CPUs together; nil: not measured
	Memory *int16 // per mille
}

// loads are the last hour of what a host measured, in memory alone: the last of each minute, in
// the slot of that minute.
type loads struct {
	mu    sync.Mutex
	slots *[loadSlots]struct {
		minute uint32 // since 1970
		load
	}
}

// add keeps what was measured at an instant.
func (h *loads) add(at clock.Instant, l load) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.slots == nil {
		h.slots = new([loadSlots]struct {
			minute uint32
			load
		})
	}
	minute := uint32(at / clock.Instant(clock.Minute))
	s := &h.slots[minute%loadSlots]
	s.minute, s.load = minute, l
}

// list returns the minutes of the last hour that something came in, in order, and one without
// numbers wherever nothing came for longer than patience.
func (h *loads) list(now clock.Instant, patience clock.Duration) []Load {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := []Load{}
	if h.slots == nil {
		return out
	}
	end := uint32(now / clock.Instant(clock.Minute))
	for minute := end - loadSlots + 1; minute <= end; minute++ {
		s := h.slots[minute%loadSlots]
		if s.minute != minute {
			continue
		}
		at := clock.Instant(minute) * clock.Instant(clock.Minute)
		if n := len(out); n > 0 && at.Sub(out[n-1].At) > patience {
			out = append(out, Load{At: out[n-1].At.Add(clock.Minute)})
		}
		out = append(out, Load{At: at, CPU: measured(s.cpu), Memory: measured(s.memory)})
	}
	return out
}

func measured(n int16) *int16 {
	if n == unmeasured {
		return nil
	}
	return &n
}

// lostAfter is how many heartbeats are missing at a gap.
const lostAfter = 3

// Loads returns what a host measured in the last hour, since this process started.
func (c *Control) Loads(host string) []Load {
	h := c.hosts.find(host)
	if h == nil {
		return nil
	}
	every := c.cfg.Heartbeat
	if v := h.view.Load(); v != nil && v.settings != nil && v.settings.HeartbeatInterval != 0 {
		every = v.settings.HeartbeatInterval
	}
	return h.loads.list(c.now(), lostAfter*max(every, clock.Minute))
}
