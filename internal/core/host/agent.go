package host

import (
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/override"
)

// Purpose says what a grant lets a host do.
type Purpose string

// Forward activates the plan's target; Back returns to the host's own From;
// Repair may stop or replace what runs to undo drift of the current bundle;
// Reboot may boot what is staged.
const (
	Forward Purpose = "forward"
	Back    Purpose = "back"
	Repair  Purpose = "repair"
	Reboot  Purpose = "reboot"
)

// Offer is a grant as the agent holds it: the server's word that it may act
// now, joined with what the host's own verified manifest says. The server's
// words choose among what is signed; they never add to it.
type Offer struct {
	Grant   string         `json:"grant"`
	Purpose Purpose        `json:"purpose"`
	Term    uint64         `json:"term"`
	Plan    fleet.HostPlan `json:"plan"`
	// Expires is on the agent's clock.
	Expires  clock.Instant `json:"expires"`
	Prepared bool          `json:"prepared,omitempty"`
	// Outside says which maintenance window is closed by the host's own wall clock;
	// such an offer is declined.
	Outside string `json:"outside,omitempty"`
	// Reason says why a Back grant was given.
	Reason string `json:"reason,omitempty"`
}

// QuarantineEntry is a bundle that this host refuses. The server cannot clear it.
type QuarantineEntry struct {
	Digest digest.Digest `json:"digest"`
	Reason string        `json:"reason"`
	At     clock.Instant `json:"at"`
}

// Agent is the durable state of an agent's reducer.
type Agent struct {
	Machine State `json:"machine"`
	// Plan is of the machine's rollout.
	Plan fleet.HostPlan `json:"plan"`
	// Offer is the grant that is being prepared or claimed, if any.
	Offer      *Offer            `json:"offer,omitempty"`
	Quarantine []QuarantineEntry `json:"quarantine,omitempty"`
	Repairs    Repairs           `json:"repairs,omitzero"`
	// Declined is the last grant that was taken and given back. It is never taken
	// again: the server may have committed its claim, and frees the slot.
	Declined string `json:"declined,omitempty"`
	// Overrides are the signed words of operators that this host took.
	Overrides override.State `json:"overrides,omitzero"`
	// MaxTerm is the highest server term seen; a lower one is refused.
	MaxTerm uint64 `json:"maxTerm"`
}

// Reasons for declining a grant, part of the event vocabulary.
const (
	DeclineBusy         = "busy"
	DeclineAtTarget     = "at-target"
	DeclineQuarantined  = "quarantined"
	DeclineOldTerm      = "old-term"
	DeclineTermJump     = "term-jump"
	DeclineExpired      = "expired"
	DeclinePrepare      = "prepare-failed"
	DeclineNothingToDo  = "nothing-to-revert"
	DeclineOtherRollout = "other-rollout"
	DeclineUnsupported  = "unsupported"
	DeclineGivenBack    = "given-back"
	DeclineWindow       = "outside-window"
	DeclineOverride     = "override" // an operator's signed word forbids it
)

// maxTermStep bounds how far a term may be above the last one seen. Terms rise by
// one with each lease; nothing signs them, and a server that lied about one must
// not be able to shut a host off for ever.
const maxTermStep = 1 << 16

