package audit

import (
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// rolloutEvent takes what moves a rollout.
func (l *Log) rolloutEvent(ev event.Event) bool {
	switch ev := ev.(type) {
	case event.RolloutOpened:
		l.opened(ev)
	case event.RolloutQueued:
		l.must(ev.Reason != "", "S28", "rollout %s is queued without a reason", ev.TargetRef)
		c := l.channel(ev.Channel)
		l.must(len(c.manifests) > 0 && c.manifests[0].Digest == ev.Manifest, "S16", "%s is queued and is not the latest ref", ev.TargetRef)
		if r := c.latest; r != nil && !r.phase.Ended() && !r.reverting && !l.barred[ev.Manifest] {
			l.must(len(r.granted) > 0, "S16", "%s is queued behind %s, which granted nobody", ev.TargetRef, r.name)
		}
	case event.RolloutDeferred:
		c, says := l.channel(ev.Channel), ev.TargetRef+" "+ev.BlockedBy+" "+ev.Reason
		l.must(c.deferral != says, "S27", "rollout %s is deferred again for the same reason", ev.TargetRef)
		c.deferral = says
		l.must(ev.Reason != "" && ev.BlockedBy != "", "S28", "rollout %s is deferred without a reason", ev.TargetRef)
	case event.RolloutMoved:
		if r := l.find(ev.Rollout, ev.Manifest); r != nil {
			l.moved(r, ev)
		}
	case event.RolloutReverting:
		if r := l.find(ev.Rollout, ev.Manifest); r != nil {
			l.reverting(r, ev)
		}
	case event.RolloutPaused:
		if r := l.find(ev.Rollout, ev.Manifest); r != nil {
			l.must(ev.Actor != "", "S18", "rollout %s paused by nobody", r.name)
			r.paused = true
		}
	case event.RolloutResumed:
		if r := l.find(ev.Rollout, ev.Manifest); r != nil {
			l.resumed(r, ev)
		}
	case event.RolloutCancelled:
		if r := l.find(ev.Rollout, ev.Manifest); r != nil {
			l.must(ev.Actor != "", "S18", "rollout %s cancelled by nobody", r.name)
			r.final = true
		}
	case event.WavePromoted:
		if r := l.find(ev.Rollout, ev.Manifest); r != nil {
			l.promoted(r, ev)
		}
	case event.WaveHeld:
		l.must(ev.Reason != "" && ev.Code != "", "S28", "wave %d of %s is held without a reason", ev.Wave, ev.Rollout)
		if r := l.find(ev.Rollout, ev.Manifest); r != nil {
			l.must(r.held != ev.Code, "S27", "wave %d of %s is held again for the same reason", ev.Wave, ev.Rollout)
			r.held = ev.Code
		}
	default:
		return false
	}
	return true
}

func (l *Log) opened(ev event.RolloutOpened) {
	l.must(ev.Reason != "", "S28", "rollout %s opened without a reason", ev.Rollout)
	c := l.channel(ev.Channel)
	l.must(len(c.manifests) > 0 && c.manifests[0].Digest == ev.Manifest, "S16", "%s opened and is not the latest ref of its channel", ev.Rollout)
	for _, r := range l.rollouts {
		l.must(r.channel != ev.Channel || r.phase.Ended(), "S16", "%s opened while %s is %s", ev.Rollout, r.name, r.phase)
	}
	for _, e := range l.edges {
		if e.Gated != ev.Channel {
			continue
		}
		if before := l.channel(e.Gates).latest; before != nil && !before.final && (len(before.granted) > 0 || len(before.manifest.Leaves) == 0 || l.present(before) > 0) {
			l.must(before.phase == rollout.Terminal || before.phase == rollout.Superseded, "S15",
				"%s opened while %s of channel %s is %s", ev.Rollout, before.name, e.Gates, before.phase)
		}
	}
	m, err := l.docs.Manifest(ev.Manifest)
	if err != nil {
		l.addf("S30", "rollout %s: %v", ev.Rollout, err)
		return
	}
	l.must(m.Digest == ev.Manifest && m.Header.Channel == ev.Channel && m.Header.Rollout() == ev.Rollout, "S30",
		"rollout %s opened with a manifest of %s", ev.Rollout, m.Header.Rollout())
	r := &rolloutFacts{name: ev.Rollout, channel: ev.Channel, manifest: m, phase: rollout.Opening,
		granted: map[string]bool{}, claimed: map[string]bool{}, failed: map[string]bool{}, acknowledged: map[string]bool{}, excused: map[excuse]bool{}}
	r.paused = l.held("", ev.Manifest, "", "") != nil
	l.rollouts = append(l.rollouts, r)
	c.latest, c.deferral = r, ""
}

func (l *Log) moved(r *rolloutFacts, ev event.RolloutMoved) {
	to := rollout.Phase(ev.To)
	l.must(ev.Reason != "", "S28", "rollout %s moved to %s without a reason", r.name, to)
	l.must(string(r.phase) == ev.From && rollout.Legal(r.phase, to), "S19", "rollout %s moved from %s (said %s) to %s", r.name, r.phase, ev.From, to)
	if r.phase == rollout.Failed && to == rollout.Active {
		l.must(r.resumed && ev.Actor != "" && !r.final, "S18", "rollout %s left its halt without an operator", r.name)
	}
	if to == rollout.Superseded && !r.phase.Ended() {
		l.must(l.channel(r.channel).onNewRef == fleet.Supersede || r.manifest.Header.Epoch < l.epoch || len(r.granted) == 0, "S16", "rollout %s was superseded while it was %s, and refs of its channel queue", r.name, r.phase)
	}
	r.phase = to
	switch to {
	case rollout.Failed:
		r.final, r.resumed = r.final || ev.Final, false
	case rollout.Terminal:
		l.must(ev.Actor == "" || r.forced, "S8", "rollout %s ended by %s, who forced no wave", r.name, ev.Actor)
		l.terminal(r)
		l.channel(r.channel).converged = r
	case rollout.Reverted:
		l.must(r.reverting, "S19", "rollout %s ended reverted and never went back", r.name)
		l.backHome(r)
	}
}

// terminal checks that nobody is on the way, and that somebody arrived.
func (l *Log) terminal(r *rolloutFacts) {
	evidence, atTarget, present := 0, 0, l.present(r)
	for i := range r.manifest.Leaves {
		leaf := &r.manifest.Leaves[i]
		h := l.host(leaf.Host)
		if l.undecided(r, h) {
			l.addf("S8", "rollout %s is terminal while host %s is %s", r.name, h.name, h.phase)
		}
		switch {
		case l.converged(r, h):
			if !h.unfit {
				evidence++
			}
		case h.current == leaf.Target:
			atTarget++
		}
	}
	l.must(evidence > 0 || (present > 0 || len(r.manifest.Leaves) == 0) && atTarget >= present || r.forced, "S8", "rollout %s is terminal and nobody converged", r.name)
}

// backHome checks that no host that can be heard stays on what was reverted.
func (l *Log) backHome(r *rolloutFacts) {
	for i := range r.manifest.Leaves {
		h := l.host(r.manifest.Leaves[i].Host)
		if !r.claimed[h.name] || !h.reachable() || h.silent || h.manifest != r.manifest.Digest {
			continue
		}
		l.must(h.phase == host.Reverted || h.phase == host.Failed && !h.reverting, "S22",
			"rollout %s ended reverted with host %s %s", r.name, h.name, h.phase)
	}
}

func (l *Log) reverting(r *rolloutFacts, ev event.RolloutReverting) {
	l.must(ev.Reason != "", "S28", "rollout %s reverts without a reason", r.name)
	if ev.Override != "" {
		l.rolledBack(r, ev)
		return
	}
	l.must(r.manifest.Header.Policy.OnHealthFailure == fleet.RollbackAndHalt, "S18", "rollout %s reverts under policy halt", r.name)
	l.must(l.failures(r, ev.Wave) > r.manifest.Header.Policy.MaxFailures, "S22", "rollout %s reverts with %d failures in wave %d", r.name, l.failures(r, ev.Wave), ev.Wave)
	r.reverting = true
}

func (l *Log) resumed(r *rolloutFacts, ev event.RolloutResumed) {
	l.must(ev.Actor != "", "S18", "rollout %s resumed by nobody", r.name)
	l.must(!r.final && !r.reverting, "S18", "rollout %s resumed for good after its end", r.name)
	l.must(l.held("", r.manifest.Digest, "", "") == nil, "S18", "rollout %s resumed against a signed override", r.name)
	r.paused = false
	if r.phase == rollout.Failed {
		r.resumed = true
		for name := range r.failed { // order-free: it only fills a set
			r.acknowledged[name] = true
		}
	}
}

// failures counts the unacknowledged failures of a wave.
func (l *Log) failures(r *rolloutFacts, wave int) int {
	n := 0
	for i := range r.manifest.Leaves {
		leaf := &r.manifest.Leaves[i]
		if leaf.Wave == wave && r.failed[leaf.Host] && !r.acknowledged[leaf.Host] {
			n++
		}
	}
	return n
}

// converged says whether a host arrived by a claim of this rollout and was not
// asked to move on in it. That another channel asks it for more, since the host
// moved there, takes nothing from the evidence.
func (l *Log) converged(r *rolloutFacts, h *hostFacts) bool {
	asked := h.permit() != nil && h.open.manifest == r.manifest.Digest
	return h.phase == host.Converged && h.manifest == r.manifest.Digest && r.claimed[h.name] && !h.silent && !asked
}

// undecided says whether a host's part in a rollout is still open.
func (l *Log) undecided(r *rolloutFacts, h *hostFacts) bool {
	if h.silent {
		return false // failed, and counted as such
	}
	return h.permit() != nil && h.open.manifest == r.manifest.Digest || h.manifest == r.manifest.Digest && h.moving()
}

// present counts the hosts of a rollout that are enrolled and not retired.
func (l *Log) present(r *rolloutFacts) (n int) {
	for i := range r.manifest.Leaves {
		if leaf := &r.manifest.Leaves[i]; !l.absent(r, leaf) {
			n++
		}
	}
	return n
}

// absent says whether a host counts for nothing in a rollout: it never enrolled or was
// retired, and has no part in it.
func (l *Log) absent(r *rolloutFacts, leaf *fleet.Leaf) bool {
	h := l.host(leaf.Host)
	return h.absent() && (h.current == "" || h.current != leaf.Target || h.rolling()) && (h.permit() == nil || h.open.manifest != r.manifest.Digest) &&
		h.manifest != r.manifest.Digest && !(h.freed && r.claimed[h.name])
}

// soakedHere checks that the soak of every host that counts as evidence up to a wave has
// passed since its claim, by the server's clock.
func (l *Log) soakedHere(r *rolloutFacts, wave int) {
	for i := range r.manifest.Leaves {
		leaf := &r.manifest.Leaves[i]
		h := l.host(leaf.Host)
		if g := l.grants[h.grant]; leaf.Wave <= wave && l.converged(r, h) && g != nil && g.claimedAt != 0 && g.setBack == l.setBack && g.manifest == r.manifest.Digest {
			soak := r.manifest.Header.Waves[leaf.Wave].Soak
			l.must(l.at.Sub(g.claimedAt) >= soak, "S9", "wave %d of %s promoted %s after host %s claimed, and its soak is %s", wave, r.name, l.at.Sub(g.claimedAt), h.name, soak)
		}
	}
}

func (l *Log) promoted(r *rolloutFacts, ev event.WavePromoted) {
	l.must(ev.Reason != "", "S28", "wave %d of %s promoted without a reason", ev.Wave, r.name)
	l.must(ev.Wave == r.cursor && ev.Wave+1 < len(r.manifest.Header.Waves), "S7", "wave %d of %s promoted at cursor %d", ev.Wave, r.name, r.cursor)
	l.must(!r.phase.Ended() && !r.paused && !r.reverting, "S18", "wave %d of %s promoted while it is %s", ev.Wave, r.name, r.phase)
	l.evidenced(r, ev.Wave)
	for i := range r.manifest.Leaves {
		if leaf := &r.manifest.Leaves[i]; leaf.Wave == ev.Wave {
			h := l.host(leaf.Host)
			l.must(!l.undecided(r, h), "S8", "wave %d of %s promoted while host %s is %s", ev.Wave, r.name, h.name, h.phase)
		}
	}
	n := l.tally(r, ev.Wave)
	wave := &r.manifest.Header.Waves[ev.Wave]
	changing := n.hosts - n.absent - n.atTarget
	need := max(1, wave.MinSoaked)
	for need*100 < wave.MinSoakedPct*changing {
		need++
	}
	need = min(need, changing)
	l.must(l.present(r) > 0 || len(r.manifest.Leaves) == 0, "S8", "wave %d of %s promoted, and none of its hosts is enrolled", ev.Wave, r.name)
	l.must(ev.Absent == n.absent, "S8", "wave %d of %s promoted past %d hosts that are not enrolled by its word, %d by the log", ev.Wave, r.name, ev.Absent, n.absent)
	l.soakedHere(r, ev.Wave)
	l.must(n.evidence >= need, "S8", "wave %d of %s promoted on %d converged hosts of the %d it needs", ev.Wave, r.name, n.evidence, need)
	l.must(ev.Evidence == n.evidence, "S8", "wave %d of %s promoted on %d converged hosts by its word, %d by the log", ev.Wave, r.name, ev.Evidence, n.evidence)
	l.must(l.failures(r, ev.Wave) <= r.manifest.Header.Policy.MaxFailures, "S8", "wave %d of %s promoted with %d failures", ev.Wave, r.name, l.failures(r, ev.Wave))
	l.must(ev.Skipped == n.skipped, "S11", "wave %d of %s skipped %d hosts by its word, %d were never claimed and are away", ev.Wave, r.name, ev.Skipped, n.skipped)
	r.cursor, r.held = ev.Wave+1, ""
}
