// Made of package engine by TestNamesOfTheEngine -rewrite.

package reconcile

import "github.com/steadyfleet/steady/reconcile/engine"

// Trigger is why a turn was asked for.
//
//	func (t Trigger) String() string // String is the trigger's name as written in history
//	func (t Trigger) Priority() Priority // Priority is the priority that goes with the trigger
type Trigger = engine.Trigger

// Priority of a turn; a higher one goes first among those that are due, until a lower one
// was passed over too often (MaxPassed).
type Priority = engine.Priority

// Cause says what asked for a turn: the trigger and the id of the thing that
// raised it (a request, an event, a transition such as file/a#12). It goes to
// history and to the log, never into a View: reconcilers stay level-triggered.
//
//	Trigger Trigger
//	ID string
//	func (c Cause) String() string // String prints trigger or trigger:id
type Cause = engine.Cause

// Action is one step that changes the world. Each kind declares its own sealed
// sum of actions; each must encode as JSON, since the intent to act is recorded
// before the act. Two actions are the same if name and encoding are equal.
//
//	ActionName() string
type Action = engine.Action

// Decision is exactly one of Converged, Do, Wait and Fail, each with its
// reason, plus intents for children and verdicts on failed ones. It can only be
// made by the four constructors; the zero Decision counts as a failure.
//
//	func (d Decision) RequeueAt(t time.Time) Decision // RequeueAt asks for a turn at t at the latest, also of what is converged; a zero t asks for none
//	func (d Decision) Within(t time.Duration) Decision // Within gives the act d of time where that is more than ActTimeout of the policy: for one that waits for something which has a time of its own
//	func (d Decision) With(children ...Intent) Decision // With adds intents for children, in order
//	func (d Decision) Versioned(of func(kind string) int) Decision // Versioned sets the version of the form of each child that is to be present, by kind
//	func (d Decision) WithVerdicts(verdicts ...Verdict) Decision // WithVerdicts adds verdicts on failed children
//	func (d Decision) WithReport(report any) Decision // WithReport tells the parent more than phase and reason: an address, a result
//	func (d Decision) WithHandled(n int64) Decision // WithHandled says that the events of the view up to number n need not be seen again
//	func (d Decision) Report() json.RawMessage // Report is the encoded report, nil if there is none
//	func (d Decision) Handled() int64 // Handled is the number of the last event that need not be seen again; 0 if none was named
//	func (d Decision) Reason() Reason // Reason, Children and Verdicts read the decision's parts
//	func (d Decision) Children() []Intent
//	func (d Decision) Verdicts() []Verdict
//	func (d Decision) Name() string // Name is converged, do, wait or fail
//	func (d Decision) MarshalJSON() ([]byte, error) // MarshalJSON encodes the decision with all its parts; two are the same if their encodings are
//	func (d Decision) Action() Action // Action returns the action of a Do, or nil
//	func (d Decision) Until() time.Time // Until is when the next turn is at the latest: when a Wait ends by itself, or RequeueAt; zero if there is none
type Decision = engine.Decision

// Op is what an Intent asks for.
type Op = engine.Op

// Intent sets what is desired of a resource: by a parent for its child in a
// Decision, or by an owner for a root. An intent that changes nothing writes
// nothing.
//
//	Op Op
//	Ref Ref
//	Desired json.RawMessage // encoded; equal states must have equal bytes
//	Order int // children are deleted from the highest order down, one class at a time; equal orders go together
//	ConvergeBy time.Time // ConvergeBy: Failed when it passes before the generation converged once
//	NotAfter time.Time // NotAfter: deleted when it passes, whatever is desired
//	DeleteBy time.Time // DeleteBy: Orphaned when it passes before the resource is observed gone; the policy's CleanupGrace may end earlier
//	Version int // Version is that of the form of Desired, 0 where it is not known
//	Why string // Why is what the history has as the reason of what the intent changes, in words; empty: the code alone
//	func (i Intent) WithVersion(n int) Intent // WithVersion sets the version of the form of what is desired; a controller does that for what goes through it
//	func (i Intent) WithOrder(order int) Intent // WithOrder sets the order class
//	func (i Intent) WithNotAfter(t time.Time) Intent // WithNotAfter sets the time that the resource must not outlive
//	func (i Intent) WithConvergeBy(t time.Time) Intent // WithConvergeBy sets the time by which the resource has to converge
//	func (i Intent) WithDeleteBy(t time.Time) Intent // WithDeleteBy sets the time by which a deletion has to be over
//	func (i Intent) WithGeneration(n int64) Intent // WithGeneration has an Upsert fail with ErrConflict unless the resource has that generation, or is not there and it is 0: what was decided on a resource as it was read is not set on another one
//	func (i Intent) Because(words string) Intent // Because sets the words that the history has as the reason of what the intent changes
//	func (i Intent) Err() error // Err is the encoding error of an Upsert, if any
type Intent = engine.Intent

