package plan

import (
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/gate"
)

// Ended is why the present identity of a host counts for nothing.
type Ended struct {
	// Standing is gate.Revoked or gate.Decommissioned.
	Status string `json:"status"`
	Reason string `json:"reason"`
	// SlotUntil is when a decommissioned host gives its slot back; Freed says that
	// it did.
	SlotUntil clock.Instant `json:"slotUntil,omitempty"`
	Freed     bool          `json:"freed,omitempty"`
}

// Leaving is a signed removal of a host, and what the host told of it.
type Leaving struct {
	Override  digest.Digest   `json:"override"`
	Epoch     uint64          `json:"epoch"`
	Version   uint64          `json:"version"`
	Workloads fleet.Workloads `json:"workloads"`
	Reason    string          `json:"reason"`
	// Reported says that the host goes by it, or by the one before it: then it is gone, whatever
	// becomes of the key epoch. Done says that what the workloads ask for is done, Detail what
	// keeps it.
	Reported bool   `json:"reported,omitempty"`
	Done     bool   `json:"done,omitempty"`
	Detail   string `json:"detail,omitempty"`
}

// foldRemoval takes a signed removal of the present incarnation of a host.
func (s *State) foldRemoval(t *gate.AcceptedOverride) {
	h := s.Hosts[t.Host]
	if t.Action != fleet.OverrideRemove || h == nil || h.Incarnation != t.Incarnation || h.Leaving != nil && h.Leaving.Version >= t.Version {
		return
	}
	next := Leaving{Override: t.Digest, Epoch: t.Epoch, Version: t.Version, Workloads: t.Workloads, Reason: t.Message()}
	if was := h.Leaving; was != nil {
		next.Reported = was.Reported
		if was.Override == t.Digest { // a restored log hears of it from the host first, which says it once
			next.Done, next.Detail = was.Done, was.Detail
		}
	}
	h.Leaving = &next
	s.refresh(h)
	s.markHost(h)
}

// workloadsRemoved takes what the host says of its removal.
func (h *Host) workloadsRemoved(ev event.WorkloadsRemoved) {
	next := Leaving{Override: ev.Override, Workloads: ev.Workloads, Reason: "the host says that it took a signed override"}
	if l := h.Leaving; l != nil && l.Override == ev.Override {
		next = *l
	}
	next.Reported, next.Done, next.Detail = true, ev.OK, ev.Detail
	h.Leaving = &next
}

// mayRemove refuses to remove who is not there.
func (s *State) mayRemove(t *gate.AcceptedOverride) error {
	h := s.Hosts[t.Host]
	switch {
	case t.Action != fleet.OverrideRemove:
		return nil
	case h == nil || h.Incarnation == 0:
		return verbErrorf("override %s removes host %s, which is not enrolled", t.ID, t.Host)
	case h.Incarnation != t.Incarnation:
		return verbErrorf("override %s removes incarnation %d of host %s, which enrolled again since, as %d; sign a new one if that is to go too", t.ID, t.Incarnation, t.Host, h.Incarnation)
	}
	return nil
}

// IdentityStatus says why the identity of a host counts for nothing, and is empty when
// it is good.
func (h *Host) IdentityStatus() string {
	switch {
	case h.Ended != nil:
		return h.Ended.Status
	case h.Parked != "":
		return gate.Parked
	case h.Forked:
		return gate.Forked
	case h.Leaving != nil:
		return gate.Leaving
	}
	return ""
}

// Reports says that events of the host are still to come: its identity is good, or is
// only on its way out.
func (h *Host) Reports() bool { st := h.IdentityStatus(); return st == "" || st == gate.Leaving }

// Reachable reports whether the host is there with an identity that counts, and was
// not given up while it was there.
func (h *Host) Reachable() bool { return h.Online && h.IdentityStatus() == "" && !h.Overdue }

// absent reports whether nobody waits for the host: it never enrolled, or was retired.
func (h *Host) absent() bool { return h.Incarnation == 0 || h.IdentityStatus() == gate.Decommissioned }

