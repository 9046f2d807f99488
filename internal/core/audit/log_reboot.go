package audit

import (
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// staged says whether the host waits for a reboot that it has not claimed.
func (h *hostFacts) staged() bool {
	return h.phase == host.Deferred && h.reboot == "" && (h.open == nil || !h.open.claimed)
}

// reboots checks a grant to reboot as it is given: only into what the host has
// staged, inside the budgets, and under every rule that holds what is new.
func (l *Log) reboots(h *hostFacts, r *rolloutFacts, ev event.Granted) {
	l.must(h.staged() && h.manifest == r.manifest.Digest && h.target == ev.Target, "S23",
		"host %s was granted %s to reboot into %s while it is %s on %s", h.name, ev.Grant, ev.Target.Short(), h.phase, h.target.Short())
	c := l.channel(r.channel)
	l.must(r == c.latest || r == c.converged, "S13", "host %s was granted %s to reboot into rollout %s, neither active nor last converged", h.name, ev.Grant, r.name)
	l.must(!r.paused && !r.reverting && (!r.phase.Ended() || r.phase == rollout.Terminal), "S18",
		"host %s was granted %s to reboot into rollout %s, which is %s", h.name, ev.Grant, r.name, r.phase)
	l.must(!l.barred[r.manifest.Digest], "S42", "host %s was granted %s to reboot into rollout %s, which fails required controls", h.name, ev.Grant, r.name)
	l.must(!c.quarantine[ev.Target], "S17", "host %s was granted %s to reboot into %s, which is quarantined on %s", h.name, ev.Grant, ev.Target.Short(), r.channel)
	l.permitted(h, r, ev.Target)
	if i, ok := r.manifest.Leaf(h.name); ok {
		l.edgesMet(h, r, &r.manifest.Leaves[i])
	}
	l.must(!l.restless(h), "S1", "host %s was granted %s to reboot and in a budget of it as many hosts change something as may", h.name, ev.Grant)
}

// restless says whether any budget of an active plan allows a host no more change:
// hosts that only wait for a reboot change nothing.
func (l *Log) restless(h *hostFacts) bool {
	for _, c := range l.channels { // order-free: any one decides
		for _, r := range []*rolloutFacts{c.latest, c.converged} {
			if r == nil {
				continue
			}
			for i, b := range r.manifest.Header.Budgets {
				n, member := 0, false
				for _, name := range r.manifest.Members[i] {
					o := l.host(name)
					member = member || name == h.name
					if name != h.name && o.inFlight() && (!o.staged() || o.open != nil) {
						n++
					}
				}
				if member && n >= b.Max {
					return true
				}
			}
		}
	}
	return false
}

// rebootClaimed closes a grant to reboot, exactly once.
func (l *Log) rebootClaimed(h *hostFacts, in host.RebootClaimed) {
	g := h.open
	if g == nil || g.Grant != in.Grant || g.Purpose != host.Reboot {
		l.addf("S24", "host %s took grant %s to reboot, which is not open for it", h.name, in.Grant)
		return
	}
	l.must(g.claimed, "S23", "host %s reboots under grant %s, which it did not claim", h.name, in.Grant)
	h.open, h.reboot = nil, in.Grant
}

// afterReboot checks that what was staged goes on in another boot only.
func (l *Log) afterReboot(h *hostFacts, in host.Input, to host.Phase) {
	if h.phase != host.Deferred || to != host.Activating {
		return
	}
	switch in.(type) {
	case host.Booted, host.Claimed:
	default:
		l.consistent(false, h, "S23", "host %s goes on with what is staged on %s", h.name, in.Kind())
	}
}

// stayed counts an attempt to go back that came to nothing.
func (h *hostFacts) stayed() {
	h.rebooted = false
	if h.reverts++; h.reverts >= host.MaxReverts {
		h.reverting = false
	}
}