// Granted takes a verified offer. It prepares a Forward one, claims a Back one
// at once, and declines what this host must not or need not do.
func (a *Agent) Granted(o Offer, now clock.Instant) []Effect {
	if o.Term > a.MaxTerm && o.Term-a.MaxTerm > maxTermStep {
		return decline(o, DeclineTermJump, "the server's term is far above the last one seen")
	}
	if o.Term < a.MaxTerm {
		return decline(o, DeclineOldTerm, "the server's term is older than one already seen")
	}
	a.MaxTerm = o.Term
	if a.Offer != nil && a.Offer.Grant == o.Grant || a.Machine.Grant == o.Grant || a.Machine.Reboot == o.Grant || a.Repairs.Grant == o.Grant || a.Repairs.Last == o.Grant {
		return nil // offered again: under way, or acted on already
	}
	if a.Declined == o.Grant {
		return decline(o, DeclineGivenBack, "this host gave the grant back before")
	}
	if o.Outside != "" && o.Purpose != Back {
		return decline(o, DeclineWindow, o.Outside)
	}
	switch o.Purpose {
	case Forward:
	case Back:
		return a.grantedBack(o)
	case Repair:
		return a.grantedRepair(o)
	case Reboot:
		return a.grantedReboot(o, now)
	default:
		return decline(o, DeclineUnsupported, "this agent takes no "+string(o.Purpose)+" grants")
	}
	m := &a.Machine
	switch {
	case a.Repairs.Grant != "":
		return decline(o, DeclineBusy, "the host is being repaired under "+a.Repairs.Grant)
	case m.Phase == Activating || m.Phase == Soaking || (m.Phase == Failed && m.Reverting), m.Rebooting(),
		m.Phase == Deferred && m.Manifest == o.Plan.Manifest:
		return decline(o, DeclineBusy, "the host is "+string(m.Phase)+" in "+m.Rollout)
	case a.Quarantined(o.Plan.Target):
		return decline(o, DeclineQuarantined, "this host quarantined "+o.Plan.Target.Short())
	case a.forbidden(&o) != nil:
		return decline(o, DeclineOverride, a.forbidden(&o).Words())
	case m.Current == o.Plan.Target && m.Phase != Failed && m.Phase != Deferred:
		return decline(o, DeclineAtTarget, "the host runs "+o.Plan.Target.Short()+" already")
	}
	a.Offer = &o
	return []Effect{Prepare{Offer: o}}
}

func (a *Agent) grantedBack(o Offer) []Effect {
	m := &a.Machine
	switch {
	case m.Manifest != o.Plan.Manifest:
		return decline(o, DeclineOtherRollout, "the host is not in that rollout")
	case m.Phase == Reverted || m.Phase == Pending || m.Phase == "" || (m.Phase == Failed && m.Reverting):
		return decline(o, DeclineNothingToDo, "the host is "+string(m.Phase)+" already")
	case a.Repairs.Grant != "":
		return decline(o, DeclineBusy, "the host is being repaired under "+a.Repairs.Grant)
	}
	o.Prepared = true
	a.Offer = &o
	return []Effect{Claim{Offer: o}}
}

// Prepared says that all the offer needs is on the host; the claim follows.
func (a *Agent) Prepared(grant string, now clock.Instant) []Effect {
	o := a.Offer
	if o == nil || o.Grant != grant {
		return nil
	}
	if o.Expires.Reached(now) {
		return a.giveBack(DeclineExpired, "preparing took longer than the grant lasts")
	}
	if t := a.forbidden(o); t != nil {
		return a.giveBack(DeclineOverride, t.Words())
	}
	o.Prepared = true
	return []Effect{Claim{Offer: *o}}
}

// PrepareFailed drops the offer, also one whose claim is under way; the server
// may grant again.
func (a *Agent) PrepareFailed(grant, detail string) []Effect {
	o := a.Offer
	if o == nil || o.Grant != grant {
		return nil
	}
	return a.giveBack(DeclinePrepare, detail)
}

// ClaimAnswered takes the server's answer to the claim. The input it returns,
// if any, is to be stepped in the same transaction; the offer is gone either
// way. For a Repair grant it is RepairAnswered.
func (a *Agent) ClaimAnswered(grant string, accepted bool, bootID string) Input {
	o := a.Offer
	if o == nil || o.Grant != grant || o.Purpose == Repair {
		return nil
	}
	a.Offer = nil
	if !accepted {
		return nil
	}
	switch o.Purpose {
	case Back:
		return RevertClaimed{Grant: grant, Reason: o.Reason}
	case Reboot:
		return RebootClaimed{Grant: grant}
	}
	a.Plan = o.Plan
	from := a.Machine.Current
	if p := a.Machine.Phase; p == Failed || p == Deferred { // a fix for a host that did not go back, or is half way
		from = a.Machine.From
	}
	return Claimed{
		Grant: grant, Rollout: o.Plan.Rollout, Manifest: o.Plan.Manifest, Wave: o.Plan.Wave,
		From: from, Target: o.Plan.Target, BootID: bootID,
	}
}