// FailureAction is what the failure of a child does to its parent.
type FailureAction = engine.FailureAction

// Verdict is a parent's answer to one failed generation of a child. A parent that
// wants to fail without deleting its children decides Fail and answers Continue.
//
//	Child Ref
//	Generation int64
//	Action FailureAction
type Verdict = engine.Verdict

// Event is something that happened outside and was received for one resource. Its fields are
// those of CloudEvents 1.0.
//
//	N int64 // given by the store: rises with each event that it keeps
//	Source string
//	ID string // with Source, the same for each delivery of one event
//	Type string
//	At time.Time // when it was received; UTC, whole milliseconds
//	Data json.RawMessage // its bytes are kept as encoding/json writes them
//	func (e *Event) Cause() Cause // Cause is the cause of the turn that an event asks for
type Event = engine.Event

// OwnerError: an intent names a live resource that belongs to somebody else.
//
//	Ref, Owner, Claimant Ref
//	func (e *OwnerError) Error() string
type OwnerError = engine.OwnerError

// DriftMode is what to do about drift from a generation that had converged.
type DriftMode = engine.DriftMode

// Policy is data, one per kind. Zero fields take the default named beside them.
//
//	Retry RetryPolicy
//	ActTimeout time.Duration // per act; 1m
//	ObserveTimeout time.Duration // per observe; 30s
//	MaxSteps int // acts that made progress before the generation converged; 64
//	CleanupGrace time.Duration // from the deletion request to Orphaned; 10m
//	OnChildFailure FailureAction // Continue
//	OnDrift DriftMode // Enforce
//	Resync time.Duration // period of looking without a trigger; 0 none
//	History HistoryPolicy
//	Revive time.Duration // Revive is when what was given up gets another life: its attempts afresh
//	ReviveCap time.Duration // 1h, or Revive if that is longer
//	func (p Policy) WithDefaults() Policy // WithDefaults fills the zero fields
//	func (p Policy) Validate() error // Validate reports a policy that cannot work
//	func (p *Policy) ResyncDelay(ref Ref) time.Duration // ResyncDelay is the time to the next resync of ref: the period less up to a tenth, by hash, so that resources do not move in step
type Policy = engine.Policy

// RetryPolicy bounds attempts per generation.
//
//	Max int // 5
//	Base time.Duration // first delay; 1s
//	Cap time.Duration // longest delay; 1m
type RetryPolicy = engine.RetryPolicy

// HistoryPolicy bounds what is kept of one resource's transitions. The newest
// transition into each phase is always kept.
//
//	Keep int // newest N; 50; negative turns history off
//	Age time.Duration // and no older than this; 0 no limit; also how long deleted rows stay (7d if 0)
//	func (h History) Drop(ts []Transition, now time.Time) []int64 // Drop decides which of a resource's transitions (in order of N) a history policy does not keep: it keeps the newest Keep, no older than Age, and always the newest into each phase; a negative Keep keeps none
type HistoryPolicy = engine.History

// Ref names one resource. It is comparable and is the key of the queue.
//
//	Kind string
//	ID string
//	func (r Ref) String() string // String prints kind/id
//	func (r Ref) IsZero() bool // IsZero reports whether r names nothing; a root has a zero parent
//	func (r Ref) Compare(o Ref) int // Compare orders refs by kind, then id
//	func (r Ref) Hash() uint64 // Hash is a stable 64-bit FNV-1a hash of r: the same in every process, which is what makes jitter replayable
type Ref = engine.Ref

