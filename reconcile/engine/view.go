package engine

import (
	"encoding/json"
	"time"
)

// Phase is where a resource stands.
type Phase string

// The phases.
const (
	Pending   Phase = "pending"   // a new generation, not looked at yet
	Acting    Phase = "acting"    // an act has begun and is not finished
	Verifying Phase = "verifying" // an act reported success; believed only after the next observe
	Retrying  Phase = "retrying"  // an act or observe failed; backing off
	Waiting   Phase = "waiting"   // the reconciler waits, or children are on their way
	Converged Phase = "converged" // observed as desired, and so are all children
	Degraded  Phase = "degraded"  // as desired itself, but a child is not and was accepted
	Drifted   Phase = "drifted"   // was converged and no longer is; reported or held, not repaired
	Deleting  Phase = "deleting"  // to be removed, not looked at yet
	Failed    Phase = "failed"    // given up for this generation
	Deleted   Phase = "deleted"   // observed gone; terminal
	Orphaned  Phase = "orphaned"  // could not be removed in time; terminal, raises an alert
)

// Terminal reports whether the controller leaves a row of this phase alone.
func (p Phase) Terminal() bool { return p == Deleted || p == Orphaned }

// Code is a machine-readable reason: lower case with underscores.
type Code string

// Codes that the framework itself gives. Reconcilers add their own.
const (
	CodeDesiredChanged   Code = "desired-changed"
	CodeDeleteRequested  Code = "delete-requested"
	CodeTimeEnded        Code = "time-ended"       // its NotAfter
	CodeCleanupDeadline  Code = "cleanup-deadline" // the DeleteBy of what is not gone
	CodeConvergeBy       Code = "converge-deadline"
	CodeExhausted        Code = "attempts-exhausted"
	CodeStepsExhausted   Code = "steps-exhausted"
	CodeChildFailed      Code = "child-failed"
	CodeChildrenPending  Code = "children-pending"
	CodeChildrenBad      Code = "children-degraded"
	CodeDeletingChildren Code = "deleting-children"
	CodeBackingOff       Code = "backing-off"
	CodeActFailed        Code = "act-failed"
	CodeActTimeout       Code = "act-timeout"
	CodeActed            Code = "acted"
	CodeInterrupted      Code = "interrupted"
	CodeObserveFailed    Code = "observe-failed"
	CodePanic            Code = "panic"
	CodeRetryRequested   Code = "retry-requested"
	CodeRevived          Code = "revived"
	CodeNoDecision       Code = "no-decision"
	CodeBadIntent        Code = "bad-intent"
	CodeChildConflict    Code = "child-conflict"
	CodeBadDesired       Code = "bad-desired"
	CodeBlocked          Code = "blocked"
	CodeBadReport        Code = "bad-report"
	CodeBadAction        Code = "bad-action"    // a Do without an action, or with one that does not encode
	CodeTimePassed       Code = "time-passed"   // a wait for a time that has passed, again and again
	CodeNoReconciler     Code = "no-reconciler" // nobody registered the kind
	CodeHung             Code = "hung"          // Observe, Decide or Act has not returned in time
)

// Reason is a code for programs and words for people. Words that change from
// turn to turn make a transition each time; keep them stable.
type Reason struct {
	Code    Code   `json:"code"`
	Message string `json:"message,omitempty"`
}

// String prints code: words.
func (r Reason) String() string {
	if r.Message == "" {
		return string(r.Code)
	}
	return string(r.Code) + ": " + r.Message
}

// Text is the message for people, or the code where there are none. A reason that
// is part of another one's words is told by it: codes do not nest.
func (r Reason) Text() string {
	if r.Message == "" {
		return string(r.Code)
	}
	return r.Message
}

// NewReason makes a Reason.
func NewReason(code Code, message string) Reason { return Reason{Code: code, Message: message} }

// Status is what the controller recorded about a resource.
type Status struct {
	Phase               Phase  `json:"phase"`
	Reason              Reason `json:"reason"`
	Attempts            int    `json:"attempts"`            // acts and observes of this generation that failed or whose outcome is unknown
	ConvergedGeneration int64  `json:"convergedGeneration"` // last generation that was observed converged; 0 if none
}

// Resource is one resource as its reconciler sees it.
type Resource[D any] struct {
	Ref        Ref
	Parent     Ref   // zero for a root
	Generation int64 // rises with every change of Desired or Delete
	Desired    D
	Delete     bool // desired is absence; Converged then means observed gone
	Status     Status
	Revision   int64 // rises with every write to the row
	// NotAfter is the time that it must not outlive, also while it is deleted; zero: none.
	NotAfter time.Time
}

// View is all that Decide may know: no trigger, no store, no context.
type View[D, O any] struct {
	Resource Resource[D]
	Observed O
	Children []Child // in order of (Order, creation); deleted ones are left out
	Events   []Event // received and not handled yet, in order of arrival
	Now      time.Time
}

// Child is a child as its parent sees it.
type Child struct {
	Ref        Ref             `json:"ref"`
	Generation int64           `json:"generation"`
	Desired    json.RawMessage `json:"desired,omitempty"`
	Delete     bool            `json:"delete,omitempty"`
	Order      int             `json:"order,omitempty"`
	Phase      Phase           `json:"phase"`
	Reason     Reason          `json:"reason"`
	Attempts   int             `json:"attempts,omitempty"`
	NotAfter   time.Time       `json:"notAfter,omitzero"`
	Report     json.RawMessage `json:"report,omitempty"` // the last that a decision gave; nil if none did, or it was withdrawn
	// NeedsVerdict is set when this generation failed and the parent has given
	// no verdict yet.
	NeedsVerdict bool `json:"needsVerdict,omitempty"`
}
