package audit

import (
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/rollout"
	"github.com/steadyfleet/steady/internal/core/window"
)

// grantEvent takes the life of a grant up to its claim.
func (l *Log) grantEvent(e event.Entry, ev event.Event) bool {
	switch ev := ev.(type) {
	case event.Granted:
		l.grantedTo(l.host(e.Host), ev, e.At)
	case event.GrantClaimed:
		l.claimedBy(l.host(e.Host), ev, e.At)
	case event.GrantEnded:
		h := l.host(e.Host)
		l.must(ev.Reason != "", "S28", "grant %s ended without a reason", ev.Grant)
		l.must(h.open != nil && h.open.Grant == ev.Grant && (!h.open.claimed || h.open.declined), "S24", "grant %s of host %s ended and was not open", ev.Grant, h.name)
		if g := h.open; g != nil && g.claimed && h.manifest != g.manifest {
			if r, _ := l.of(g.manifest); r != nil {
				delete(r.claimed, h.name) // given back: it never acted
			}
		}
		h.open = nil
	case event.GrantDeclined:
		h := l.host(e.Host)
		l.consistent(ev.Code != "", h, "S28", "host %s declined grant %s without a reason", e.Host, ev.Grant)
		if h.open == nil || h.open.Grant != ev.Grant || h.open.claimed && !host.GivesBack(ev.Code) {
			break
		}
		if h.open.declined = true; h.permit() == nil {
			break
		}
		switch ev.Code {
		case host.DeclineAtTarget:
			h.current = h.open.Target
		case host.DeclineQuarantined:
			if r, _ := l.of(h.open.manifest); r != nil {
				r.failed[h.name] = true
			}
		}
	default:
		return false
	}
	return true
}

// grantedTo checks one offer against every rule that could have held it back.
func (l *Log) grantedTo(h *hostFacts, ev event.Granted, at clock.Instant) {
	if ev.Reason == "" {
		l.addf("S28", "grant %s has no reason", ev.Grant)
	}
	if ev.Expires <= at {
		l.addf("S23", "grant %s expires as it is given", ev.Grant)
	}
	if l.grants[ev.Grant] != nil {
		l.addf("S24", "grant %s was given before", ev.Grant)
	}
	l.warm(h, ev.Purpose, ev.Grant, at)
	if h.open != nil {
		l.addf("S2", "host %s was granted %s and holds another grant", h.name, ev.Grant)
	}
	if h.ended {
		l.addf("S43", "host %s was granted %s and its identity counts for nothing", h.name, ev.Grant)
	}
	if h.incarnation == 0 || !h.online {
		l.addf("S10", "host %s was granted %s and is not there", h.name, ev.Grant)
	}
	r := l.find(ev.Rollout, ev.Manifest)
	if r == nil {
		return
	}
	g := &grantFacts{Granted: ev, host: h.name, manifest: r.manifest.Digest, at: at}
	if !h.inFlight() && l.full(h, 0) {
		within := map[bool]string{true: "S1", false: "S29"}[l.full(h, at)]
		l.addf(within, "host %s was granted %s and a budget of it is full", h.name, ev.Grant)
	}
	l.inWindow(h, r, ev.Purpose, ev.Grant, at)
	switch ev.Purpose {
	case host.Forward:
		l.forward(h, r, ev)
	case host.Back:
		if !r.reverting {
			l.addf("S21", "host %s is sent back and rollout %s is not reverting", h.name, r.name)
		}
		if !r.claimed[h.name] && !r.ordered || h.manifest != g.manifest {
			l.addf("S22", "host %s is sent back from %s and is not in it", h.name, r.name)
		}
		if ev.Target != h.from {
			l.addf("S21", "host %s is sent back to %s, it came from %s", h.name, ev.Target.Short(), h.from.Short())
		}
	case host.Repair:
		l.repair(h, r, ev)
		l.grants[ev.Grant], h.open = g, g
		return
	case host.Reboot:
		l.reboots(h, r, ev)
	default:
		l.addf("S3", "host %s was granted %s for %q", h.name, ev.Grant, ev.Purpose)
	}
	l.grants[ev.Grant], h.open = g, g
	r.granted[h.name] = true
}

