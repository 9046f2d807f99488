package host

import (
	"slices"

	"github.com/steadyfleet/steady/internal/core/digest"
)

// Purpose says what a grant lets a host do.
type Purpose string

// Update activates the plan's target; Rollback returns to the host's own From;
// Repair may stop or replace what runs to undo drift of the current bundle;
// Reboot may boot what is staged.
const (
	Update   Purpose = "update"
	Rollback Purpose = "rollback"
	Repair   Purpose = "repair"
	Reboot   Purpose = "reboot"
)

// Known reports whether there are grants of this purpose.
func (p Purpose) Known() bool {
	return p == Update || p == Rollback || p == Repair || p == Reboot
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
	DeclineOverride     = "override"   // an operator's signed override forbids it
	DeclineOlderPlan    = "older-plan" // the host runs the newest one of its channel
)

// GivesBack reports whether a host that declines with this code took the grant
// before, or forgot it and has no use for it, and never acts on it again. Any other decline may be of a grant that the
// host acts on, offered again by a server that was replaced.
func GivesBack(code string) bool {
	return code == DeclineExpired || code == DeclinePrepare || code == DeclineGivenBack || code == DeclineAtTarget
}

// MaxRepairNames is how many resources a report names at most.
const MaxRepairNames = 16

// RepairNeed is drift that waits for a grant.
type RepairNeed struct {
	Manifest digest.Digest `json:"manifest"` // of the machine
	Bundle   digest.Digest `json:"bundle"`   // that runs
	// Resources are kind/id in order, the first MaxRepairNames; More counts the
	// rest.
	Resources []string `json:"resources"`
	More      int      `json:"more,omitempty"`
	Reason    string   `json:"reason"` // of the first
	// Reboot is what the repair staged and only a reboot brings into effect: the grant that is
	// asked for lets the host reboot. Empty: it does not wait for that.
	Reboot string `json:"reboot,omitempty"`
}

// Same reports whether two reports name the same drift of the same bundle.
func (n *RepairNeed) Same(o *RepairNeed) bool {
	return n.Manifest == o.Manifest && n.Bundle == o.Bundle && n.More == o.More && n.Reboot == o.Reboot && slices.Equal(n.Resources, o.Resources)
}
