package plan

import (
	"cmp"
	"strconv"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// BehindCode is why a host that is in contact does not get the newest bundle of its channel.
type BehindCode string

// The codes.
const (
	BehindQuarantined BehindCode = "quarantined" // the bundle is, on the channel or on the host
	BehindOverride    BehindCode = "overridden"  // a signed override stops the rollout or the channel
	BehindDeclined    BehindCode = "declined"    // the host does not take what it is offered
	BehindCancelled   BehindCode = "cancelled"   // an operator ended the rollout
	BehindHalted      BehindCode = "halted"      // failures stopped the rollout
	BehindPaused      BehindCode = "paused"
	BehindFrozen      BehindCode = "frozen"
	BehindSkipped     BehindCode = "skipped" // the rollout converged while the host was away
)

// BehindCodes lists them.
var BehindCodes = []BehindCode{BehindQuarantined, BehindOverride, BehindDeclined, BehindCancelled, BehindHalted, BehindPaused, BehindFrozen, BehindSkipped}

// Behind reports that a host is behind its channel: in contact, at rest, and on another bundle than
// the newest that the channel gives it, for another reason than that its turn has not come.
type Behind struct {
	Code    BehindCode    `json:"code"`
	Rollout string        `json:"rollout"`
	Target  digest.Digest `json:"target"`
	// Reason is a sentence about the host, without its name.
	Reason string `json:"reason"`
	// Since is when the rollout opened.
	Since clock.Instant `json:"since"`
}

// untakenBehind is how many offers in a row a host does not take before it is behind: the first may
// have come while it ended something else.
const untakenBehind = 2

// Behind is nil for a host that is not behind its channel, or is not in contact.
func (s *State) Behind(h *Host) *Behind {
	if !h.Reachable() {
		return nil
	}
	at := s.newest(h, true)
	if at.r == nil {
		return nil
	}
	r, m, leaf := at.r, &at.r.Members[at.i], &at.r.Plan.Leaves[at.i]
	switch m.Status {
	case rollout.Waiting, rollout.Refused:
	case rollout.Offered:
		if h.Declines < untakenBehind {
			return nil
		}
	default:
		return nil
	}
	b := &Behind{Rollout: r.Name, Target: leaf.Target, Since: r.OpenedAt}
	signed := s.Overrides.Quarantined(r.Channel, leaf.Target, h.Name)
	stopped := s.Overrides.Restrictions(r.Channel, r.Manifest)
	why := s.Channels[r.Channel].Quarantine[leaf.Target]
	switch {
	case signed != nil:
		b.Code, b.Reason = BehindQuarantined, "bundle "+leaf.Target.Short()+" is quarantined: "+signed.Message()
	case stopped != nil:
		b.Code, b.Reason = BehindOverride, "rollout "+r.Name+" is stopped: "+stopped.Message()
	case r.Final:
		b.Code, b.Reason = BehindCancelled, "rollout "+r.Name+" was "+cmp.Or(r.Reason, "cancelled")
	case r.Phase == rollout.Failed:
		b.Code, b.Reason = BehindHalted, "rollout "+r.Name+" is halted: "+r.Reason
	case why != "":
		b.Code, b.Reason = BehindQuarantined, "bundle "+leaf.Target.Short()+" is quarantined on channel "+r.Channel+": "+why
	case m.Status == rollout.Refused:
		b.Code = BehindQuarantined
		b.Reason = "the host quarantined bundle " + leaf.Target.Short() + ": " + cmp.Or(prose.Reason(m.Refused), "it went back from it")
	case h.Declines >= untakenBehind:
		b.Code, b.Reason = BehindDeclined, h.untakenWords(r)
	case r.Paused:
		b.Code, b.Reason = BehindPaused, "rollout "+r.Name+" is paused: "+r.PauseReason
	case h.Freeze != nil:
		b.Code, b.Reason = BehindFrozen, "the host is frozen until "+prose.Date(h.Freeze.Until)+": "+h.Freeze.Reason
	case r.Phase == rollout.Terminal && !h.offered():
		b.Code, b.Reason = BehindSkipped, "rollout "+r.Name+" converged without the host, and has not reached it since"
	default:
		return nil
	}
	return b
}

// untakenWords tell how often a host did not take what a rollout offered it, and why.
func (h *Host) untakenWords(r *rollout.Rollout) string {
	last := cmp.Or(h.LastDecline, gate.Untaken{}.Message())
	return "did not take " + strconv.Itoa(h.Declines) + " offers of " + r.Name + " in a row: it " + last
}
