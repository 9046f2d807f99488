package control

import (
	"github.com/steadyfleet/steady/internal/control/refusal"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/plan"
)

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

// unsure refuses for now a claim that would have no room if the hosts which this
// server has not heard since it began were in flight: a log that was restored from a
// backup lacks their claims.
func (c *Control) unsure(t *turn, host, grant string) error {
	if b := plan.Unsure(t.s, host, grant, c.roll.Missing(t.s.Hosts, c.told, t.now)); b != nil {
		return refusal.Newf(refusal.ErrUnavailable, "the server began a short time ago and has not heard all hosts yet; were those in flight, there would be no room: %s", b.Words)
	}
	return nil
}

// told is the newest event of a host as it said itself since the server began.
func (c *Control) told(name string) (last uint64, ok bool) {
	if h := c.hosts.Find(name); h != nil {
		return h.Told()
	}
	return 0, false
}
