package engine

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"
)

// Action is one step that changes the world. Each kind declares its own sealed
// sum of actions; each must encode as JSON, since the intent to act is recorded
// before the act. Two actions are the same if name and encoding are equal.
type Action interface {
	// ActionName is a stable lower-case name such as "create".
	ActionName() string
}

// Decision is exactly one of Converged, Do, Wait and Fail, each with its
// reason, plus intents for children and verdicts on failed ones. It can only be
// made by the four constructors; the zero Decision counts as a failure.
type Decision struct {
	name     string
	action   Action
	until    time.Time
	reason   Reason
	children grown[Intent]
	verdicts grown[Verdict]
	report   string // encoded
	handled  int64
	within   time.Duration
	err      error // of the report
}

// IsConverged decides that the world is as desired (or, for a resource that is
// to be deleted, that it is gone). Children still on their way make the phase Waiting.
func IsConverged(r Reason) Decision { return Decision{name: "converged", reason: r} }

// Do decides to take one action. Success is believed only after the next observe.
func Do(a Action, r Reason) Decision { return Decision{name: "do", action: a, reason: r} }

// Wait decides to do nothing until something triggers a turn. Waiting never
// counts as an attempt.
func Wait(r Reason) Decision { return Decision{name: "wait", reason: r} }

// WaitUntil is Wait with a turn at t at the latest; a zero t is none.
func WaitUntil(t time.Time, r Reason) Decision { return Decision{name: "wait", until: t, reason: r} }

// Fail decides that this cannot converge as things are. It fails the generation
// and escalates; a later turn may decide otherwise.
func Fail(r Reason) Decision { return Decision{name: "fail", reason: r} }

// RequeueAt asks for a turn at t at the latest, also of what is converged; a zero t asks for none.
func (d Decision) RequeueAt(t time.Time) Decision { d.until = t; return d }

// Within gives the act d of time where that is more than ActTimeout of the policy: for one that
// waits for something which has a time of its own.
func (d Decision) Within(t time.Duration) Decision { d.within = t; return d }

// With adds intents for children, in order.
func (d Decision) With(children ...Intent) Decision {
	d.children = d.children.with(children...)
	return d
}

// Versioned sets the version of the form of each child that is to be present, by kind. Below 2 it sets none.
func (d Decision) Versioned(of func(kind string) int) Decision {
	all, changed := d.Children(), false
	for i := range all {
		if n := of(all[i].Ref.Kind); n > 1 && all[i].Op == OpUpsert {
			all[i].Version, changed = n, true
		}
	}
	if changed {
		d.children = grown[Intent]{}.with(all...)
	}
	return d
}

// WithVerdicts adds verdicts on failed children. A failed child without one gets the
// policy's OnChildFailure.
func (d Decision) WithVerdicts(verdicts ...Verdict) Decision {
	d.verdicts = d.verdicts.with(verdicts...)
	return d
}

// MaxReport bounds an encoded report, in bytes.
const MaxReport = 16 << 10

// WithReport tells the parent more than phase and reason: an address, a result. It is
// encoded as JSON, is at most MaxReport long, and holds until another decision gives
// another one: also while the resource acts, waits or has failed. A decision that it is
// converged and has no report withdraws it, as WithReport(nil) does with any decision. What is too
// long, or does not encode, fails the generation.
func (d Decision) WithReport(report any) Decision {
	raw, err := json.Marshal(report)
	switch {
	case err != nil:
		d.err = fmt.Errorf("encode the report: %w", err)
	case len(raw) > MaxReport:
		d.err = fmt.Errorf("the report has %d bytes; at most %d are kept", len(raw), MaxReport)
	default:
		d.report = string(raw)
	}
	return d
}

// WithHandled says that the events of the view up to number n need not be seen again. Their
// data is dropped; they are still known as received.
func (d Decision) WithHandled(n int64) Decision { d.handled = n; return d }

// withdrawn is the report of a decision that takes back the one before.
const withdrawn = "null"

// reportAfter is the report of a row that had before, after the decision.
func (d *Decision) reportAfter(before string) string {
	switch {
	case d.report == withdrawn, d.report == "" && d.name == "converged":
		return ""
	case d.report == "":
		return before
	}
	return d.report
}

// Report is the encoded report, nil if there is none.
func (d Decision) Report() json.RawMessage { return rawReport(d.report) }

// Handled is the number of the last event that need not be seen again; 0 if none was named.
func (d Decision) Handled() int64 { return d.handled }

func rawReport(s string) json.RawMessage {
	if s == "" {
		return nil
	}
	return json.RawMessage(s)
}

// Reason, Children and Verdicts read the decision's parts.
func (d Decision) Reason() Reason      { return d.reason }
func (d Decision) Children() []Intent  { return d.children.list() }
func (d Decision) Verdicts() []Verdict { return d.verdicts.list() }

// Name is converged, do, wait or fail.
func (d Decision) Name() string { return cmp.Or(d.name, "fail") }

