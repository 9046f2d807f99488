package audit

import (
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// operatorEvent takes what operators decide beside the planner.
func (l *Log) operatorEvent(e event.Entry, ev event.Event) bool {
	switch ev := ev.(type) {
	case event.WaveForced:
		if r := l.find(ev.Rollout, ev.Manifest); r != nil {
			l.forced(r, ev)
		}
	case event.GlassBroken:
		if r := l.find(ev.Rollout, ev.Manifest); r != nil {
			l.brokenGlass(r, ev)
		}
	case event.HostFrozen:
		l.must(ev.Actor != "" && ev.Reason != "", "S18", "host %s frozen by nobody, or without a reason", e.Host)
		l.must(ev.Until > e.At, "S18", "host %s frozen until %s at %s", e.Host, ev.Until, e.At)
		l.host(e.Host).frozen = ev.Until
	case event.HostUnfrozen:
		h := l.host(e.Host)
		l.must(ev.Reason != "", "S28", "host %s unfrozen without a reason", e.Host)
		l.must(h.frozen != 0 && (ev.Actor != "" || h.frozen.Reached(e.At)), "S18", "host %s unfrozen by nobody before %s", e.Host, h.frozen)
		h.frozen = 0
	case event.RolloutPruned:
		if r := l.find(ev.Rollout, ev.Manifest); r != nil {
			l.pruned(r, ev)
		}
	default:
		return false
	}
	return true
}

// warm checks that a host is not frozen when it is given something.
func (l *Log) warm(h *hostFacts, p host.Purpose, grant string, at clock.Instant) {
	if p != host.Back && h.frozen != 0 && !h.frozen.Reached(at) {
		l.addf("S18", "host %s has grant %s and is frozen until %s", h.name, grant, h.frozen)
	}
}

// forced checks a promotion on an operator's word: it may lack evidence and leave
// hosts waiting, and nothing else.
func (l *Log) forced(r *rolloutFacts, ev event.WaveForced) {
	l.must(ev.Actor != "" && ev.Reason != "" && len(ev.Held) > 0, "S8", "wave %d of %s forced by nobody, or without a reason", ev.Wave, r.name)
	l.must(ev.Override == "" || l.signed(ev.Override, fleet.OverridePromote, r.manifest.Digest) &&
		l.waveOf(ev.Override) == r.manifest.Header.Waves[ev.Wave].Name, "S8", "wave %d of %s forced on an override that does not say so", ev.Wave, r.name)
	l.must(ev.Wave == r.cursor && ev.Wave < len(r.manifest.Header.Waves), "S7", "wave %d of %s forced at cursor %d", ev.Wave, r.name, r.cursor)
	l.must(!r.phase.Ended() && !r.paused && !r.reverting, "S18", "wave %d of %s forced while it is %s", ev.Wave, r.name, r.phase)
	for i := range r.manifest.Leaves {
		leaf := &r.manifest.Leaves[i]
		h := l.host(leaf.Host)
		l.must(leaf.Wave > ev.Wave || !l.undecided(r, h), "S8", "wave %d of %s forced while host %s is %s", ev.Wave, r.name, h.name, h.phase)
	}
	for w := range ev.Wave + 1 {
		l.must(l.failures(r, w) <= r.manifest.Header.Policy.MaxFailures, "S8", "wave %d of %s forced with %d failures in wave %d", ev.Wave, r.name, l.failures(r, w), w)
	}
	n := l.tally(r, ev.Wave)
	l.must(ev.Evidence == n.evidence && ev.Skipped == n.skipped, "S8", "wave %d of %s forced on %d converged and %d skipped hosts by its word, %d and %d by the log",
		ev.Wave, r.name, ev.Evidence, ev.Skipped, n.evidence, n.skipped)
	l.excuse(r, ev)
	r.held = ""
	if ev.Wave+1 < len(r.manifest.Header.Waves) {
		r.cursor = ev.Wave + 1
	} else {
		r.forced = true
	}
}

// tally is what the log says of a wave's members.
type tally struct{ hosts, evidence, atTarget, skipped, absent int }

func (l *Log) tally(r *rolloutFacts, wave int) (n tally) {
	for i := range r.manifest.Leaves {
		leaf := &r.manifest.Leaves[i]
		if leaf.Wave != wave {
			continue
		}
		n.hosts++
		h := l.host(leaf.Host)
		switch {
		case h.freed && r.claimed[h.name]: // it took part, and nothing more comes of it
		case l.converged(r, h):
			if !h.unfit {
				n.evidence++
			}
		case h.current == leaf.Target && !h.rolling() && h.manifest != r.manifest.Digest:
			n.atTarget++
		case l.absent(r, leaf):
			n.absent++
		case !h.reachable() && !r.claimed[h.name]:
			n.skipped++
		default:
			l.must(h.online || r.failed[h.name] || h.manifest != r.manifest.Digest, "S10",
				"wave %d of %s promoted over host %s, which claimed and is away", wave, r.name, h.name)
		}
	}
	return n
}

// pruned checks that nothing asks for a rollout any more.
func (l *Log) pruned(r *rolloutFacts, ev event.RolloutPruned) {
	l.must(ev.Reason != "", "S28", "rollout %s pruned without a reason", r.name)
	l.must(string(r.phase) == ev.Phase && rollout.Legal(r.phase, rollout.Pruned), "S19", "rollout %s pruned while it is %s (said %s)", r.name, r.phase, ev.Phase)
	c := l.channel(r.channel)
	l.must(c.latest != r && c.converged != r, "S13", "rollout %s pruned, and hosts that return are given it", r.name)
	for _, h := range l.hosts { // order-free: any one is a violation
		l.must(h.manifest != r.manifest.Digest && (h.open == nil || h.open.manifest != r.manifest.Digest), "S13", "rollout %s pruned while host %s stands on it", r.name, h.name)
	}
	r.phase = rollout.Pruned
}
