package oracle

import (
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// Host is what the log states of one host.
type Host struct {
	Name             string
	Incarnation, Seq uint64 // of its newest report
	Identity         Identity
	Issued           clock.Instant // its newest certificate
	SlotUntil        clock.Instant // of one that is retired
	Freed            bool          // it gave its slot back for good
	Online           bool
	SilentFailure    bool // failed for its silence, until it reports
	Overdue          bool // it was there meanwhile: until it reports progress
	Unfit            bool // does not run its bundle as it should
	Frozen           clock.Instant
	Sessions         map[string]Sitting `json:",omitempty"` // what sessions have in the managed layer, by kind and name
	Key              []byte             `json:",omitempty"` // that signs its events
	Was              []Earlier          `json:",omitempty"` // what the machine was called, the newest first
	Replayed         uint64             // up to this event only its own chain tells what it was granted
	Unseen           bool               // it acts on a grant of that part
	Apart            bool               // it began something that no record says it may, and was not followed
	Grant            *Grant
	Need             *host.RepairNeed
	Machine

	ReplayedAt     clock.Instant // when the server learned of Replayed, first in one process
	ReplayedBy     string        // that process
	SilentSince    clock.Instant // while it acts and is not heard
	Claim          Claim         // the newest of a rollout's target
	Began          clock.Instant // its newest claim or progress
	Returned       clock.Instant // after a silence
	Leaves         uint64        // key epoch of the newest removal
	Left           bool          // it says that it goes by one
	Reports        bool          // progress whose instant the next head says
	NotBefore      clock.Instant
	Untaken        int           // offers in a row that it declined or let expire
	WorksFrom      clock.Instant // its newest claim
	Place          int           // in the line of repairs
	NeedNotBefore  clock.Instant
	UntakenRepairs int
}

// Grant is one grant that is open.
type Grant struct {
	ID, Host    string
	Manifest    digest.Digest
	Purpose     host.Purpose
	Target      digest.Digest
	At, Expires clock.Instant
	Claimed     bool
	Declined    bool // by its host, which then never acts on it
}

// Claim is when a host claimed a manifest's target, on the server's clock.
type Claim struct {
	Manifest digest.Digest
	At       clock.Instant
}

// Identity is what the present identity of a host counts for.
type Identity uint8

// The identities; all but Valid count for nothing.
const (
	Valid   Identity = iota
	Leaving          // it is removed by a signed override
	Shared           // two agents have it
	Revoked          // its certificates are
	Retired          // by an operator; it gives its slot back
)

// presence reads what the server records of a host.
func (f *Facts) presence(h *Host, at clock.Instant, ev event.Event) {
	switch ev := ev.(type) {
	case event.HostEnrolled:
		was := h.Key
		*h = Host{Name: h.Name, Incarnation: ev.Incarnation, Issued: at, Frozen: h.Frozen, Sessions: h.Sessions, Key: ev.EventKey, Was: f.earlier(h, ev.EventKey)}
		f.keyed(h, was)
	case event.HostSilent:
		h.Online = false
		if h.acts() {
			h.SilentSince = at
		}
	case event.HostReturned:
		h.Online, h.SilentSince, h.Returned = true, 0, at
	case event.HostFailedSilently:
		if h.repairs() && !h.acts() {
			h.Overdue = true
			return
		}
		if r := f.Find(h.ActsFor()); r != nil {
			r.mark(h.Name, func(m *Mark) { m.Failed = true })
		}
		h.SilentFailure, h.Overdue = true, ev.Overdue
	case event.HostHead:
		if h.Phase == host.Converged && h.Claim.Manifest != h.Manifest && (h.Grant == nil || !h.Grant.Claimed) { // it says so without a claim
			h.Claim = Claim{h.Manifest, at}
			f.soakedIn(h)
		}
		if h.Reports {
			h.Began, h.Reports = at, false
			if h.WorksFrom == 0 {
				h.WorksFrom = at
			}
			if h.acts() && at >= h.WorksFrom.Add(f.most(h)) || h.repairs() && !h.acts() {
				return // whatever it reports, its time is over
			}
			h.SilentFailure, h.Overdue = h.SilentFailure && !h.Overdue, false
		}
	case event.LogRestored:
		if h.Replayed = ev.To; ev.Process == "" || ev.Process != h.ReplayedBy {
			h.ReplayedAt, h.ReplayedBy = at, ev.Process
		}
	case event.HostDegraded:
		h.Unfit = ev.Bundle
	case event.HostRecovered:
		h.Unfit = false
	case event.HostFrozen:
		h.Frozen = ev.Until
	case event.HostUnfrozen:
		h.Frozen = 0
	default:
		h.identity(at, ev)
	}
}

// identity reads what ends or doubts a host's identity. What retires a host stays
// until it enrols again; a revocation ends only certificates from before it.
func (h *Host) identity(at clock.Instant, ev event.Event) {
	switch ev := ev.(type) {
	case event.CertificateRenewed:
		h.Issued = at
		if ev.Issued != 0 { // the log lacked it
			h.Issued = ev.Issued
		}
	case event.HostRevoked:
		if h.Incarnation != 0 && h.Issued < ev.NotBefore && h.Identity != Retired {
			h.Identity = Revoked
		}
	case event.HostForked:
		h.Identity = max(h.Identity, Shared)
	case event.HostDecommissioned:
		h.Identity, h.SlotUntil = Retired, ev.SlotUntil
	case event.HostSlotFreed:
		h.Grant, h.Freed = nil, true
	}
}

// Closed reports whether nothing of the host is accepted any more: its certificates ended.
func (h *Host) Closed() bool { return h.Identity == Revoked || h.Identity == Retired }

// Reachable reports whether the host is there with an identity that counts.
func (h *Host) Reachable() bool { return h.Online && h.Identity == Valid && !h.Overdue }

// absent reports whether nobody waits for the host: it never enrolled, or was retired.
func (h *Host) absent() bool { return h.Incarnation == 0 || h.Identity == Retired }

// acts reports whether the host does something of a rollout by itself.
func (h *Host) acts() bool {
	return h.moving() || h.Grant != nil && h.Grant.Claimed && h.Grant.Purpose != host.Repair
}

// repairs reports whether the host has a claim to repair that is not over.
func (h *Host) repairs() bool {
	return h.Grant != nil && h.Grant.Claimed && h.Grant.Purpose == host.Repair
}

// ActsFor is the manifest that the host acts on.
func (h *Host) ActsFor() digest.Digest {
	if h.Grant != nil && h.Grant.Claimed {
		return h.Grant.Manifest
	}
	return h.Manifest
}

// inFlight is what budgets count: an offer, a claim, or what has not ended well.
func (h *Host) inFlight() bool { return !h.Freed && (h.Grant != nil || h.holdsSlot()) }

// holdsSlot is inFlight without a grant.
func (h *Host) holdsSlot() bool {
	return h.SilentFailure || h.Phase == host.Activating || h.Phase == host.Soaking || h.Phase == host.Deferred || h.Phase == host.Failed
}

// idle reports whether the host is staged and waits for a grant to reboot.
func (h *Host) idle() bool { return h.Staged() && h.Grant == nil }

// yields reports whether the host's grant gives way to a rollout: nobody claimed it and
// it is for a repair or a reboot.
func (h *Host) yields() bool {
	g := h.Grant
	return g != nil && !g.Claimed && (g.Purpose == host.Repair || g.Purpose == host.Reboot)
}

// Unwilling reports whether nobody waits for the host, which did not take five offers in a
// row: those that it declined, and those that expired while it was there.
func (h *Host) Unwilling() bool {
	return h.Untaken >= 5 && (h.Grant == nil || !h.Grant.Claimed || h.repairs()) && (!h.acts() || h.Staged())
}

// SilenceEnds is when the patience with a host that acts ends, and whether that is the
// patience with one that is there; zero is never. After the server was away, every host has
// its confirm window and three minutes. Who is silent has its confirm window,
// or while it may be rebooting as long as an activation may take. Who is there has all
// that its policy and its soak allow, and three minutes; one that waits for a reboot
// which it may not do yet has no end. Who is there and repairs has as much.
func (f *Facts) SilenceEnds(h *Host) (at clock.Instant, there bool) {
	if at, there = f.silenceEnds(h); at == 0 || f.resumed == 0 {
		return at, there
	}
	listened := f.resumed.Add(3 * clock.Minute)
	if m, leaf := f.leaf(h.Name, h.ActsFor()); leaf != nil {
		listened = listened.Add(policyOf(m, leaf).ConfirmWindow)
	}
	return max(at, listened), there
}

func (f *Facts) silenceEnds(h *Host) (at clock.Instant, there bool) {
	if !h.acts() && !h.repairs() || h.Overdue {
		return 0, false
	}
	m, leaf := f.leaf(h.Name, h.ActsFor())
	whole, confirm := f.whole(h), clock.Duration(0)
	if leaf != nil {
		confirm = policyOf(m, leaf).ConfirmWindow
	}
	if !h.acts() {
		if !h.Online {
			return 0, false
		}
		return h.WorksFrom.Add(whole), true
	}
	claimed := h.Grant != nil && h.Grant.Claimed
	var silent, overdue clock.Instant
	if h.SilentSince != 0 && !h.SilentFailure {
		silent = h.SilentSince
		if leaf != nil {
			patience := policyOf(m, leaf).ConfirmWindow
			if h.rebooting() || claimed && h.Grant.Purpose == host.Reboot {
				patience = max(patience, policyOf(m, leaf).ActivationDeadline)
			}
			silent = silent.Add(patience)
		}
	}
	waits := h.Staged() && !(claimed && h.Grant.Purpose != host.Repair)
	if h.Began != 0 && !waits && (!h.SilentFailure || h.Online) {
		overdue = max(h.Began.Add(whole), h.Returned.Add(confirm+3*clock.Minute))
		if h.WorksFrom != 0 {
			overdue = min(overdue, h.WorksFrom.Add(f.most(h)))
		}
	}
	if overdue != 0 && (silent == 0 || overdue < silent) {
		return overdue, h.Online
	}
	return silent, false
}

// most is all the time that a host may take: four times the whole, by a plan that somebody has.
func (f *Facts) most(h *Host) clock.Duration {
	if _, leaf := f.leaf(h.Name, h.ActsFor()); leaf == nil {
		return f.whole(h)
	}
	return 4 * f.whole(h)
}

// whole is the time that a host may take for what it does: half an hour by a plan that nobody has.
func (f *Facts) whole(h *Host) clock.Duration {
	m, leaf := f.leaf(h.Name, h.ActsFor())
	if leaf == nil {
		return 30 * clock.Minute
	}
	p := policyOf(m, leaf)
	return p.ActivationDeadline + p.ConfirmWindow + m.Header.Waves[leaf.Wave].Soak + 3*clock.Minute
}

// soakEnds is when the soak of a host in a rollout has passed since its claim, and since that opened.
func (h *Host) soakEnds(r *Rollout) clock.Instant {
	leaf := leafOf(r.Manifest, h.Name)
	if leaf == nil || h.Claim.Manifest != r.Manifest.Digest || h.Claim.At == 0 {
		return 0
	}
	return max(h.Claim.At, r.OpenedAt).Add(r.Manifest.Header.Waves[leaf.Wave].Soak)
}

// soakedIn takes down when the soak of a host that converged has passed by both clocks, if it is
// the first in its rollout.
func (f *Facts) soakedIn(h *Host) {
	r := f.Find(h.Manifest)
	if r == nil || h.Phase != host.Converged || h.Claim.Manifest != h.Manifest {
		return
	}
	if at := max(1, h.soakEnds(r)); r.Soaked == 0 || at < r.Soaked {
		r.Soaked = at
	}
}

// Failing lists the required evidence that a host fails in a rollout and that nobody
// accepted there, sorted.
func (f *Facts) Failing(h *Host, r *Rollout) []string {
	if h.Manifest != r.Manifest.Digest || h.Reverting || h.Freed || len(h.Probes) == 0 {
		return nil
	}
	leaf := leafOf(r.Manifest, h.Name)
	if leaf == nil {
		return nil
	}
	var out []string
	for _, k := range leaf.Probes {
		p := &r.Manifest.Header.Probes[k]
		last, there := h.Probes[p.Name]
		if p.Evidence == nil || !enforced(p) || !there || !last.Seen || last.Passing {
			continue
		}
		for _, control := range last.Failing {
			if !r.Accepted[Failing{h.Name, control}] {
				out = append(out, control)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// policyOf is the policy of a manifest as it is for one of its hosts: neither a failure nor
// silence sends one back that is wiped.
func policyOf(m *rollout.Manifest, leaf *fleet.Leaf) fleet.Policy {
	p := m.Header.Policy
	if leaf != nil && leaf.Removed == fleet.Wipe {
		p.OnHealthFailure, p.ConfirmWindow = fleet.Halt, 0
	}
	return p
}
