package control

import (
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/plan"
)

// SafeMode says why nothing but ways back is granted, or is empty.
func (c *Control) SafeMode() string {
	if b := c.safeBlock.Load(); b != nil {
		return b.Words
	}
	return ""
}

// noteLag tells the reducer that a host claims to have been acknowledged more than
// the log holds, as it is when the log was restored from a backup.
func (c *Control) noteLag(name string, incarnation, need uint64) {
	in := &input{apply: func(t *turn) error {
		h := t.s.Hosts[name]
		if h == nil || h.Incarnation != incarnation || h.Seq >= need || h.Standing() != "" {
			return nil
		}
		if c.safe.Claim(name, incarnation, need, t.now) {
			c.cfg.Log.Warn("a host knows a longer log than the server; nothing but ways back is granted until it has sent it", "host", name, "holds", h.Seq, "knows", need)
			c.publishSafeMode(t.now)
		}
		return nil
	}}
	select {
	case c.normal <- in:
	default: // the next heartbeat says it again
	}
}

// safeMode reports whether a host still owes a part of the log.
func (c *Control) safeMode(now clock.Instant) bool {
	waiting, late := c.safe.Waiting(c.state.Hosts, now)
	for _, name := range late {
		c.cfg.Log.Error("a host never sent the events that it says were acknowledged; going on without", "host", name)
	}
	c.publishSafeMode(now)
	return waiting
}

func (c *Control) publishSafeMode(now clock.Instant) {
	c.safeBlock.Store(c.safe.Block(c.state.Hosts, now))
}

// restored is what the server knows of its log beside the state. It is the reducer's.
func (c *Control) restored(s *plan.State, now clock.Instant) plan.Restored {
	return plan.Restored{Behind: c.safe.Block(s.Hosts, now), Missing: c.roll.Missing(s.Hosts, c.told, now), Until: c.roll.Until()}
}

// Ask begins to answer why hosts of the state wait, and tells what the server itself
// waits for. It may only be used by what View runs, on the state that it is given.
func (c *Control) Ask(s *plan.State) *plan.Reasons {
	now := c.now()
	return plan.Ask(s, now).Restored(c.restored(s, now))
}

// told is the newest event of a host as it said itself since the server began.
func (c *Control) told(name string) (last uint64, ok bool) {
	if h := c.hosts.Find(name); h != nil {
		return h.Told()
	}
	return 0, false
}
