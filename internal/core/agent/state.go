// Package agent is the pure reducer of a host's agent. State.Step takes what
// happened as an Input and returns a Turn: the events to report, the effects to
// carry out, and whether the state must be made durable. Whoever runs it, the
// agent's process, the simulator, a forecast or a benchmark, does four things, in
// this order: Step; commit state and events together; carry out the effects in
// order; wake it with Elapsed when Due says so. The machine of package host moves
// inside of Step alone.
//
// Nothing of a server is believed here: documents arrive verified, as values.
package agent

import (
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/host"
)

// Offer is a grant as the agent keeps it: the server's leave to act now, joined
// with what the host's own verified manifest says. The server chooses among what
// is signed; it never adds to it.
type Offer struct {
	Grant   string         `json:"grant"`
	Purpose host.Purpose   `json:"purpose"`
	Term    uint64         `json:"term"`
	Plan    fleet.HostPlan `json:"plan"`
	// Expires is on the agent's clock.
	Expires  clock.Instant `json:"expires"`
	Prepared bool          `json:"prepared,omitempty"`
	// Reason says why a Rollback grant was given.
	Reason string `json:"reason,omitempty"`
}

// QuarantineEntry is a bundle that this host refuses. The server cannot clear it.
type QuarantineEntry struct {
	Digest digest.Digest `json:"digest"`
	Reason string        `json:"reason"`
	At     clock.Instant `json:"at"`
}

// State is an agent's state. Step changes it in place and has a single writer: a
// caller that cannot commit what a Step returned discards the state and loads what
// was committed last. A shallow copy may be read while the original goes on: Step
// replaces what pointers and slices refer to and never writes to it.
type State struct {
	Machine host.State `json:"machine"`
	// Plan is of the machine's rollout.
	Plan fleet.HostPlan `json:"plan"`
	// Generation is what the host is to run.
	Generation Generation `json:"generation,omitzero"`
	// Offer is the grant that is being prepared or claimed, if any.
	Offer      *Offer            `json:"offer,omitempty"`
	Quarantine []QuarantineEntry `json:"quarantine,omitempty"`
	Repairs    Repairs           `json:"repairs,omitzero"`
	// Declined is the last grant that was taken and given back. It is never taken
	// again: the server may have committed its claim, and frees the slot.
	Declined string `json:"declined,omitempty"`
	// Overrides are the signed overrides that this host accepted.
	Overrides gate.Overrides `json:"overrides,omitzero"`
	// MaxTerm is the highest server term seen; a lower one is refused.
	MaxTerm uint64 `json:"maxTerm"`
	// Parked is set once the stored state is known to be older than what the host did.
	Parked *Parked `json:"parked,omitempty"`
	// Removal is a signed removal of this host from the fleet.
	Removal *Removal `json:"removal,omitempty"`
	// Facts are those that were reported last.
	Facts *event.HostFacts `json:"facts,omitempty"`

	// Of this run of the process alone; Started resets them.

	// LastRefusal is the last refusal of what the server gave, until it is cured.
	LastRefusal string          `json:"-"`
	refused     map[string]bool // causes that were reported
	round       int64           // of probes
	probing     bool            // probes run
	rebooting   bool            // a reboot to repair was begun
	observing   bool            // drift was requested to be observed and was not yet
	askUntil    clock.Instant   // until then the server is asked whether it knows a newer state, or zero
	held        *Started        // what is resumed then
	unconfirmed bool            // the next step tells that the server did not answer
}

// Quarantined reports whether this host refuses a bundle.
func (s *State) Quarantined(d digest.Digest) bool {
	return slices.ContainsFunc(s.Quarantine, func(q QuarantineEntry) bool { return q.Digest == d })
}

// forbidden returns the signed override that keeps this host from an offer, or nil.
func (s *State) forbidden(o *Offer) *gate.AcceptedOverride {
	return s.Overrides.Forbids(o.Plan.Channel, o.Plan.Manifest, o.Plan.Target, o.Plan.Host)
}