// inWindow checks that no maintenance window of a host is closed when something
// of it may be stopped. The way back is always open.
func (l *Log) inWindow(h *hostFacts, r *rolloutFacts, purpose host.Purpose, grant string, at clock.Instant) {
	i, ok := r.manifest.Leaf(h.name)
	if !ok || purpose == host.Back {
		return
	}
	if ws := r.manifest.Header.WindowsOf(&r.manifest.Leaves[i]); !window.AllOpen(ws, at) {
		l.addf("S41", "grant %s of host %s outside its maintenance windows", grant, h.name)
	}
}

// forward checks a grant of a plan's target.
func (l *Log) forward(h *hostFacts, r *rolloutFacts, ev event.Granted) {
	if h.moving() && !h.staged() {
		l.addf("S2", "host %s was granted %s while it is %s", h.name, ev.Grant, h.phase)
	}
	c := l.channel(r.channel)
	if r != c.latest && r != c.converged {
		l.addf("S13", "host %s was granted %s of rollout %s, neither active nor last converged", h.name, ev.Grant, r.name)
	}
	if r.paused || r.reverting || r.phase.Ended() && r.phase != rollout.Terminal {
		l.addf("S18", "host %s was granted %s of rollout %s, which is %s", h.name, ev.Grant, r.name, r.phase)
	}
	if r.manifest.Header.Epoch < l.epoch {
		l.addf("S5", "host %s was granted %s of rollout %s, signed in a key epoch that has ended", h.name, ev.Grant, r.name)
	}
	if l.barred[r.manifest.Digest] {
		l.addf("S42", "host %s was granted %s of rollout %s, which fails required controls", h.name, ev.Grant, r.name)
	}
	if c.quarantine[ev.Target] {
		l.addf("S17", "host %s was granted %s, which is quarantined on %s", h.name, ev.Target.Short(), r.channel)
	}
	l.permitted(h, r, ev.Target)
	i, ok := r.manifest.Leaf(h.name)
	if !ok {
		l.addf("S3", "host %s was granted %s and is not in rollout %s", h.name, ev.Grant, r.name)
		return
	}
	leaf := &r.manifest.Leaves[i]
	if leaf.Target != ev.Target || leaf.Wave != ev.Wave {
		l.addf("S30", "grant %s of host %s is not what the plan says", ev.Grant, h.name)
	}
	if leaf.Wave > r.cursor {
		l.addf("S7", "host %s of wave %d was granted %s at wave %d", h.name, leaf.Wave, ev.Grant, r.cursor)
	}
	l.canary(h, r, ev.Grant)
	l.edgesMet(h, r, leaf)
	if h.staged() && l.restless(h) {
		l.addf("S1", "staged host %s was granted %s and in a budget of it as many hosts change something as may", h.name, ev.Grant)
	}
	if before, at := l.of(h.manifest); before != nil {
		_, here := l.of(r.manifest.Digest)
		if at > here && !before.reverting && (h.phase == host.Converged || h.phase == host.Failed) {
			l.addf("S13", "host %s is %s on rollout %s and was granted the older %s", h.name, h.phase, before.name, r.name)
		}
	}
}

// canary checks that no more hosts are tried than the policy allows until one of
// the rollout has converged.
func (l *Log) canary(h *hostFacts, r *rolloutFacts, grant string) {
	most := r.manifest.Header.CanaryMax
	if most == 0 || r.soaked || r.glass {
		return
	}
	tried := 0
	for i := range r.manifest.Leaves {
		other := l.host(r.manifest.Leaves[i].Host)
		asked := other.permit() != nil && other.open.manifest == r.manifest.Digest
		if other != h && (asked || r.claimed[other.name] || other.manifest == r.manifest.Digest) {
			tried++
		}
	}
	l.must(tried < most, "S40", "host %s has grant %s of rollout %s as number %d, at most %d are tried before one has converged", h.name, grant, r.name, tried+1, most)
}

