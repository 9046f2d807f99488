// Made of package engine by TestNamesOfTheEngine -rewrite.

package reconcile

import "github.com/steadyfleet/steady/reconcile/engine"

// The triggers. The zero value is not a trigger.
const (
	TriggerStartup  = engine.TriggerStartup  // the controller started and enqueued everything
	TriggerResync   = engine.TriggerResync   // the periodic look
	TriggerSchedule = engine.TriggerSchedule // a Wait ended
	TriggerRetry    = engine.TriggerRetry    // a back-off ended
	TriggerChild    = engine.TriggerChild    // a child changed
	TriggerParent   = engine.TriggerParent   // the parent set or deleted this resource
	TriggerSibling  = engine.TriggerSibling  // something beside it changed that it waits for; asked for by who sees it, never by a commit
	TriggerExternal = engine.TriggerExternal // an event from outside
	TriggerDeadline = engine.TriggerDeadline // an absolute deadline was reached
	TriggerOperator = engine.TriggerOperator // a person or the owner of a root changed or nudged it
	TriggerActed    = engine.TriggerActed    // an act ended, and no retry is due: what it did is to be observed
)

// MaxCauses bounds the distinct causes kept for one turn; the count goes on.
const (
	MaxCauses = engine.MaxCauses
)

// MaxReport bounds an encoded report, in bytes.
const (
	MaxReport = engine.MaxReport
)

// The operations.
const (
	OpUpsert = engine.OpUpsert // present, with this desired state
	OpDelete = engine.OpDelete // absent
	OpRetry  = engine.OpRetry  // same desired state, attempts start afresh
	OpAck    = engine.OpAck    // a person knows of its alert; nothing else changes
)

// The actions.
const (
	Continue = engine.Continue // accept the failure; the parent is at best Degraded
	Abort    = engine.Abort    // delete all children, fail the parent, escalate once
)

// Bounds of a resource's inbox.
const (
	MaxEventData = engine.MaxEventData // bytes
	MaxEventName = engine.MaxEventName // bytes of Source, ID and Type each
	MaxUnhandled = engine.MaxUnhandled // events that no decision has named as handled
)

// Why an event is not kept.
var (
	ErrEventTooLarge = engine.ErrEventTooLarge
	ErrEventUnnamed  = engine.ErrEventUnnamed
	ErrEventData     = engine.ErrEventData
	ErrInboxFull     = engine.ErrInboxFull
)

// The modes.
const (
	Report  = engine.Report  // record it and leave it alone
	Enforce = engine.Enforce // repair it
)

// Never as the Revive of a policy has what was given up stay so.
const (
	Never = engine.Never
)

// MaxPassed is how many turns of other priorities begin at most, deadlines apart, while
// one of a priority is due: aged, and one of each other priority that was passed over longer.
const (
	MaxPassed = engine.MaxPassed
)

// PassedOften is after how many turns in a row a time that has passed is given as the reason.
const (
	PassedOften = engine.PassedOften
)

// Errors of stores.
var (
	// ErrNotFound: no row has this ref.
	ErrNotFound = engine.ErrNotFound
	// ErrConflict: the row changed since it was loaded; the turn is dropped and taken again.
	ErrConflict = engine.ErrConflict
)

// The phases.
const (
	Pending   = engine.Pending   // a new generation, not looked at yet
	Acting    = engine.Acting    // an act has begun and is not finished
	Verifying = engine.Verifying // an act reported success; believed only after the next observe
	Retrying  = engine.Retrying  // an act or observe failed; backing off
	Waiting   = engine.Waiting   // the reconciler waits, or children are on their way
	Converged = engine.Converged // observed as desired, and so are all children
	Degraded  = engine.Degraded  // as desired itself, but a child is not and was accepted
	Drifted   = engine.Drifted   // was converged and no longer is; reported or held, not repaired
	Deleting  = engine.Deleting  // to be removed, not looked at yet
	Failed    = engine.Failed    // given up for this generation
	Deleted   = engine.Deleted   // observed gone; terminal
	Orphaned  = engine.Orphaned  // could not be removed in time; terminal, raises an alert
)

// Codes that the framework itself gives. Reconcilers add their own.
const (
	CodeDesiredChanged   = engine.CodeDesiredChanged
	CodeDeleteRequested  = engine.CodeDeleteRequested
	CodeTimeEnded        = engine.CodeTimeEnded       // its NotAfter
	CodeCleanupDeadline  = engine.CodeCleanupDeadline // the DeleteBy of what is not gone
	CodeConvergeBy       = engine.CodeConvergeBy
	CodeExhausted        = engine.CodeExhausted
	CodeStepsExhausted   = engine.CodeStepsExhausted
	CodeChildFailed      = engine.CodeChildFailed
	CodeChildrenPending  = engine.CodeChildrenPending
	CodeChildrenBad      = engine.CodeChildrenBad
	CodeDeletingChildren = engine.CodeDeletingChildren
	CodeBackingOff       = engine.CodeBackingOff
	CodeActFailed        = engine.CodeActFailed
	CodeActTimeout       = engine.CodeActTimeout
	CodeActed            = engine.CodeActed
	CodeInterrupted      = engine.CodeInterrupted
	CodeObserveFailed    = engine.CodeObserveFailed
	CodePanic            = engine.CodePanic
	CodeRetryRequested   = engine.CodeRetryRequested
	CodeRevived          = engine.CodeRevived
	CodeNoDecision       = engine.CodeNoDecision
	CodeBadIntent        = engine.CodeBadIntent
	CodeChildConflict    = engine.CodeChildConflict
	CodeBadDesired       = engine.CodeBadDesired
	CodeBlocked          = engine.CodeBlocked
	CodeBadReport        = engine.CodeBadReport
	CodeBadAction        = engine.CodeBadAction    // a Do without an action, or with one that does not encode
	CodeTimePassed       = engine.CodeTimePassed   // a wait for a time that has passed, again and again
	CodeNoReconciler     = engine.CodeNoReconciler // nobody registered the kind
	CodeHung             = engine.CodeHung         // Observe, Decide or Act has not returned in time
)
