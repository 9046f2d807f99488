package plan

import (
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// Retry has a rollout tried again on an operator's word, once the cause of its failures
// is mended outside: failures so far count no more, its bundles are allowed again on the
// channel, and waves open again from the first one with a host that failed. Hosts that
// quarantined the bundle themselves refuse it until a retry is signed: where there are no
// others, so is the retry.
func Retry(s *State, id, reason, actor string, now clock.Instant) ([]event.Entry, error) {
	r := s.Find(id)
	if r == nil {
		return nil, unknownErrorf("there is no rollout %q; steady rollout list shows them", id)
	}
	if err := s.may(Retrying, r, now); err != nil {
		return nil, err
	}
	d := &decider{s: s, now: now}
	d.retry(r, reason, actor, "")
	return d.entries, d.err
}

// mayRetryUnsigned is mayRetry of a retry that no host obeys which refuses the bundle itself.
func (s *State) mayRetryUnsigned(r *rollout.Rollout) error {
	if err := s.mayRetry(r); err != nil {
		return err
	}
	if ev := s.retrying(r, "", "", ""); len(ev.Refusing) > 0 && !movesOn(r, &ev) {
		return verbErrorf("nothing would come of it: %s went back from %s and %s its bundle quarantined, which no token ends: steady rollout retry %s --sign KEYS",
			prose.Names(ev.Refusing, 5), r.Name, prose.Verb(len(ev.Refusing), "has", "have"), r.Name)
	}
	return nil
}

// mayRetry says why a rollout is not tried again, if it is not.
func (s *State) mayRetry(r *rollout.Rollout) error {
	c := s.Channels[r.Channel]
	switch {
	case c.Latest != r.Manifest || r.Plan == nil || r.Phase == rollout.Superseded:
		return verbErrorf("rollout %s was followed by another; push a release instead", r.Name)
	case s.outdated(r):
		return verbErrorf("rollout %s was signed in a key epoch that has ended; build, sign and push a release", r.Name)
	case r.Paused && !r.Phase.Ended():
		return verbErrorf("rollout %s is paused; steady rollout resume %s", r.Name, r.Name)
	case r.Reverting && r.RollbackPending.Len() > 0:
		return verbErrorf("rollout %s is being reverted; retry it when its hosts are back, steady rollout watch %s", r.Name, r.Name)
	}
	if b := s.controls(r.Name, r.Manifest); b != nil {
		return verbErrorf("%s; %s", b.Message, b.ClearedBy)
	}
	for i := range r.Plan.Leaves {
		if t := s.Overrides.Quarantined(r.Channel, r.Plan.Leaves[i].Target, ""); t != nil {
			return needsSignature("bundle "+t.Bundle.Short(), t, "steady quarantine clear "+r.Channel+" "+t.Bundle.Short()+" --sign KEYS")
		}
	}
	t := r.Total()
	if n := t.By[rollout.Claimed] + t.Unsettled; n > 0 {
		return verbErrorf("%s of %s %s in flight; wait until they converge or fail, steady rollout show lists them", prose.Count(n, "host"), r.Name, prose.Verb(n, "is", "are"))
	}
	if !s.mayStartAgain(r) {
		return verbErrorf("rollout %s is %s and no host of it failed; there is nothing to retry", r.Name, Status(r))
	}
	return nil
}

// mayStartAgain reports whether a rollout ended badly, or left hosts behind that failed.
func (s *State) mayStartAgain(r *rollout.Rollout) bool {
	if r.Phase == rollout.Failed || r.Phase == rollout.Reverted {
		return true
	}
	t := r.Total()
	return t.By[rollout.Broken]+t.By[rollout.RolledBack]+t.By[rollout.Refused] > 0
}

// movesOn reports whether a retry reaches a host: one that failed, or that waits in a wave
// which it opens.
func movesOn(r *rollout.Rollout, ev *event.RolloutRetried) bool {
	if len(ev.Hosts) > 0 {
		return true
	}
	for i := range r.Members {
		if r.Members[i].Status == rollout.Waiting && r.Plan.Leaves[i].Wave <= ev.Wave {
			return true
		}
	}
	return false
}

func (d *decider) retry(r *rollout.Rollout, reason, actor string, word digest.Digest) {
	d.add("", d.s.retrying(r, reason, actor, word))
	for i := range r.Plan.Leaves {
		h := d.s.host(r.Plan.Leaves[i].Host)
		if g := h.Grant; h.offered() && g.Manifest == r.Manifest && (g.Purpose == host.Update || g.Purpose == host.Rollback) {
			d.endGrant(h, "rollout "+r.Name+" is tried again", 0)
		}
	}
	for i := range r.Plan.Leaves {
		if t := r.Plan.Leaves[i].Target; d.s.Channels[r.Channel].Quarantine[t] != "" {
			d.add("", event.QuarantineCleared{Channel: r.Channel, Digest: t, Reason: "rollout " + r.Name + " is tried again: " + reason, Actor: actor})
		}
	}
	if r.Phase == rollout.Failed || r.Phase == rollout.Reverted {
		d.add("", event.RolloutMoved{Rollout: r.Name, Manifest: r.Manifest, From: string(r.Phase), To: string(rollout.Active),
			Reason: "tried again: " + reason, Actor: actor})
	}
}

// retrying is the event of trying a rollout again.
func (s *State) retrying(r *rollout.Rollout, reason, actor string, word digest.Digest) event.RolloutRetried {
	ev := event.RolloutRetried{Rollout: r.Name, Channel: r.Channel, Manifest: r.Manifest, Wave: r.Cursor, Reason: reason, Actor: actor, Override: word}
	for i := range r.Members {
		m, leaf := &r.Members[i], &r.Plan.Leaves[i]
		h := s.host(leaf.Host)
		if m.Status != rollout.Broken && m.Status != rollout.RolledBack && m.Status != rollout.Refused || h.freedSlot() {
			continue
		}
		ev.Wave = min(ev.Wave, leaf.Wave)
		switch {
		case h.SilentFailure: // it comes when it reports
		case word == "" && (m.Refused != "" || h.Machine.Manifest == r.Manifest && h.Machine.Refuses()):
			ev.Refusing = append(ev.Refusing, leaf.Host)
		default:
			ev.Hosts = append(ev.Hosts, leaf.Host)
		}
	}
	ev.WaveName = r.Plan.Header.Waves[ev.Wave].Name
	return ev
}

// foldRetried has the failures so far count no more and opens waves again. What hosts
// are known to refuse they refuse after a token as before.
func (s *State) foldRetried(r *rollout.Rollout, at clock.Instant, ev event.RolloutRetried) {
	r.RetriedAt, r.RetrySigned = at, ev.Override != ""
	r.Reverting, r.Ordered, r.Final, r.Paused, r.PauseReason, r.BreakGlass = false, false, false, false, "", ""
	r.Cursor = ev.Wave
	r.SetBlocked("", at)
	s.MarkAll()
	if r.Plan == nil {
		return
	}
	soaked := false
	for i := range r.Members {
		status, h := r.Members[i].Status, s.host(r.Plan.Leaves[i].Host)
		soaked = soaked || status == rollout.Converged
		if r.Members[i].Mark == (rollout.Mark{}) {
			continue
		}
		// Who failed and is still there has what the rollout brought, also from before another retry.
		failed := status == rollout.Broken || h.Machine.Manifest == r.Manifest && h.Machine.Phase == host.Failed
		r.SetMark(h.Name, func(m *rollout.Mark) {
			m.Failed, m.Proven, m.Away = false, false, false
			m.Claimed = m.Claimed && (status == rollout.Converged || failed)
			if r.RetrySigned {
				m.Refused = ""
			}
		})
	}
	if !soaked {
		r.SoakedAt = 0
	}
	for w := range r.Waves {
		r.Acknowledged[w] = r.Waves[w].Failures
	}
	s.setMembers(r)
}

// outlived reports whether what a host did of a rollout it claimed before the rollout was
// tried again.
func (h *Host) outlived(r *rollout.Rollout) bool {
	return r.RetriedAt != 0 && (h.Work.Manifest != r.Manifest || h.Work.ClaimedAt < r.RetriedAt)
}

// startsAgain reports whether a host ended its part in a rollout before that was tried
// again, and may begin anew.
func (h *Host) startsAgain(r *rollout.Rollout) bool {
	m := &h.Machine
	return m.Manifest == r.Manifest && h.outlived(r) && (m.Phase == host.Reverted || m.Phase == host.Failed && !m.Reverting)
}

// refusesItself reports whether a host is known to refuse the target of a rollout by
// itself: it declined it, or quarantined it as it went back and nobody signed a retry since.
func (h *Host) refusesItself(r *rollout.Rollout, refused string) bool {
	return refused != "" || !r.RetrySigned && h.startsAgain(r) && h.Machine.Refuses()
}

// retrySigned carries out a signed retry where there is something to try again.
func (d *decider) retrySigned(r *rollout.Rollout, t *gate.AcceptedOverride, actor string) {
	if r != nil && r.Plan != nil && d.s.mayStartAgain(r) {
		d.retry(r, t.Reason, actor, t.Digest)
	}
}
