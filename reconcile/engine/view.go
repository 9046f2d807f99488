package engine

import "encoding/json"

// Phase is where a resource stands.
type Phase string

// The phases.
const (
	Pending   Phase = "pending"   // a new generation, not looked at yet
	Acting    Phase = "acting"    // an act has begun and is not finished
	Verifying Phase = "verifying" // an act reported success; believed only after the next observe
	Retrying  Phase = "retrying"  // an act or observe failed; backing off
	Waiting   Phase = "waiting"   // the manager waits, or children are on their way
	Converged Phase = "converged" // observed as desired, and so are all children
	Degraded  Phase = "degraded"  // as desired itself, but a child is not and was accepted
	Drifted   Phase = "drifted"   // was converged and no longer is; reported or held, not repaired
	Retiring  Phase = "retiring"  // to be removed, not looked at yet
	Failed    Phase = "failed"    // given up for this generation
	Retired   Phase = "retired"   // observed gone; terminal
	Orphaned  Phase = "orphaned"  // could not be removed in time; terminal, raises an alert
)

// Terminal reports whether the loop leaves a row of this phase alone.
func (p Phase) Terminal() bool { return p == Retired || p == Orphaned }

// Code is a machine-readable reason: lower case with underscores.
type Code string

// Codes that the framework itself gives. Managers add their own.
const (
	CodeDesiredChanged  Code = "desired_changed"
	CodeRetireRequested Code = "retire_requested"
	CodeCleanupDeadline Code = "cleanup_deadline"
	CodeConvergeBy      Code = "converge_deadline"
	CodeExhausted       Code = "attempts_exhausted"
	CodeStepsExhausted  Code = "steps_exhausted"
	CodeChildFailed     Code = "child_failed"
	CodeChildrenPending Code = "children_pending"
	CodeChildrenBad     Code = "children_degraded"
	CodeRetireChildren  Code = "retiring_children"
	CodeBackingOff      Code = "backing_off"
	CodeActFailed       Code = "act_failed"
	CodeActTimeout      Code = "act_timeout"
	CodeActed           Code = "acted"
	CodeInterrupted     Code = "interrupted"
	CodeObserveFailed   Code = "observe_failed"
	CodePanic           Code = "panic"
	CodeRetryRequested  Code = "retry_requested"
	CodeRevived         Code = "revived"
	CodeNoDecision      Code = "no_decision"
	CodeBadIntent       Code = "bad_intent"
	CodeChildConflict   Code = "child_conflict"
	CodeBadDesired      Code = "bad_desired"
	CodeHeld            Code = "held"
)

// Reason is a code for programs and words for people. Words that change from
// turn to turn make a transition each time; keep them stable.
type Reason struct {
	Code  Code   `json:"code"`
	Words string `json:"words,omitempty"`
}

// String prints code: words.
func (r Reason) String() string {
	if r.Words == "" {
		return string(r.Code)
	}
	return string(r.Code) + ": " + r.Words
}

// Message is the words for people, or the code where there are none. A reason that
// is part of another one's words is told by it: codes do not nest.
func (r Reason) Message() string {
	if r.Words == "" {
		return string(r.Code)
	}
	return r.Words
}

// Because makes a Reason.
func Because(code Code, words string) Reason { return Reason{Code: code, Words: words} }

// Status is what the loop recorded about a resource.
type Status struct {
	Phase               Phase  `json:"phase"`
	Reason              Reason `json:"reason"`
	Attempts            int    `json:"attempts"`            // acts and observes of this generation that failed or whose outcome is unknown
	ConvergedGeneration int64  `json:"convergedGeneration"` // last generation that was observed converged; 0 if none
}

// Deadlines are absolute; zero means none.
type Deadlines struct {
	ConvergeBy Instant `json:"convergeBy,omitempty"` // Failed when passed before the generation converged
	NotAfter   Instant `json:"notAfter,omitempty"`   // retired when passed, whatever is desired; never later than the parent's
	RetireBy   Instant `json:"retireBy,omitempty"`   // Orphaned when passed before it is observed gone
}

// Resource is one resource as its manager sees it.
type Resource[D any] struct {
	Ref        Ref
	Parent     Ref   // zero for a root
	Generation int64 // rises with every change of Desired or Retire
	Desired    D
	Retire     bool // desired is absence; Converged then means observed gone
	Status     Status
	Deadlines  Deadlines
	Revision   int64 // rises with every write to the row
}

// View is all that Decide may know: no trigger, no store, no context.
type View[D, O any] struct {
	Resource Resource[D]
	Observed O
	Children []Child // in order of (Order, creation); retired ones are left out
	Now      Instant
}

// Child is a child as its parent sees it.
type Child struct {
	Ref        Ref             `json:"ref"`
	Generation int64           `json:"generation"`
	Desired    json.RawMessage `json:"desired,omitempty"`
	Retire     bool            `json:"retire,omitempty"`
	Order      int             `json:"order,omitempty"`
	Phase      Phase           `json:"phase"`
	Reason     Reason          `json:"reason"`
	Attempts   int             `json:"attempts,omitempty"`
	NotAfter   Instant         `json:"notAfter,omitempty"`
	// NeedsVerdict is set when this generation failed and the parent has given
	// no verdict yet.
	NeedsVerdict bool `json:"needsVerdict,omitempty"`
}
