package audit

import (
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/oracle"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// rolloutEvent checks what moves a rollout.
func (l *Log) rolloutEvent(e event.Entry, ev event.Event) {
	switch ev := ev.(type) {
	case event.RolloutOpened:
		l.opened(ev)
		return
	case event.RolloutQueued:
		due, _ := l.Opening(l.Channel(ev.Channel))
		l.must(ev.Reason != "", "S28", "rollout %s is queued without a reason", ev.TargetRef)
		l.must(l.newest(ev.Channel, ev), "S16", "%s is queued and is not the latest ref", ev.TargetRef)
		l.must(due == oracle.Queues, "S16", "%s is queued, and no rollout of %s is in its way", ev.TargetRef, ev.Channel)
		return
	case event.RolloutDeferred:
		due, edge := l.Opening(l.Channel(ev.Channel))
		l.must(!l.Deferred(ev), "S27", "rollout %s is deferred again for the same reason", ev.TargetRef)
		l.must(ev.Reason != "" && ev.BlockedBy != "", "S28", "rollout %s is deferred without a reason", ev.TargetRef)
		l.must(due == oracle.Defers && edge.Gates == ev.BlockedBy, "S15", "rollout %s is deferred, and channel %s is not in its way", ev.TargetRef, ev.BlockedBy)
		return
	}
	of, is := ev.(event.OfRollout)
	if _, grant := ev.(event.Granted); grant || !is {
		return
	}
	if r := l.find(of); r != nil {
		l.moves(r, e.At, ev)
	}
}

func (l *Log) newest(channel string, ev event.RolloutQueued) bool {
	refs := l.Channel(channel).Refs
	return len(refs) > 0 && refs[0].Digest == ev.Manifest
}

func (l *Log) moves(r *oracle.Rollout, at clock.Instant, ev event.Event) {
	switch ev := ev.(type) {
	case event.RolloutMoved:
		l.moved(r, at, ev)
	case event.RolloutReverting:
		l.reverting(r, ev)
	case event.RolloutPaused:
		l.must(ev.Actor != "", "S18", "rollout %s paused by nobody", r.Name)
	case event.RolloutResumed:
		l.must(ev.Actor != "", "S18", "rollout %s resumed by nobody", r.Name)
		l.must(!r.Final && !r.Reverting, "S18", "rollout %s resumed for good after its end", r.Name)
		l.must(!l.InForce(fleet.OverridePause, "", r.Manifest.Digest, "", ""), "S18", "rollout %s resumed against a signed override", r.Name)
	case event.RolloutRetried:
		l.retried(r, ev)
	case event.RolloutCancelled:
		l.must(ev.Actor != "", "S18", "rollout %s cancelled by nobody", r.Name)
	case event.WavePromoted:
		l.promoted(r, at, ev)
	case event.WaveForced:
		l.forced(r, ev)
	case event.WaveBlocked:
		l.must(ev.Reason != "" && ev.Code != "", "S28", "wave %d of %s is blocked without a reason", ev.Wave, r.Name)
		l.must(r.Blocked != ev.Code, "S27", "wave %d of %s is blocked again for the same reason", ev.Wave, r.Name)
	case event.BreakGlassUsed:
		last := len(r.Manifest.Header.Waves) - 1
		l.must(ev.Actor != "" && ev.Reason != "" && l.Signed(ev.Override, fleet.OverrideBreakGlass, r.Manifest.Digest) != nil, "S40",
			"every wave of %s was opened on override %s, which does not say so", r.Name, ev.Override.Short())
		l.must(ev.Wave == last, "S40", "wave %d of %s was opened as its last, which is %d", ev.Wave, r.Name, last)
	case event.RolloutPruned:
		l.pruned(r, ev)
	}
}

// retried checks that an operator had a rollout tried again that may be, from its first
// wave that failed on.
func (l *Log) retried(r *oracle.Rollout, ev event.RolloutRetried) {
	l.must(ev.Actor != "" && ev.Reason != "", "S18", "rollout %s was tried again by nobody, or without a reason", r.Name)
	l.must(ev.Override == "" || l.Signed(ev.Override, fleet.OverrideRetry, r.Manifest.Digest) != nil, "S18", "rollout %s was tried again on an override that does not say so", r.Name)
	for _, a := range []fleet.OverrideAction{fleet.OverridePause, fleet.OverrideCancel, fleet.OverrideRollback} {
		l.must(!l.InForce(a, "", r.Manifest.Digest, "", ""), "S18", "rollout %s was tried again against a signed %s", r.Name, a)
	}
	l.must(!r.Paused || r.Phase.Ended(), "S18", "rollout %s was tried again while it is paused", r.Name)
	if why := l.Retriable(r); why != "" {
		l.addf("S19", "rollout %s was tried again and %s", r.Name, why)
	}
	wave, again, refusing := l.Failed(r, ev.Override != "")
	l.must(ev.Wave == wave, "S7", "rollout %s was tried again from wave %d, and wave %d is the first with a failed host", r.Name, ev.Wave, wave)
	l.must(slices.Equal(ev.Hosts, again) && slices.Equal(ev.Refusing, refusing), "S17", "rollout %s was tried again for %v and not for %v, by the log for %v and not for %v",
		r.Name, ev.Hosts, ev.Refusing, again, refusing)
}

func (l *Log) opened(ev event.RolloutOpened) {
	l.must(ev.Reason != "", "S28", "rollout %s opened without a reason", ev.Rollout)
	c := l.Channel(ev.Channel)
	l.must(len(c.Refs) > 0 && c.Refs[0].Digest == ev.Manifest, "S16", "%s opened and is not the latest ref of its channel", ev.Rollout)
	for _, r := range l.Rollouts {
		l.must(r.Channel != ev.Channel || r.Phase.Ended(), "S16", "%s opened while %s is %s", ev.Rollout, r.Name, r.Phase)
	}
	due, edge := l.Opening(c)
	if due == oracle.Defers {
		l.addf("S15", "%s opened while channel %s, which goes before, is not done", ev.Rollout, edge.Gates)
	}
	l.must(due == oracle.Opens || due == oracle.Defers, "S16", "%s opened, and is open already or has to wait for the rollout before it", ev.Rollout)
	m, err := l.docs.Manifest(ev.Manifest)
	l.must(err != nil || m.Digest == ev.Manifest && m.Header.Channel == ev.Channel && m.Header.Rollout() == ev.Rollout, "S30",
		"rollout %s opened with a manifest of something else", ev.Rollout)
}

func (l *Log) moved(r *oracle.Rollout, at clock.Instant, ev event.RolloutMoved) {
	to := rollout.Phase(ev.To)
	l.must(ev.Reason != "", "S28", "rollout %s moved to %s without a reason", r.Name, to)
	l.must(string(r.Phase) == ev.From && rollout.Legal(r.Phase, to), "S19", "rollout %s moved from %s (said %s) to %s", r.Name, r.Phase, ev.From, to)
	switch to {
	case rollout.Active:
		halted := r.Phase == rollout.Failed || r.Phase == rollout.Reverted
		l.must(!halted || r.Resumed && ev.Actor != "" && !r.Final, "S18", "rollout %s left its halt without an operator", r.Name)
	case rollout.Superseded:
		c := l.Channel(r.Channel)
		due, _ := l.Opening(c)
		l.must(c.Active == r && due == oracle.Opens, "S16", "rollout %s was superseded while it was %s, and refs of its channel wait", r.Name, r.Phase)
	case rollout.Terminal:
		forced := r.Forced[r.Cursor]
		l.must(r.Cursor == len(r.Manifest.Header.Waves)-1, "S8", "rollout %s is terminal in wave %d", r.Name, r.Cursor)
		l.must(ev.Actor == "" || forced, "S8", "rollout %s ended by %s, who forced no wave", r.Name, ev.Actor)
		l.must(!r.Paused && !r.Reverting, "S18", "rollout %s is terminal while it is paused or reverting", r.Name)
		if code := l.Unproven(r, at); code == oracle.InFlight || !forced {
			l.proven(r, code, "is terminal")
		}
	case rollout.Reverted:
		l.must(r.Reverting, "S19", "rollout %s ended reverted and never went back", r.Name)
		if h := l.Awaited(r); h != nil {
			l.addf("S22", "rollout %s ended reverted with host %s %s", r.Name, h.Name, h.Phase)
		}
	}
}

// proven adds what still kept a rollout from moving on.
func (l *Log) proven(r *oracle.Rollout, code, how string) {
	invariant := "S8"
	switch {
	case code == "":
		return
	case code == oracle.Soak:
		invariant = "S9"
	case code == oracle.Evidence && l.FailingEvidence(r, r.Cursor+1):
		invariant = "S42"
	}
	l.addf(invariant, "wave %d of rollout %s %s and is not proven: %s", r.Cursor, r.Name, how, code)
}

func (l *Log) reverting(r *oracle.Rollout, ev event.RolloutReverting) {
	l.must(ev.Reason != "", "S28", "rollout %s reverts without a reason", r.Name)
	if ev.Override != "" {
		l.must(ev.Actor != "" && l.Signed(ev.Override, fleet.OverrideRollback, r.Manifest.Digest) != nil, "S21",
			"rollout %s reverts on override %s, which is no rollback of it", r.Name, ev.Override.Short())
		return
	}
	p := &r.Manifest.Header.Policy
	l.must(p.OnHealthFailure == fleet.RollbackAndHalt, "S18", "rollout %s reverts under policy halt", r.Name)
	l.must(r.Failures(ev.Wave) > p.MaxFailures && r.Proven(ev.Wave) > p.MaxFailures, "S22", "rollout %s reverts with %d failures in wave %d, %d of them proven",
		r.Name, r.Failures(ev.Wave), ev.Wave, r.Proven(ev.Wave))
}

func (l *Log) promoted(r *oracle.Rollout, at clock.Instant, ev event.WavePromoted) {
	l.must(ev.Reason != "", "S28", "wave %d of %s promoted without a reason", ev.Wave, r.Name)
	l.must(!r.Phase.Ended() && !r.Paused && !r.Reverting, "S18", "wave %d of %s promoted while it is %s", ev.Wave, r.Name, r.Phase)
	if ev.Wave != r.Cursor || ev.Wave+1 >= len(r.Manifest.Header.Waves) {
		l.addf("S7", "wave %d of %s promoted at cursor %d", ev.Wave, r.Name, r.Cursor)
		return
	}
	l.proven(r, l.Unproven(r, at), "promoted")
	n := l.Tally(r, ev.Wave, ev.Wave)
	l.must(ev.Evidence == n.Converged && ev.AtTarget == n.AtTarget && ev.Absent == n.Absent, "S8",
		"wave %d of %s promoted on %d converged, %d unchanged and %d absent hosts by its word, %d, %d and %d by the log",
		ev.Wave, r.Name, ev.Evidence, ev.AtTarget, ev.Absent, n.Converged, n.AtTarget, n.Absent)
	l.must(ev.Skipped == n.Away, "S11", "wave %d of %s skipped %d hosts by its word, %d were never claimed and are away", ev.Wave, r.Name, ev.Skipped, n.Away)
	l.must(r.Failures(ev.Wave) <= r.Manifest.Header.Policy.MaxFailures, "S8", "wave %d of %s promoted with %d failures", ev.Wave, r.Name, r.Failures(ev.Wave))
}

// forced checks a promotion by an operator: it may lack evidence and leave hosts
// waiting, and nothing else.
func (l *Log) forced(r *oracle.Rollout, ev event.WaveForced) {
	l.must(ev.Actor != "" && ev.Reason != "" && len(ev.Blocks) > 0, "S8", "wave %d of %s forced by nobody, or without a reason", ev.Wave, r.Name)
	l.must(!r.Phase.Ended() && !r.Paused && !r.Reverting, "S18", "wave %d of %s forced while it is %s", ev.Wave, r.Name, r.Phase)
	if ev.Wave != r.Cursor || ev.Wave >= len(r.Manifest.Header.Waves) {
		l.addf("S7", "wave %d of %s forced at cursor %d", ev.Wave, r.Name, r.Cursor)
		return
	}
	if ev.Override != "" {
		o := l.Signed(ev.Override, fleet.OverridePromote, r.Manifest.Digest)
		l.must(o != nil && o.Wave == r.Manifest.Header.Waves[ev.Wave].Name, "S8", "wave %d of %s forced on an override that does not say so", ev.Wave, r.Name)
	}
	l.must(l.Tally(r, 0, ev.Wave).Moving == 0, "S8", "wave %d of %s forced while hosts of it are on their way", ev.Wave, r.Name)
	if w := r.Excess(); w >= 0 && w <= ev.Wave {
		l.addf("S8", "wave %d of %s forced with %d failures in wave %d", ev.Wave, r.Name, r.Failures(w), w)
	}
	n := l.Tally(r, ev.Wave, ev.Wave)
	l.must(ev.Evidence == n.Converged && ev.Skipped == n.Away, "S8", "wave %d of %s forced on %d converged and %d skipped hosts by its word, %d and %d by the log",
		ev.Wave, r.Name, ev.Evidence, ev.Skipped, n.Converged, n.Away)
	var hosts []string
	for _, f := range ev.Failing {
		hosts = append(hosts, f.Host)
	}
	l.must(slices.Equal(hosts, ev.Outstanding) && slices.EqualFunc(ev.Failing, l.Outstanding(r, ev.Wave+1), sameEvidence), "S42",
		"wave %d of %s forced over the evidence %v of hosts %v, and %v fails", ev.Wave, r.Name, ev.Failing, ev.Outstanding, l.Outstanding(r, ev.Wave+1))
}

func sameEvidence(a, b event.FailingEvidence) bool {
	return a.Host == b.Host && slices.Equal(slices.Sorted(slices.Values(a.Controls)), b.Controls)
}

// pruned checks that nothing asks for a rollout any more.
func (l *Log) pruned(r *oracle.Rollout, ev event.RolloutPruned) {
	l.must(ev.Reason != "", "S28", "rollout %s pruned without a reason", r.Name)
	l.must(string(r.Phase) == ev.Phase && rollout.Legal(r.Phase, rollout.Pruned), "S19", "rollout %s pruned while it is %s (said %s)", r.Name, r.Phase, ev.Phase)
	c := l.Channel(r.Channel)
	l.must(c.Latest != r && c.Converged != r, "S13", "rollout %s pruned, and hosts that return are given it", r.Name)
	if h := l.Used(r.Manifest.Digest); h != nil {
		l.addf("S13", "rollout %s pruned while host %s is on it", r.Name, h.Name)
	}
}