// Row is one resource as stored: what is desired of it, and what the controller
// recorded. A store reads and writes the exported fields, and keeps with them
// what State returns, unread.
//
//	Ref Ref
//	Parent Ref // zero for a root
//	Created int64 // order of creation, from 1; 0 until the store has numbered the row
//	Order int
//	Generation int64 // rises with every change of Desired or Delete
//	Revision int64 // rises with every write
//	Desired json.RawMessage
//	Delete bool // absence is desired
//	Phase Phase
//	Reason Reason
//	Attempts int // acts and observes of this episode that failed or whose outcome is unknown
//	ConvergedGen int64 // last generation observed converged; 0 if none
//	Transitions int64 // number of transitions ever; the last one's N
//	func (r *Row) NeedsVerdict() bool // NeedsVerdict reports whether the row's parent has to rule on its failure
//	func (r *Row) ChildView() Child // ChildView is the row as its parent sees it
//	func (r *Row) Status() Status // Status is the recorded status of the row
//	func (r *Row) State() []byte // State is the part of the row that only the framework reads, encoded
//	func (r *Row) SetState(raw []byte) error // SetState sets the part of the row that State returned
//	func (r *Row) Report() json.RawMessage // Report is what the parent has of it, encoded; nil if it has nothing
//	func (r *Row) NotAfter() time.Time // NotAfter is the time that the resource must not outlive; zero: none
//	func (r *Row) Handled() int64 // Handled is the number of the last event that is not shown again
//	func (r *Row) Alerts() bool // Alerts reports whether the row needs a person: it is orphaned, or a root that failed and has not converged since, also while it has another life; and nobody acknowledged it
//	func (r *Row) DesiredVersion() int // DesiredVersion is the version of the form of what is desired, 1 where none was given
//	func (r *Row) Lives() int // Lives is how often the attempts of this generation began afresh since it last converged: by the policy's Revive, or since something else was to be done
//	func (r *Row) GivenUp() bool // GivenUp reports whether nothing more is done for this generation by itself before NextAttempt
//	func (r *Row) Action() string // Action is the name and encoding of the action last begun in this episode, with a space between; empty if none was
//	func (r *Row) NextAttempt() time.Time // NextAttempt is the earliest time of the next attempt; zero if none is scheduled
//	func (r *Row) Since() time.Time // Since is when the present episode began; for a deleted row, when it was gone
type Row = engine.Row

// Transition is one entry of a resource's history. Within one resource N counts
// from 1 and From equals the previous To.
//
//	Ref Ref
//	Parent Ref
//	N int64
//	Generation int64
//	From Phase // empty for a new resource
//	To Phase
//	Attempt int
//	Reason Reason
//	Action string // name and encoding
//	Error string
//	Causes []Cause // at most MaxCauses
//	CauseCount int // of all
//	At time.Time // UTC, whole milliseconds
//	Duration time.Duration // length of the act, where one ended
//	Escalated bool // raised to the parent, or to the operator for a root
//	Alert bool // needs a person: orphaned, or a root that failed
type Transition = engine.Transition

// Snapshot is what one turn loads in one read transaction.
//
//	Row Row
//	Parent *Row // nil for a root, or if the parent's row is gone
//	Children []Row // by (Order, Created); orphaned ones too, deleted ones not
//	Events []Event // numbered above Row.Handled, in order
//	TriggerN int64 // newest outbox trigger for Row.Ref; it is acknowledged by the turn
type Snapshot = engine.Snapshot

// Raise is a trigger to be written to the outbox with the record that causes it.
//
//	N int64 // given by the store
//	Ref Ref
//	Cause Cause
type Raise = engine.Raise

// Act is an action about to begin.
//
//	Name string
//	JSON json.RawMessage
//	Attempt int
//	DueBy time.Time
type Act = engine.Act