// freed reports whether the host gave its slot back for good.
func (h *Host) freedSlot() bool { return h.Ended != nil && h.Ended.Freed }

// foldIdentity takes what ends or doubts a host's identity, and what came of its removal.
func (s *State) foldIdentity(h *Host, ev event.Event) {
	switch ev := ev.(type) {
	case event.HostRevoked:
		h.RevokedBefore = max(h.RevokedBefore, ev.NotBefore) // a later one may name an earlier instant
		if h.Incarnation != 0 && ev.NotBefore > h.IssuedAt && h.Ended == nil {
			h.Ended = &Ended{Status: gate.Revoked, Reason: ev.Reason}
		}
	case event.HostDecommissioned:
		h.RevokedBefore = max(h.RevokedBefore, ev.NotBefore)
		h.Ended = &Ended{Status: gate.Decommissioned, Reason: ev.Reason, SlotUntil: ev.SlotUntil}
		s.wake(ev.SlotUntil, h.Name)
		s.MarkAll() // channels may have waited for it alone
	case event.HostSlotFreed:
		if h.Ended != nil {
			h.Ended.Freed = true
		}
		h.Grant = nil
	case event.HostForked:
		h.Forked = true
		if ev.Parked != "" {
			h.Parked = ev.Parked
		}
	case event.WorkloadsRemoved:
		h.workloadsRemoved(ev)
	}
	s.refresh(h)
	s.markHost(h)
}

// Revoke ends the certificates that a host has now.
func Revoke(s *State, name, reason, actor string, now clock.Instant) ([]event.Entry, error) {
	if err := s.mayEnd(name); err != nil {
		return nil, err
	}
	return Record(s, name, now, event.HostRevoked{NotBefore: s.Hosts[name].endsAt(now), Reason: reason, Actor: actor})
}

// endsAt is an instant that every certificate of the host is from before, also one
// that was issued while the server's clock was ahead of what it shows now: the end of a
// second, to which certificates tell when they were issued.
func (h *Host) endsAt(now clock.Instant) clock.Instant {
	last := max(now, h.IssuedAt)
	return last - last%clock.Instant(clock.Second) + clock.Instant(clock.Second)
}

// Decommission retires a host for good. What it may still be doing keeps its slot
// until that is over: the offer's expiry, or the time that an activation and the
// way back of a host without contact may take.
func Decommission(s *State, name, reason, actor string, now clock.Instant) ([]event.Entry, error) {
	h := s.Hosts[name]
	if err := s.mayEnd(name); err != nil {
		return nil, err
	}
	if h.IdentityStatus() == gate.Decommissioned {
		return nil, verbErrorf("host %s is decommissioned already; if fleet.yaml still has it, remove it there, build, sign and push", name)
	}
	ev := event.HostDecommissioned{NotBefore: h.endsAt(now), SlotUntil: now, Reason: reason, Actor: actor}
	if h.InFlight() {
		ev.SlotUntil = s.slotUntil(h, now)
	}
	return Record(s, name, now, ev)
}

func (s *State) mayEnd(name string) error {
	h := s.Hosts[name]
	if h == nil {
		return unknownErrorf("there is no host %q; steady host list shows them", name)
	}
	if h.Incarnation == 0 {
		return verbErrorf("host %s never enrolled; there is no identity to end", name)
	}
	return nil
}

// slotUntil is by when a host that hears nothing more has ended what it does.
func (s *State) slotUntil(h *Host, now clock.Instant) clock.Instant {
	until, d := now, h.Machine.Manifest
	if g := h.Grant; g != nil {
		until, d = max(until, g.Expires), g.Manifest
		if !g.Claimed {
			return until
		}
	}
	if p := s.hostPlan(h, d); p != nil {
		until = max(until, now.Add(p.Policy.ActivationDeadline).Add(p.Policy.ConfirmWindow))
	}
	return until
}