// MarshalJSON encodes the decision with all its parts; two are the same if their encodings are.
func (d Decision) MarshalJSON() ([]byte, error) {
	if d.err != nil {
		return nil, d.err
	}
	out := struct {
		Name     string          `json:"decision"`
		Action   string          `json:"action,omitempty"`
		Input    Action          `json:"input,omitempty"`
		Until    time.Time       `json:"until,omitzero"`
		Reason   Reason          `json:"reason"`
		Children []Intent        `json:"children,omitempty"`
		Verdicts []Verdict       `json:"verdicts,omitempty"`
		Report   json.RawMessage `json:"report,omitempty"`
		Handled  int64           `json:"handled,omitempty"`
		Within   time.Duration   `json:"within,omitempty"`
	}{d.Name(), "", d.action, d.until, d.reason, d.Children(), d.Verdicts(), d.Report(), d.handled, d.within}
	if d.action != nil {
		out.Action = d.action.ActionName()
	}
	return json.Marshal(out)
}

// Action returns the action of a Do, or nil.
func (d Decision) Action() Action { return d.action }

// Until is when the next turn is at the latest: when a Wait ends by itself, or RequeueAt; zero if there is none.
func (d Decision) Until() time.Time { return d.until }

// Op is what an Intent asks for.
type Op string

// The operations.
const (
	OpUpsert Op = "upsert" // present, with this desired state
	OpDelete Op = "delete" // absent
	OpRetry  Op = "retry"  // same desired state, attempts start afresh
	OpAck    Op = "ack"    // a person knows of its alert; nothing else changes
	opLimit  Op = "limit"  // lower NotAfter to the parent's, nothing else; given by the framework
)

// Intent sets what is desired of a resource: by a parent for its child in a
// Decision, or by an owner for a root. An intent that changes nothing writes
// nothing.
type Intent struct {
	Op      Op              `json:"op"`
	Ref     Ref             `json:"ref"`
	Desired json.RawMessage `json:"desired,omitempty"` // encoded; equal states must have equal bytes
	Order   int             `json:"order,omitempty"`   // children are deleted from the highest order down, one class at a time; equal orders go together
	// ConvergeBy: Failed when it passes before the generation converged once.
	ConvergeBy time.Time `json:"convergeBy,omitzero"`
	// NotAfter: deleted when it passes, whatever is desired. A child's is never later than its parent's.
	NotAfter time.Time `json:"notAfter,omitzero"`
	// DeleteBy: Orphaned when it passes before the resource is observed gone; the policy's
	// CleanupGrace may end earlier. An Upsert that has it needs a NotAfter that is not later.
	DeleteBy time.Time `json:"deleteBy,omitzero"`
	// Version is that of the form of Desired, 0 where it is not known.
	Version int `json:"version,omitzero"`
	// Why is what the history has as the reason of what the intent changes, in words; empty: the code alone.
	Why    string `json:"why,omitempty"`
	note   string // of an acknowledgement
	expect *int64 // generation of the live resource, 0 for none; nil: any
	err    error
}

// Upsert is the intent that ref be present as desired, which is encoded as JSON.
// An encoding error surfaces when the intent is applied.
func Upsert(ref Ref, desired any) Intent {
	raw, err := json.Marshal(desired)
	if err != nil {
		err = fmt.Errorf("encode desired state of %s: %w", ref, err)
	}
	return Intent{Op: OpUpsert, Ref: ref, Desired: raw, err: err}
}

// Delete is the intent that ref be gone.
func Delete(ref Ref) Intent { return Intent{Op: OpDelete, Ref: ref} }

// Retry is the intent that ref start its attempts afresh, keeping its generation.
func Retry(ref Ref) Intent { return Intent{Op: OpRetry, Ref: ref} }

// Acknowledge is the intent that the alert of ref need no longer be shown; note is kept in
// its history. A later failure raises another one.
func Acknowledge(ref Ref, note string) Intent { return Intent{Op: OpAck, Ref: ref, note: note} }

// WithVersion sets the version of the form of what is desired; a controller does that for what goes through it.
func (i Intent) WithVersion(n int) Intent { i.Version = n; return i }

// WithOrder sets the order class.
func (i Intent) WithOrder(order int) Intent { i.Order = order; return i }

// WithNotAfter sets the time that the resource must not outlive.
func (i Intent) WithNotAfter(t time.Time) Intent { i.NotAfter = t; return i }

// WithConvergeBy sets the time by which the resource has to converge.
func (i Intent) WithConvergeBy(t time.Time) Intent { i.ConvergeBy = t; return i }

// WithDeleteBy sets the time by which a deletion has to be over.
func (i Intent) WithDeleteBy(t time.Time) Intent { i.DeleteBy = t; return i }

// WithGeneration has an Upsert fail with ErrConflict unless the resource has that generation, or is not
// there and it is 0: what was decided on a resource as it was read is not set on another one.
func (i Intent) WithGeneration(n int64) Intent { i.expect = &n; return i }

// Because sets the words that the history has as the reason of what the intent changes.
func (i Intent) Because(words string) Intent { i.Why = words; return i }

// Err is the encoding error of an Upsert, if any.
func (i Intent) Err() error { return i.err }

// FailureAction is what the failure of a child does to its parent.
type FailureAction string

// The actions.
const (
	Continue FailureAction = "continue" // accept the failure; the parent is at best Degraded
	Abort    FailureAction = "abort"    // delete all children, fail the parent, escalate once
)

// Verdict is a parent's answer to one failed generation of a child. A parent that
// wants to fail without deleting its children decides Fail and answers Continue.
type Verdict struct {
	Child      Ref           `json:"child"`
	Generation int64         `json:"generation"`
	Action     FailureAction `json:"action"`
}
