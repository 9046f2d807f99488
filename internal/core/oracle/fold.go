package oracle

import (
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// UnknownError names an event of which the specification says nothing.
type UnknownError struct{ Type string }

func (e *UnknownError) Error() string { return "the specification says nothing of " + e.Type }

// Apply reads one event that ev was decoded from. What an event says of a rollout that
// never opened changes nothing.
func (f *Facts) Apply(e event.Entry, ev event.Event) error {
	if !event.FromHost(e.Type) {
		if e.At > f.latest {
			f.before, f.latest = f.latest, e.At
		}
	}
	if e.HostSeq != 0 {
		f.Host(e.Host()).Seq = e.HostSeq
	}
	switch ev := ev.(type) {
	case event.ReleaseAccepted:
		f.released(ev)
	case event.TimestampAccepted:
		f.issued, f.accepted, f.latest, f.before = ev.IssuedAt, e.At, e.At, e.At
	case event.RootTrusted:
		f.Epoch = ev.Epoch
		f.endOverrides()
	case event.OverrideAccepted:
		f.override(ev)
	case event.ComplianceEvaluated:
		f.Barred[ev.Manifest] = slices.ContainsFunc(ev.Failures, func(x fleet.ControlFailure) bool { return x.Mode == fleet.Enforce })
	case event.QuarantineAdded:
		f.Channel(ev.Channel).Quarantined[ev.Digest] = true
	case event.QuarantineCleared:
		c := f.Channel(ev.Channel)
		delete(c.Quarantined, ev.Digest)
		for _, r := range []*Rollout{c.Latest, c.Converged} {
			if r != nil && r.Phase == rollout.Terminal {
				r.excuse()
			}
		}
	case event.HostEnrolled, event.CertificateRenewed, event.HostRevoked, event.HostDecommissioned, event.HostForked, event.HostSlotFreed,
		event.HostSilent, event.HostReturned, event.HostFailedSilently, event.HostHead, event.LogRestored, event.HostDegraded, event.HostRecovered, event.HostFrozen, event.HostUnfrozen:
		f.presence(f.Host(e.Host()), e.At, ev)
	case event.ServerResumed:
		f.resumed = e.At
	case event.ManagedSet, event.ManagedRemoved:
		f.Host(e.Host()).sits(ev)
	case event.WorkloadsRemoved:
		h := f.Host(e.Host())
		h.Identity, h.Left = max(h.Identity, Leaving), true
	case event.HostStepped:
		return f.stepped(f.Host(e.Host()), e.At, ev)
	case event.RepairNeeded, event.RepairOver, event.GrantDeclined, event.Granted, event.GrantClaimed, event.GrantEnded:
		f.granted(f.Host(e.Host()), e.At, ev)
	case event.RolloutOpened, event.RolloutQueued, event.RolloutDeferred:
		return f.opening(e.At, ev)
	case event.RolloutMoved, event.RolloutReverting, event.RolloutPaused, event.RolloutResumed, event.RolloutCancelled, event.RolloutPruned, event.RolloutRetried,
		event.WavePromoted, event.WaveForced, event.WaveBlocked, event.BreakGlassUsed:
		if r := f.About(ev); r != nil {
			f.moved(r, e.At, ev)
		}
	case event.MirrorDiverged, event.TrustRefused, event.BundleQuarantined, event.FileKept, event.HostFacts,
		event.ResourceReported, event.EnrolRefused, event.VerifyFailed, event.SourceFailed, event.SourceRecovered, event.ExpiryWarned, event.ExpiryCleared,
		event.OperatorTokenAdded, event.OperatorTokenUsed, event.OperatorTokenRevoked, event.StreamOpened, event.SafeModeEnded, event.LogCheckpoint, event.ManagedRequested, event.HostTuned, event.HostRetried, event.ResourceRecorded, event.OnAttention:
		// Nothing that is decided reads these.
	case event.OfNodes:
		// No rollout depends on nodes.
	default:
		return &UnknownError{ev.EventType()}
	}
	return nil
}

// About returns the rollout that an event is about, or nil.
func (f *Facts) About(ev event.Event) *Rollout {
	of, is := ev.(event.OfRollout)
	if !is {
		return nil
	}
	name, d := of.Of()
	if d != "" {
		return f.Find(d)
	}
	for _, r := range slices.Backward(f.Rollouts) {
		if r.Name == name {
			return r
		}
	}
	return nil
}

func (f *Facts) released(ev event.ReleaseAccepted) {
	f.Edges, f.releaseEpoch = ev.ChannelEdge, ev.Epoch
	for _, cr := range ev.Channels {
		c := f.Channel(cr.Channel)
		c.Window, c.OnNewRef, c.Refs = cr.FreshnessWindow, cr.OnNewRef, cr.Manifests
		if c.next() == nil {
			c.Queued, c.Deferral = "", ""
		}
	}
}

func (f *Facts) opening(at clock.Instant, ev event.Event) error {
	switch ev := ev.(type) {
	case event.RolloutQueued:
		f.Channel(ev.Channel).Queued = ev.Manifest
	case event.RolloutDeferred:
		f.Channel(ev.Channel).Deferral = deferral(ev)
	case event.RolloutOpened:
		m, err := f.docs.Manifest(ev.Manifest)
		if err != nil {
			return err
		}
		r := &Rollout{Name: ev.Rollout, Channel: ev.Channel, Manifest: m, Phase: rollout.Opening, Order: f.opened, OpenedAt: at, members: f.members(m), Marks: map[string]Mark{},
			Excused: make([]int, len(m.Header.Waves)), Paused: f.InForce(fleet.OverridePause, "", ev.Manifest, "", "")}
		f.Rollouts, f.opened = append(f.Rollouts, r), f.opened+1
		c := f.Channel(ev.Channel)
		c.Active, c.Latest, c.Queued, c.Deferral = r, r, "", ""
	}
	return nil
}

// members resolves the names in a manifest's budgets.
func (f *Facts) members(m *rollout.Manifest) [][]*Host {
	out := make([][]*Host, len(m.Members))
	for i, names := range m.Members {
		for _, name := range names {
			out[i] = append(out[i], f.Host(name))
		}
	}
	return out
}

// Deferred reports whether the log said last of a channel what an event says of it.
func (f *Facts) Deferred(ev event.RolloutDeferred) bool {
	return f.Channel(ev.Channel).Deferral == deferral(ev)
}

func deferral(ev event.RolloutDeferred) string {
	return ev.TargetRef + " " + ev.BlockedBy + " " + ev.Reason
}

func (f *Facts) moved(r *Rollout, at clock.Instant, ev event.Event) {
	c := f.Channel(r.Channel)
	switch ev := ev.(type) {
	case event.RolloutMoved:
		f.phase(c, r, ev, at)
	case event.RolloutReverting:
		r.Reverting, r.Ordered = true, r.Ordered || ev.Override != ""
	case event.RolloutPaused:
		r.Paused = true
	case event.RolloutResumed:
		r.Paused = false
		if r.Phase == rollout.Failed {
			r.Resumed = true
			r.excuse()
		}
	case event.RolloutRetried:
		f.tryAgain(r, at, ev)
	case event.RolloutCancelled:
		r.Final = true
		if c.Active == r {
			c.Active = nil
		}
	case event.RolloutPruned:
		r.Phase = rollout.Pruned
		f.Rollouts = slices.DeleteFunc(f.Rollouts, func(other *Rollout) bool { return other == r })
	case event.WavePromoted:
		r.Cursor, r.Blocked = r.wave(ev.Wave+1), ""
		if r.Absent == 0 && r.Soaked == 0 && ev.Evidence == 0 && ev.AtTarget == 0 && ev.Failed == 0 && ev.Skipped == 0 {
			r.Absent = ev.Absent
		}
	case event.BreakGlassUsed:
		r.Cursor, r.Blocked, r.Glass = max(r.Cursor, r.wave(ev.Wave)), "", true
	case event.WaveForced:
		if r.Forced == nil {
			r.Forced, r.Accepted = map[int]bool{}, map[Failing]bool{}
		}
		r.Forced[ev.Wave] = true
		for _, failing := range ev.Failing {
			for _, control := range failing.Controls {
				r.Accepted[Failing{failing.Host, control}] = true
			}
		}
		r.Cursor, r.Blocked = r.wave(ev.Wave+1), ""
	case event.WaveBlocked:
		r.Blocked = ev.Code
	}
}

// wave keeps the number of a wave in range.
func (r *Rollout) wave(w int) int { return max(0, min(w, len(r.Manifest.Header.Waves)-1)) }

func (f *Facts) phase(c *Channel, r *Rollout, ev event.RolloutMoved, at clock.Instant) {
	r.Phase, r.EndedAt = rollout.Phase(ev.To), at
	r.Final = r.Final || ev.Final
	if r.Phase == rollout.Failed || r.Phase == rollout.Reverted {
		r.Resumed = false
	}
	switch {
	case r.Phase == rollout.Active:
		c.Active = r
	case r.Phase == rollout.Terminal:
		c.Converged, c.Active = r, nil
	case r.Phase == rollout.Failed && !r.Final || r.Phase == rollout.Converging:
	case c.Active == r:
		c.Active = nil
	}
}

// granted reads the life of a grant, and of the drift that asks for one.
func (f *Facts) granted(h *Host, at clock.Instant, ev event.Event) {
	g := h.Grant
	switch ev := ev.(type) {
	case event.Granted:
		h.Grant = &Grant{ID: ev.Grant, Host: h.Name, Manifest: ev.Manifest, Purpose: ev.Purpose, Target: ev.Target, Expires: ev.Expires, At: at}
		if ev.Purpose != host.Repair {
			h.NotBefore = 0
		}
		if r := f.Find(ev.Manifest); r != nil && ev.Purpose == host.Update {
			r.Granted = true
		}
	case event.GrantClaimed:
		if g != nil && g.ID == ev.Grant {
			f.claimed(h, at)
		}
	case event.GrantDeclined:
		f.declined(h, ev)
	case event.GrantEnded:
		if g == nil || g.ID != ev.Grant {
			return
		}
		h.Grant = nil
		if r := f.Find(g.Manifest); r != nil && g.Claimed && h.Manifest != g.Manifest {
			r.mark(h.Name, func(m *Mark) { m.Claimed = false }) // it gave the grant back and never acted
		}
		switch {
		case ev.NotBefore == 0:
		case g.Purpose != host.Repair:
			h.NotBefore, h.Untaken = ev.NotBefore, h.Untaken+1
		case h.Need != nil:
			h.NeedNotBefore = ev.NotBefore
			h.UntakenRepairs++
		}
	case event.RepairNeeded:
		if h.Need == nil {
			f.asked++
			h.Place, h.NeedNotBefore, h.UntakenRepairs = f.asked, 0, 0
		}
		n := ev.RepairNeed
		h.Need = &n
	case event.RepairOver:
		h.Need = nil
		if g != nil && g.Purpose == host.Repair && ev.Grant == g.ID {
			h.Grant, h.Overdue = nil, h.Overdue && h.SilentFailure
		}
	}
}

func (f *Facts) claimed(h *Host, at clock.Instant) {
	g := h.Grant
	g.Claimed = true
	if g.Purpose == host.Update {
		h.Claim = Claim{g.Manifest, at}
	}
	h.Began, h.WorksFrom, h.Reports = at, at, false
	if g.Purpose == host.Repair {
		return // no part of a rollout
	}
	if r := f.Find(g.Manifest); r != nil {
		r.mark(h.Name, func(m *Mark) { m.Claimed = true })
	}
}

func (f *Facts) declined(h *Host, ev event.GrantDeclined) {
	g := h.Grant
	if g == nil || g.ID != ev.Grant || g.Claimed && (h.Identity == Shared || !host.GivesBack(ev.Code)) {
		return // another agent with this identity may act on it
	}
	g.Declined = true
	if g.Purpose == host.Repair || g.Purpose == host.Reboot {
		return
	}
	if at := h.Phase; g.Claimed && at != host.Activating && at != host.Soaking && at != host.Deferred { // nothing is outstanding
		h.SilentFailure, h.Overdue = false, false
	}
	switch ev.Code {
	case host.DeclineAtTarget:
		h.Current = g.Target
	case host.DeclineQuarantined:
		if r := f.Find(g.Manifest); r != nil {
			r.mark(h.Name, func(m *Mark) { m.Refused = true })
		}
	}
}
