package plan

import (
	"cmp"
	"fmt"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// Apply folds one entry of the log. An unknown event type is an
// *event.UnknownTypeError: the process must stop.
func (s *State) Apply(e event.Entry) error {
	ev, err := event.Decode(e)
	if err != nil {
		return err
	}
	return s.ApplyEvent(e, ev)
}

// ApplyEvent is Apply of an entry that ev was decoded from, or made of. Only At, Host,
// Incarnation and HostSeq of the entry are read.
func (s *State) ApplyEvent(e event.Entry, ev event.Event) error {
	if s.watch != nil {
		s.watch(e, ev)
	}
	if err := s.follow(e); err != nil {
		return err
	}
	s.Elapsed.observe(e, ev)
	switch ev := ev.(type) {
	case event.RootTrusted:
		s.foldRoot(ev)
	case event.ReleaseAccepted:
		s.foldRelease(e.At, ev)
	case event.TimestampAccepted:
		s.Timestamp = ev
		s.MarkAll()
	case event.HostEnrolled:
		s.foldEnrolled(e.At, e.Host(), ev)
	case event.CertificateRenewed:
		h := s.host(e.Host())
		h.Serial, h.PrevSerial, h.NotAfter, h.IssuedAt = ev.Serial, ev.Presented, ev.NotAfter, cmp.Or(ev.Issued, e.At)
	case event.HostRevoked, event.HostForked, event.HostDecommissioned, event.HostSlotFreed, event.WorkloadsRemoved:
		s.foldIdentity(s.host(e.Host()), ev)
	case event.HostHead, event.LogRestored:
		s.foldHead(e.At, s.host(e.Host()), ev)
	case event.HostSilent, event.HostReturned, event.HostFailedSilently:
		s.foldPresence(e.At, s.host(e.Host()), ev)
	case event.HostStepped:
		return s.foldStepped(e, s.host(e.Host()), ev)
	case event.HostFacts:
		s.foldFacts(s.host(e.Host()), ev)
	case event.RolloutPruned:
		return s.foldPruned(ev)
	case event.ServerResumed:
		s.foldResumed(e.At)
	case event.HostDegraded, event.HostRecovered:
		s.foldHealth(e.At, s.host(e.Host()), ev)
	case event.ManagedSet, event.ManagedRemoved:
		s.foldOccupied(e.Host(), ev)
	case event.HostFrozen, event.HostUnfrozen:
		s.foldFreeze(s.host(e.Host()), ev)
	case event.RepairNeeded, event.RepairOver:
		s.foldRepair(s.host(e.Host()), ev)
	case event.GrantDeclined:
		s.foldDeclined(s.host(e.Host()), ev)
	case event.RolloutOpened:
		return s.foldOpened(e.At, ev)
	case event.OperatorTokenAdded, event.OperatorTokenUsed, event.OperatorTokenRevoked:
		s.Operators.Fold(e.At, ev)
	case event.Granted, event.GrantClaimed, event.GrantEnded:
		s.foldGrant(e, s.host(e.Host()), ev)
	case event.QuarantineAdded, event.QuarantineCleared, event.RolloutQueued, event.RolloutDeferred:
		return s.foldChannel(ev)
	case event.OfRollout:
		return s.foldRollout(e.At, ev)
	case event.OverrideAccepted:
		s.foldOverride(ev)
	case event.ComplianceEvaluated:
		s.foldCompliance(ev)
	case event.VerifyFailed, event.SourceFailed, event.SourceRecovered, event.ExpiryWarned, event.ExpiryCleared:
		s.Warn(e.At, ev)
	case event.EnrolRefused, event.MirrorDiverged, event.TrustRefused,
		event.BundleQuarantined, event.FileKept, event.StreamOpened, event.SafeModeEnded, event.LogCheckpoint,
		event.ManagedRequested, event.HostTuned, event.HostRetried, event.ResourceReported, event.OfNodes, event.ResourceRecorded, event.OnAttention:
		// For people, or of other folds: no decision of this one reads them.
	default:
		return &event.UnknownTypeError{Type: ev.EventType()}
	}
	return nil
}

func (s *State) follow(e event.Entry) error {
	if e.HostSeq == 0 {
		return nil // of the server
	}
	return s.host(e.Host()).follow(e)
}

// follow goes one event further along the host's chain.
func (h *Host) follow(e event.Entry) error {
	if e.Incarnation != h.Incarnation || e.HostSeq != h.Seq+1 {
		return fmt.Errorf("event %d of host %s (incarnation %d) does not follow event %d (incarnation %d)",
			e.HostSeq, e.Host(), e.Incarnation, h.Seq, h.Incarnation)
	}
	h.Seq, h.Clock.At = e.HostSeq, e.At
	return nil
}

// foldRoot trusts a root. One that begins a key epoch ends what was signed before.
func (s *State) foldRoot(ev event.RootTrusted) {
	if s.Root.Epoch != ev.Epoch {
		s.MarkAll()
	}
	s.Root = ev
	s.endOverrides(ev.Epoch)
}

func (s *State) foldRelease(at clock.Instant, ev event.ReleaseAccepted) {
	s.Release = Release{Version: ev.Version, Epoch: ev.Epoch, Ref: ev.Ref, Resolved: ev.Resolved,
		Roster: ev.Roster, Envelopes: ev.Envelopes, At: at}
	s.Edges = ev.ChannelEdge
	defer s.dropVerdicts()
	for _, cr := range ev.Channels {
		c := s.Channels[cr.Channel]
		if c == nil {
			c = &Channel{Name: cr.Channel, Quarantine: map[digest.Digest]string{}}
			s.Channels[cr.Channel] = c
		}
		c.FreshnessWindow, c.ReconcileInterval, c.OnNewRef = cr.FreshnessWindow, cr.ReconcileInterval, cr.OnNewRef
		was := c.pending()
		c.Manifests = cr.Manifests
		switch ref := c.pending(); {
		case ref == nil:
			c.Queued, c.Deferral, c.PendingSince = "", "", 0
		case was == nil || was.Digest != ref.Digest:
			c.PendingSince = at
		}
	}
	s.MarkAll()
}

// Mark has a channel planned at the next Next.
func (s *State) Mark(channel string) { s.dirty[channel] = true }

// MarkAll has every channel planned at the next Next. It decides nothing and changes
// nothing that is logged.
func (s *State) MarkAll() {
	for name := range s.Channels { // order-free: it only fills a set
		s.dirty[name] = true
	}
	s.repairsDirty = true
}

func (s *State) foldEnrolled(at clock.Instant, name string, ev event.HostEnrolled) {
	h := s.host(name)
	s.Tokens[ev.Token] = SpentToken{Host: name, KeyDigest: ev.KeyDigest, Certificate: ev.Certificate}
	fresh := Host{Name: name, budgets: h.budgets, memberships: h.memberships, inFlight: h.inFlight, idle: h.idle, RevokedBefore: h.RevokedBefore, Freeze: h.Freeze, Occupied: h.Occupied,
		Former: s.formerOf(at, h, ev.EventKey)}
	fresh.Incarnation, fresh.EventKey, fresh.TokenDoc = ev.Incarnation, ev.EventKey, ev.TokenDoc
	fresh.Serial, fresh.NotAfter, fresh.IssuedAt = ev.Serial, ev.NotAfter, at
	*h = fresh
	s.refresh(h)
	s.markGated(h)
}

func (s *State) foldPresence(at clock.Instant, h *Host, ev event.Event) {
	switch ev := ev.(type) {
	case event.HostSilent:
		h.Online, h.LastSeen = false, ev.LastSeen
		if h.Acting() {
			h.SilentSince = at
		}
	case event.HostReturned:
		h.Online, h.LastSeen, h.SilentSince, h.Work.Returned = true, 0, 0, at
	case event.HostFailedSilently:
		if h.repairsOnly() { // no part of a rollout
			h.Overdue = true
			break
		}
		h.SilentFailure, h.Overdue = true, ev.Overdue
		if r := s.Rollouts[h.actsFor()]; r != nil {
			r.SetMark(h.Name, func(m *rollout.Mark) { m.Failed = true })
			s.dirty[r.Channel] = true
		}
	}
	s.refresh(h)
}

func (s *State) foldStepped(e event.Entry, h *Host, ev event.HostStepped) error {
	in, err := ev.HostInput()
	if err != nil {
		return fmt.Errorf("event %d of host %s: %w", e.HostSeq, h.Name, err)
	}
	if _, booted := in.(host.Booted); booted {
		h.Clock.Known = false
	}
	if accepts(&h.Machine, in, &ev) {
		s.replayedClaim(h, in)
	}
	// The agent's own clock rules its machine, and e.At is on it.
	before, claimed := h.Machine, h.claims(in)
	s.stepped = s.mirror(h, in, e.At, ev)
	h.stepped(&before)
	if h.Grant != nil && (h.Machine.Grant == h.Grant.ID || h.Machine.Reboot == h.Grant.ID || h.rebootSuperseded()) {
		h.Grant = nil // the machine leads from here
	}
	if r := s.Rollouts[h.Machine.Manifest]; r != nil {
		_, reboots := in.(host.RebootClaimed)
		_, update := in.(host.Claimed)
		if claimed && (update || reboots && before.Staged()) && accepts(&before, in, &ev) {
			h.Backoff = Backoff{}
		}
		if h.Machine.Phase == host.Converged {
			s.soakedFirst(h, r)
		}
		if h.Machine.Phase == host.Failed && before.Phase != host.Failed && h.Machine.Cause != host.RevertOrdered && !h.outlived(r) {
			m := &h.Machine // whose times are on its own clock
			window := h.Work.ClaimedAt.Add(m.CompletedAt.Sub(m.ClaimedAt))
			away := m.Cause == host.ContactLost && s.Resumed > window
			r.SetMark(h.Name, func(m *rollout.Mark) { m.Failed, m.Proven, m.Away = true, true, away })
			s.dirty[r.Channel] = true
		}
	}
	s.refresh(h)
	return nil
}

// foldDeclined keeps why a host will not take a grant; the GrantEnded that
// follows frees it.
func (s *State) foldDeclined(h *Host, ev event.GrantDeclined) {
	g := h.Grant
	if !h.mayFree(ev) {
		return
	}
	if b := h.backoff(g.Purpose); b != nil {
		b.DeclineCode, b.Detail = ev.Code, ev.Detail
		b.LastDecline = gate.Untaken{Code: ev.Code, Detail: ev.Detail}.Message()
	}
	if g.Purpose == host.Repair || g.Purpose == host.Reboot { // it says nothing of what a rollout would bring
		return
	}
	if m := &h.Machine; g.Claimed && (m.Phase == host.Failed || !m.InFlight()) { // that is what came of its claim
		h.SilentFailure, h.Overdue = false, false
	}
	switch ev.Code {
	case host.DeclineAtTarget:
		h.Machine.Current = g.Target
	case host.DeclineQuarantined:
		if r := s.Rollouts[g.Manifest]; r != nil {
			r.SetMark(h.Name, func(m *rollout.Mark) { m.Refused = ev.Code + ": " + ev.Detail })
		}
	}
	s.refresh(h)
}

func (s *State) foldGrant(e event.Entry, h *Host, ev event.Event) {
	switch ev := ev.(type) {
	case event.Granted:
		s.Grants++
		d := ev.Manifest
		if d == "" {
			d = s.names[ev.Rollout]
		}
		h.Grant = &Grant{ID: ev.Grant, Manifest: d, Rollout: ev.Rollout, Purpose: ev.Purpose,
			Target: ev.Target, Reason: ev.Reason, At: e.At, Expires: ev.Expires}
		if r := s.Rollouts[d]; r != nil && ev.Purpose == host.Update {
			r.Granted = true
		}
		if b := h.backoff(ev.Purpose); b != nil { // of what follows nothing is known yet
			b.DeclineCode, b.Detail = "", ""
		}
		if ev.Purpose != host.Repair {
			h.NotBefore = 0
		}
		s.wake(ev.Expires, h.Name)
	case event.GrantClaimed:
		if h.Grant != nil && h.Grant.ID == ev.Grant {
			h.Grant.Claimed = true
			s.claimed(h, e.At)
			if h.Grant.Purpose == host.Repair {
				break // no part of a rollout
			}
			if r := s.Rollouts[h.Grant.Manifest]; r != nil {
				r.SetMark(h.Name, func(m *rollout.Mark) { m.Claimed = true })
			}
		}
	case event.GrantEnded:
		if g := h.Grant; g != nil && g.ID == ev.Grant {
			h.Grant = nil
			if r := s.Rollouts[g.Manifest]; g.Claimed && r != nil && h.Machine.Manifest != g.Manifest {
				r.SetMark(h.Name, func(m *rollout.Mark) { m.Claimed = false }) // given back: it never acted
			}
			if b := h.backoff(g.Purpose); b != nil && ev.NotBefore != 0 {
				b.NotBefore = ev.NotBefore
				b.Declines++
				s.wake(ev.NotBefore, h.Name)
			}
		}
	}
	s.refresh(h)
}