// edgesMet checks that everybody who goes before the host has arrived.
func (l *Log) edgesMet(h *hostFacts, r *rolloutFacts, leaf *fleet.Leaf) {
	_, here := l.of(r.manifest.Digest)
	for _, name := range leaf.After {
		i, ok := r.manifest.Leaf(name)
		if !ok {
			continue
		}
		p := l.host(name)
		_, at := l.of(p.manifest)
		met := p.phase == host.Converged && at >= here || p.current == r.manifest.Leaves[i].Target && !p.rolling()
		l.must(met || p.phase == host.Failed && at > here, "S14", "host %s goes after %s, which is %q", h.name, name, p.phase)
	}
}

// full says whether any budget of an active plan has no slot left for a host, not
// counting slots that were given at the instant of tick.
func (l *Log) full(h *hostFacts, tick clock.Instant) bool {
	for _, c := range l.channels { // order-free: any one decides
		for _, r := range []*rolloutFacts{c.latest, c.converged} {
			if r != nil && fullIn(l, r, h.name, tick) {
				return true
			}
		}
	}
	return false
}

func fullIn(l *Log, r *rolloutFacts, name string, tick clock.Instant) bool {
	for i, b := range r.manifest.Header.Budgets {
		n, member := 0, false
		for _, other := range r.manifest.Members[i] {
			member = member || other == name
			if o := l.host(other); o.inFlight() && (tick == 0 || o.open == nil || o.open.at != tick) {
				n++
			}
		}
		if member && n >= b.Max {
			return true
		}
	}
	return false
}

// crowded says whether a budget has no room for what a host claims: hosts that a
// restored log had forgotten may have taken it since the offer.
func (l *Log) crowded(h *hostFacts) bool {
	if h.staged() {
		return l.restless(h)
	}
	g := h.open
	h.open = nil
	crowded := !h.inFlight() && l.full(h, 0)
	h.open = g
	return crowded
}

func (l *Log) claimedBy(h *hostFacts, ev event.GrantClaimed, at clock.Instant) {
	g := h.open
	if g == nil || g.Grant != ev.Grant {
		l.addf("S24", "host %s claimed grant %s, which is not open for it", h.name, ev.Grant)
		return
	}
	l.warm(h, g.Purpose, ev.Grant, at)
	if h.ended {
		l.addf("S43", "host %s claimed grant %s and its identity counts for nothing", h.name, ev.Grant)
	}
	if g.claimed {
		l.addf("S24", "host %s claimed grant %s twice", h.name, ev.Grant)
	}
	if at >= g.Expires {
		l.addf("S23", "host %s claimed grant %s after it expired", h.name, ev.Grant)
	}
	if l.crowded(h) {
		l.addf("S1", "host %s claimed grant %s and a budget of it is full without it", h.name, ev.Grant)
	}
	g.claimed, g.claimedAt, g.setBack = true, at, l.setBack
	r, _ := l.of(g.manifest)
	l.inWindow(h, r, g.Purpose, ev.Grant, at)
	if g.Purpose == host.Repair {
		l.repair(h, nil, g.Granted)
		return
	}
	if g.Purpose == host.Forward {
		l.canary(h, r, ev.Grant)
	}
	r.claimed[h.name] = true
	if g.Purpose == host.Reboot && (h.phase != host.Deferred || h.reboot != "" || h.manifest != g.manifest) {
		l.addf("S23", "host %s claimed %s to reboot while it is %s", h.name, ev.Grant, h.phase)
	}
	if g.Purpose == host.Forward || g.Purpose == host.Reboot {
		if r.manifest.Header.Epoch < l.epoch {
			l.addf("S5", "host %s claimed grant %s of rollout %s, signed in a key epoch that has ended", h.name, ev.Grant, r.name)
		}
		if r.paused || r.reverting || r.phase.Ended() && r.phase != rollout.Terminal {
			l.addf("S18", "host %s claimed grant %s of rollout %s, which is %s", h.name, ev.Grant, r.name, r.phase)
		}
		l.permitted(h, r, g.Target)
		if l.channel(r.channel).quarantine[g.Target] {
			l.addf("S17", "host %s claimed %s, which is quarantined", h.name, g.Target.Short())
		}
	}
}
