package oracle

import (
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// A retry begins a rollout anew for hosts that failed: what they claimed before it is
// no part of it.

// tryAgain forgets what failed so far, and what held the rollout. Who is known to refuse
// the target goes on to, unless the retry is signed, and counts no more.
func (f *Facts) tryAgain(r *Rollout, at clock.Instant, ev event.RolloutRetried) {
	converged := false
	for i := range r.Manifest.Leaves {
		leaf := &r.Manifest.Leaves[i]
		m, is := r.Marks[leaf.Host]
		h := f.Host(leaf.Host)
		where := f.Position(h, r, leaf)
		converged = converged || where == Converged
		if is {
			stays := where == Converged || where == Broken || h.Manifest == r.Manifest.Digest && h.Phase == host.Failed
			r.Marks[leaf.Host] = Mark{Refused: m.Refused && ev.Override == "", Claimed: m.Claimed && stays}
		}
	}
	if !converged {
		r.Soaked = 0
	}
	r.Retried, r.SignedRetry, r.Resumed, r.Glass = at, ev.Override != "", true, false
	r.Reverting, r.Ordered, r.Final, r.Paused = false, false, false, false
	r.Cursor, r.Blocked = r.wave(ev.Wave), ""
	r.excuse()
}

// earlier reports whether the host's newest claim of the rollout came before its retry.
func (h *Host) earlier(r *Rollout) bool {
	return r.Retried != 0 && !(h.Claim.Manifest == r.Manifest.Digest && h.Claim.At >= r.Retried)
}

// anew reports whether a host on the rollout's manifest was through with it, and not with
// success, before the retry.
func (f *Facts) anew(h *Host, r *Rollout) bool {
	return h.earlier(r) && (h.Phase == host.Reverted || h.Phase == host.Failed && !h.Reverting)
}

// quarantinesTarget reports whether a machine that goes back, or did, refuses what it
// left. Whether one that lost contact does, it does not say.
func (m *Machine) quarantinesTarget() bool {
	wentBack := m.Phase == host.Reverted || m.Phase == host.Failed && (m.Reverting || m.Reverts > 0)
	return wentBack && m.Cause != host.ContactLost && m.Target != m.From
}

// Retriable says why a rollout may not be tried again, or nothing.
func (f *Facts) Retriable(r *Rollout) string {
	switch {
	case f.Channel(r.Channel).Latest != r || r.Phase == rollout.Superseded:
		return "is followed by another"
	case f.outdated(r):
		return "is of an earlier key epoch"
	case f.Barred[r.Manifest.Digest]:
		return "fails required controls"
	case f.Awaited(r) != nil && r.Reverting:
		return "is on its way back"
	}
	bad := r.Phase == rollout.Failed || r.Phase == rollout.Reverted
	for i := range r.Manifest.Leaves {
		leaf := &r.Manifest.Leaves[i]
		switch f.Position(f.Host(leaf.Host), r, leaf) {
		case UnderWay, Returning:
			return "has hosts in flight"
		case Broken, Back, Refusing:
			bad = true
		}
	}
	if !bad {
		return "failed nowhere"
	}
	return ""
}

// Failed is what a retry is about: the first wave with a host that failed, went back or
// refuses the target, but the open one at most, which of them may take it again, and which
// refuse it until a retry is signed. A silent one is in neither list: it keeps its slot.
func (f *Facts) Failed(r *Rollout, signed bool) (first int, again, refusing []string) {
	first = r.Cursor
	for i := range r.Manifest.Leaves {
		leaf := &r.Manifest.Leaves[i]
		h := f.Host(leaf.Host)
		if at := f.Position(h, r, leaf); h.Freed || at != Broken && at != Back && at != Refusing {
			continue
		}
		first = min(first, leaf.Wave)
		switch {
		case h.SilentFailure:
		case !signed && (r.Marks[h.Name].Refused || h.Manifest == r.Manifest.Digest && h.quarantinesTarget()):
			refusing = append(refusing, h.Name)
		default:
			again = append(again, h.Name)
		}
	}
	return first, again, refusing
}