// freeSlot gives the slot of a decommissioned host back once its time has come. A
// host that claimed and was never heard from again has failed by then.
func (p *planner) freeSlot(h *Host) {
	e := h.Ended
	if e == nil || e.Status != gate.Decommissioned || e.Freed || !e.SlotUntil.Reached(p.now) {
		return
	}
	if h.Acting() && !h.SilentFailure {
		return // its silence is still to be noticed, and is looked at again then
	}
	ev := event.HostSlotFreed{Reason: "the host is decommissioned, and what it was granted is over"}
	if h.Grant != nil {
		ev.Grant, ev.Rollout = h.Grant.ID, h.Grant.Rollout
	}
	p.add(h.Name, ev)
}

// failSilently fails a host that was not heard from by its deadline, or was and did not
// end its work.
func (p *planner) failSilently(h *Host, deadline clock.Instant, overdue bool) {
	ev := event.HostFailedSilently{Rollout: h.Machine.Rollout, Manifest: h.Machine.Manifest, Deadline: deadline, Overdue: overdue}
	if h.Grant != nil && h.Grant.Claimed {
		ev.Rollout, ev.Manifest, ev.Grant = h.Grant.Rollout, h.Grant.Manifest, h.Grant.ID
	}
	ev.Reason = "it was not seen by " + deadline.String()
	switch {
	case h.repairsOnly():
		ev.Reason = "it is there, and has not reported by " + deadline.String() + " that its repair is over; nobody waits for it, and it keeps its slot"
	case overdue:
		ev.Reason = "it is there, and has not reported how its activation went by " + deadline.String() +
			": the activation deadline, the confirm window, the soak and " + reportPatience.String() + " have passed since it began"
	}
	p.add(h.Name, ev)
}

// PresenceRow is what a presence means for the waves that name the host.
type PresenceRow struct {
	Presence gate.HostPresence
	Means    string
	Waves    string
}

// Presences lists every presence in the order in which Presence asks for them.
var Presences = []PresenceRow{
	{gate.NeverEnrolled, "declared, and no agent enrolled as it yet", "holds nothing and counts for nothing: not for its wave, nor `minSoaked`, nor a channel behind; when it enrols it gets the newest"},
	{gate.Decommissioned, "retired by an operator", "holds nothing and counts for nothing, once what it was granted is over"},
	{gate.Revoked, "its certificates were ended", "as offline: skipped, or failed if it had claimed"},
	{gate.Parked, "the host found that its state was set back, and does nothing but keep what runs until it enrols again", "as offline: skipped, or failed if it had claimed"},
	{gate.Forked, "two agents run on its identity", "as offline: skipped, or failed if it had claimed"},
	{gate.Leaving, "a signed override took it out of the fleet: it ends what it does, and takes nothing more", "as offline: skipped, or failed if it had claimed and does not come to an end"},
	{gate.Removed, "enrolled, and the newest release does not declare it", "in no wave of the newest release; what it claimed before it finishes"},
	{gate.Overdue, "in contact, but it did not report in time what came of its claim", "failed; it keeps its slot until it reports, and later rollouts skip it"},
	{gate.Online, "in contact within three heartbeats", "granted, and waited for"},
	{gate.Silent, "no contact while it acts on a claim", "its wave waits until it is given up, at the instant that `steady why` names: then it has failed, and keeps its slot until it reports"},
	{gate.Offline, "enrolled, no contact, and at rest", "skipped: its wave does not wait for it, but it counts for a `minSoaked` in per cent"},
}

// Presence says whether the host is there; declared is whether the newest release
// names it.
func (h *Host) Presence(declared bool) gate.HostPresence {
	switch ended := h.IdentityStatus(); {
	case h.Incarnation == 0:
		return gate.NeverEnrolled
	case ended != "":
		return gate.HostPresence(ended)
	case !declared:
		return gate.Removed
	case h.Online && h.Overdue:
		return gate.Overdue
	case h.Online:
		return gate.Online
	case h.Acting() && !h.SilentFailure:
		return gate.Silent
	}
	return gate.Offline
}