// Record is the outcome of a step of a turn, to be committed in one transaction
// if Write is set: compare-and-swap the row on Expect, append transitions,
// apply intents and verdicts to children, write triggers to the outbox.
//
//	Write bool
//	Expect int64 // revision the step was computed from
//	Row Row // Revision is Expect+1
//	Transitions []Transition
//	Intents []Intent // for children of Row.Ref
//	Verdicts []Verdict // on failed children
//	Raises []Raise
//	NoHistory bool // the kind keeps no history; transitions are only announced
//	AckTrigger int64 // outbox triggers for Row.Ref up to here are done
//	Handled int64 // the data of events of Row.Ref up to here is dropped; 0: none
//	Now time.Time
//	Act *Act // begin this act after the commit
//	Wake time.Time // next turn at, even without a trigger; zero: none
//	Why Trigger // cause of that turn
//	Deadline time.Time // and a turn at this instant at the latest: a deadline of the row; zero: none
//	Passed bool // Passed is set where the decision asked for a turn at a time that is not after the turn's own: Wake is then the end of a pause, which doubles while that is so (Input.Passed)
//	func (rec *Record) Stuck() bool // Stuck reports whether nothing follows this record although its row is on its way: after a turn with it the row would be left as it is
type Record = engine.Record

// Change is what applying an intent did.
//
//	Ref Ref
//	Generation int64
//	Changed bool // the row was written
//	Transition []Transition // none or one
type Change = engine.Change

// Committed is what a Commit wrote.
//
//	Transitions []Transition // of the row and of its children
//	Raised []Raise // with N set
type Committed = engine.Committed

// Opened is the state at start.
//
//	Refs []OpenRef
//	Raised []Raise
type Opened = engine.Opened

// OpenRef is a row that is not terminal.
//
//	Ref Ref
//	Acting bool // left in the middle of an act
type OpenRef = engine.OpenRef

// Filter selects rows; zero fields select all.
//
//	Kind string
//	Parent Ref
//	Phases []Phase
//	func (f *Filter) Accepts(row *Row) bool // Accepts reports whether the row is among those that are read
type Filter = engine.Filter

// Block is one thing that a resource waits for.
//
//	Ref Ref // itself, a child or its parent
//	Reason Reason
//	Until time.Time // earliest time at which it can clear by itself; zero: at a trigger
type Block = engine.Block

// Phase is where a resource stands.
//
//	func (p Phase) Terminal() bool // Terminal reports whether the controller leaves a row of this phase alone
type Phase = engine.Phase

// Code is a machine-readable reason: lower case with underscores.
type Code = engine.Code

// Reason is a code for programs and words for people. Words that change from
// turn to turn make a transition each time; keep them stable.
//
//	Code Code
//	Message string
//	func (r Reason) WhyDeleted() string // WhyDeleted is why a resource is being deleted that has the reason r, in words; empty if that is not known
//	func (r Reason) String() string // String prints code: words
//	func (r Reason) Text() string // Text is the message for people, or the code where there are none
type Reason = engine.Reason

// Status is what the controller recorded about a resource.
//
//	Phase Phase
//	Reason Reason
//	Attempts int // acts and observes of this generation that failed or whose outcome is unknown
//	ConvergedGeneration int64 // last generation that was observed converged; 0 if none
type Status = engine.Status

// Resource is one resource as its reconciler sees it.
//
//	Ref Ref
//	Parent Ref // zero for a root
//	Generation int64 // rises with every change of Desired or Delete
//	Desired D
//	Delete bool // desired is absence; Converged then means observed gone
//	Status Status
//	Revision int64 // rises with every write to the row
//	NotAfter time.Time // NotAfter is the time that it must not outlive, also while it is deleted; zero: none
type Resource[D any] = engine.Resource[D]

// View is all that Decide may know: no trigger, no store, no context.
//
//	Resource Resource[D]
//	Observed O
//	Children []Child // in order of (Order, creation); deleted ones are left out
//	Events []Event // received and not handled yet, in order of arrival
//	Now time.Time
type View[D, O any] = engine.View[D, O]

// Child is a child as its parent sees it.
//
//	Ref Ref
//	Generation int64
//	Desired json.RawMessage
//	Delete bool
//	Order int
//	Phase Phase
//	Reason Reason
//	Attempts int
//	NotAfter time.Time
//	Report json.RawMessage // the last that a decision gave; nil if none did, or it was withdrawn
//	NeedsVerdict bool // NeedsVerdict is set when this generation failed and the parent has given no verdict yet
type Child = engine.Child