// Step moves the machine and takes the machine's own quarantines into the
// agent's list; an offer of what it refuses from now on is given back, also one
// whose claim is under way. It reports whether the input is worth an event: it changed the
// state in more than the time of the last look at a probe.
func (a *Agent) Step(in Input, now clock.Instant) (effects []Effect, report bool, err error) {
	before := a.Machine
	next, effects, err := Step(a.Machine, in, now, &a.Plan)
	if err != nil {
		return nil, false, err
	}
	a.Machine = next
	for _, e := range effects {
		q, ok := e.(Quarantine)
		if !ok {
			continue
		}
		if !a.Quarantined(q.Digest) {
			a.Quarantine = append(a.Quarantine, QuarantineEntry{Digest: q.Digest, Reason: q.Reason, At: now})
		}
		if o := a.Offer; o != nil && o.Purpose == Forward && o.Plan.Target == q.Digest {
			effects = append(effects, a.giveBack(DeclineGivenBack, "this host quarantined "+q.Digest.Short()+" since")...)
		}
	}
	if !next.Settled() {
		effects = append(effects, a.dropRepairs()...)
	}
	return effects, Notable(&before, &next, in), nil
}

// Resume returns what an agent that just started owes to an offer it held, or to
// the window that was open.
func (a *Agent) Resume() []Effect {
	switch {
	case a.Repairs.Grant != "":
		return []Effect{OpenRepair{Grant: a.Repairs.Grant, Until: a.Repairs.Until}}
	case a.Offer == nil:
		return nil
	case a.Offer.Prepared:
		return []Effect{Claim{Offer: *a.Offer}}
	}
	return []Effect{Prepare{Offer: *a.Offer}}
}

// Quarantined reports whether this host refuses a bundle.
func (a *Agent) Quarantined(d digest.Digest) bool {
	return slices.ContainsFunc(a.Quarantine, func(q QuarantineEntry) bool { return q.Digest == d })
}

// Due returns when the reducer must be woken: for the machine, to drop an offer
// that expires, or for Drifted.
func (a *Agent) Due() clock.Instant {
	due := clock.Earliest(Due(&a.Machine, &a.Plan), a.Repairs.Due())
	if a.Offer != nil && !a.Offer.Prepared {
		due = clock.Earliest(due, a.Offer.Expires)
	}
	return due
}

// Expire drops an offer whose time has passed before it was prepared. Once it
// is prepared the claim goes out until it is answered: the server may have
// committed it, and only the server's answer can tell.
func (a *Agent) Expire(now clock.Instant) []Effect {
	if a.Offer == nil || a.Offer.Prepared || !a.Offer.Expires.Reached(now) {
		return nil
	}
	return a.giveBack(DeclineExpired, "the grant expired before it was claimed")
}

// GivesBack reports whether a host that declines with this code took the grant
// before and never acts on it again. Any other decline may be of a grant that the
// host acts on, offered again by a server that was replaced.
func GivesBack(code string) bool {
	return code == DeclineExpired || code == DeclinePrepare || code == DeclineGivenBack
}

// giveBack drops the offer at hand for good.
func (a *Agent) giveBack(code, detail string) []Effect {
	o := *a.Offer
	a.Offer, a.Declined = nil, o.Grant
	return decline(o, code, detail)
}

func decline(o Offer, code, detail string) []Effect {
	return []Effect{Decline{Grant: o.Grant, Code: code, Detail: detail}}
}

// Notable reports whether an input changed more than the instant at which a
// probe was last looked at. Only notable inputs are journalled and reported.
func Notable(before, after *State, in Input) bool {
	if before.Phase != after.Phase || before.ConfirmBy != after.ConfirmBy || before.BlameBy != after.BlameBy ||
		before.RevertFailures != after.RevertFailures || before.SoakFrom != after.SoakFrom {
		return true
	}
	switch in := in.(type) {
	case ProbeObserved:
		b, p := before.probe(in.Name), after.probe(in.Name)
		return b == nil || p == nil || b.Seen != p.Seen || b.Passing != p.Passing || !slices.Equal(b.Failing, p.Failing)
	case Contact, Elapsed:
		return false
	}
	return true
}
