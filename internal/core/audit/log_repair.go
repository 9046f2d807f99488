package audit

import (
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/host"
)

// repair checks a grant to repair, as it is given with the rollout that it names
// and as it is claimed: only what the host runs, between rollouts, and never what
// failed. Its claim may come after the host has said that it healed.
func (l *Log) repair(h *hostFacts, r *rolloutFacts, ev event.Granted) {
	settled := h.phase == host.Converged || h.phase == host.Reverted
	if !settled || h.manifest != ev.Manifest || h.current != ev.Target {
		l.addf("S23", "host %s is to repair %s of %s under grant %s while it is %s on %s", h.name, ev.Target.Short(), ev.Rollout, ev.Grant, h.phase, h.current.Short())
	}
	if m, _ := l.of(ev.Manifest); m != nil {
		l.must(!l.channel(m.channel).quarantine[ev.Target], "S17", "host %s is to repair %s, which is quarantined", h.name, ev.Target.Short())
		l.unbanned(h, m.channel, ev.Target)
	}
	if r == nil {
		return
	}
	l.must(h.need != nil && h.need.Manifest == ev.Manifest && h.need.Bundle == ev.Target, "S28",
		"host %s was granted %s and waits for no repair", h.name, ev.Grant)
	l.must(!r.reverting || !r.claimed[h.name] || h.phase != host.Converged || l.channel(r.channel).latest != r, "S22",
		"host %s is to repair what rollout %s takes back", h.name, r.name)
}

// repaired closes a grant to repair, exactly once.
func (l *Log) repaired(h *hostFacts, ev event.RepairOver) {
	l.consistent(ev.Detail != "", h, "S28", "host %s ended a repair without a reason", h.name)
	h.need = nil
	if ev.Grant == "" {
		return
	}
	g := h.open
	if g == nil || g.Grant != ev.Grant || g.Purpose != host.Repair {
		l.addf("S24", "host %s ended repair %s, which is not open for it", h.name, ev.Grant)
		return
	}
	l.must(g.claimed, "S23", "host %s repaired under grant %s, which it did not claim", h.name, ev.Grant)
	h.open = nil
}