// Due returns when Elapsed must come: for the machine, for an offer that expires,
// or for repairs. It is zero when nothing waits for time.
func (s *State) Due() clock.Instant {
	switch {
	case s.Parked != nil:
		return 0
	case s.held != nil:
		return s.askUntil
	}
	due := s.machineDue()
	if !s.observing {
		due = clock.Earliest(due, s.Repairs.due())
	}
	if s.Offer != nil && !s.Offer.Prepared {
		due = clock.Earliest(due, s.Offer.Expires)
	}
	if s.Unconfirmed() {
		due = clock.Earliest(due, s.askUntil)
	}
	return due
}

// machineDue is when the machine wants to be woken; one that moves no more never does.
func (s *State) machineDue() clock.Instant {
	if s.Removal.begun() {
		return 0
	}
	return host.Due(&s.Machine, &s.Plan)
}

// Era names the activation or revert that completed last. Only a request that
// began in the present era shows that what completed then left the host its
// contact.
func (s *State) Era() clock.Instant { return max(s.Machine.CompletedAt, s.Machine.RevertedAt) }

// AwaitsContact reports whether an accepted request of the present Era matters:
// to the dead-man's switch, or to whom its revert is blamed on.
func (s *State) AwaitsContact() bool { return s.Machine.ConfirmBy != 0 || s.Machine.BlameBy != 0 }

// Bundle is the bundle that commands run in: what the host runs, or is on its way to.
func (s *State) Bundle() digest.Digest {
	if s.Removal.empties() {
		return ""
	}
	if m := &s.Machine; m.Phase == host.Reverted || m.Reverting {
		return m.From
	}
	return s.Machine.Target
}

// Bundles are all bundles that run, may come back or are on their way, each once;
// Bundle is the first. An empty digest stands for a host that runs nothing.
func (s *State) Bundles() []digest.Digest {
	out := []digest.Digest{s.Bundle()}
	add := func(d digest.Digest) {
		if d != "" && !slices.Contains(out, d) {
			out = append(out, d)
		}
	}
	add(s.Machine.Current)
	add(s.Machine.From)
	add(s.Machine.Target)
	if s.Offer != nil {
		add(s.Offer.Plan.Target)
	}
	return out
}

// Proof is what has to be verified of a grant before it becomes a Granted input.
type Proof int

const (
	// ProofIgnored: the grant is under way, and nothing is to be done about it.
	ProofIgnored Proof = iota + 1
	// ProofNone: what the host verified before is acted on, or the reducer declines.
	ProofNone
	// ProofPlan: the host's plan in the manifest, verified now, and fresh.
	ProofPlan
	// ProofRollback: a signed rollback of the manifest, or as many proven failures
	// as its policy asks for. Freshness plays no part.
	ProofRollback
)

// Proof says what a grant needs. Nothing is proven anew for a repair: what is
// repaired is what the host's own verified plan made it run. What is booted is what
// is staged; its plan is verified again, so that nothing is booted that a newer
// release withdrew or that is not fresh.
func (s *State) Proof(grant string, purpose host.Purpose, manifest digest.Digest) Proof {
	if s.Offer != nil && s.Offer.Grant == grant {
		return ProofIgnored
	}
	own := manifest == s.Machine.Manifest && manifest != ""
	switch {
	case purpose == host.Update, purpose == host.Reboot && own:
		return ProofPlan
	case purpose == host.Rollback && own && s.Overrides.RolledBack(manifest) == nil:
		return ProofRollback
	}
	return ProofNone
}

// FailedWave is the wave in which this host itself failed in its rollout, which
// counts among the failures that order it back; it is negative when it did not.
func (s *State) FailedWave() int {
	if s.Machine.Phase == host.Failed && s.Machine.Cause != host.RevertOrdered {
		return s.Machine.Wave
	}
	return -1
}
