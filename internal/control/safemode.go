package control

import "github.com/steadyfleet/steady/internal/core/clock"

// SafeMode says why nothing is granted, or is empty.
func (c *Control) SafeMode() string {
	if s := c.safe.Load(); s != nil {
		return *s
	}
	return ""
}

// noteLag tells the reducer that a host was acknowledged more than the log
// holds: the log was restored from a backup. Until the host has sent it again,
// nothing is granted.
func (c *Control) noteLag(name string, incarnation, need uint64) {
	in := &input{apply: func(t *turn) error {
		h := t.s.Hosts[name]
		if h == nil || h.Incarnation != incarnation || h.Seq >= need || h.Standing() != "" {
			return nil
		}
		if c.ahead.Note(name, incarnation, need, t.now.Add(c.cfg.ReplayWait)) {
			c.cfg.Log.Warn("a host knows a longer log than the server; nothing is granted until it has sent it", "host", name, "holds", h.Seq, "knows", need)
			c.publishSafeMode(t.now)
		}
		return nil
	}}
	select {
	case c.normal <- in:
	default: // the next heartbeat says it again
	}
}

// safeMode reports whether a host still owes a part of the log, and forgets
// those that have sent it.
func (c *Control) safeMode(now clock.Instant) bool {
	if c.ahead.Empty() {
		return false
	}
	waiting, late := c.ahead.Settle(c.state.Hosts, now)
	for _, name := range late {
		c.cfg.Log.Error("a host never sent the events that it says were acknowledged; going on without", "host", name)
	}
	c.publishSafeMode(now)
	return waiting
}

func (c *Control) publishSafeMode(now clock.Instant) {
	words := ""
	if host := c.ahead.Waited(now); host != "" {
		words = "host " + host + " knows a longer log than the server, which was restored from a backup; nothing is granted until it has sent its events again"
	}
	c.safe.Store(&words)
}
