package engine

import (
	"encoding/json"
	"fmt"
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
	out      outcome
	reason   Reason
	children []Intent
	verdicts []Verdict
}

type outcome interface{ sealedOutcome() }

type (
	outConverged struct{}
	outDo        struct{ action Action }
	outWait      struct{ until Instant }
	outFail      struct{}
)

func (outConverged) sealedOutcome() {}
func (outDo) sealedOutcome()        {}
func (outWait) sealedOutcome()      {}
func (outFail) sealedOutcome()      {}

// IsConverged decides that the world is as desired (or, for a resource that is
// to retire, that it is gone). Children still on their way make the phase Waiting.
func IsConverged(r Reason) Decision { return Decision{out: outConverged{}, reason: r} }

// Do decides to take one action. Success is believed only after the next observe.
func Do(a Action, r Reason) Decision { return Decision{out: outDo{a}, reason: r} }

// Wait decides to do nothing until the instant; zero waits for a trigger.
// Waiting never counts as an attempt.
func Wait(until Instant, r Reason) Decision { return Decision{out: outWait{until}, reason: r} }

// Fail decides that this cannot converge as things are. It fails the generation
// and escalates; a later turn may decide otherwise.
func Fail(r Reason) Decision { return Decision{out: outFail{}, reason: r} }

// With adds intents for children, in order.
func (d Decision) With(children ...Intent) Decision {
	d.children = append(d.children[:len(d.children):len(d.children)], children...)
	return d
}

// Judge adds verdicts on failed children. A failed child without one gets the
// policy's OnChildFailure.
func (d Decision) Judge(verdicts ...Verdict) Decision {
	d.verdicts = append(d.verdicts[:len(d.verdicts):len(d.verdicts)], verdicts...)
	return d
}

// Reason, Children and Verdicts read the decision's parts.
func (d Decision) Reason() Reason      { return d.reason }
func (d Decision) Children() []Intent  { return d.children }
func (d Decision) Verdicts() []Verdict { return d.verdicts }

// Handler handles every kind of decision.
type Handler[R any] interface {
	Converged() R
	Do(Action) R
	Wait(Instant) R
	Fail() R
}

// Match calls the method of h that goes with d.
func Match[R any](d Decision, h Handler[R]) R {
	switch o := d.out.(type) {
	case outConverged:
		return h.Converged()
	case outDo:
		return h.Do(o.action)
	case outWait:
		return h.Wait(o.until)
	default:
		return h.Fail()
	}
}

// Name is converged, do, wait or fail.
func (d Decision) Name() string { return Match(d, nameOf{}) }

type nameOf struct{}

func (nameOf) Converged() string   { return "converged" }
func (nameOf) Do(Action) string    { return "do" }
func (nameOf) Wait(Instant) string { return "wait" }
func (nameOf) Fail() string        { return "fail" }

// Action returns the action of a Do, or nil.
func (d Decision) Action() Action {
	if o, ok := d.out.(outDo); ok {
		return o.action
	}
	return nil
}

// Op is what an Intent asks for.
type Op string

// The operations.
const (
	OpUpsert Op = "upsert" // present, with this desired state
	OpRetire Op = "retire" // absent
	OpRetry  Op = "retry"  // same desired state, attempts start afresh
	OpLimit  Op = "limit"  // lower NotAfter, nothing else; given by the framework
)

// Intent sets what is desired of a resource: by a parent for its child in a
// Decision, or by an owner for a root. An intent that changes nothing writes
// nothing.
type Intent struct {
	Op       Op
	Ref      Ref
	Desired  json.RawMessage // encoded; deterministic encoding is the caller's duty (struct fields, not maps with custom order)
	Order    int             // children retire from the highest order down, one class at a time; equal orders go together
	NotAfter Instant         // 0: the parent's
	err      error
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

// Retire is the intent that ref be gone.
func Retire(ref Ref) Intent { return Intent{Op: OpRetire, Ref: ref} }

// Retry is the intent that ref start its attempts afresh, keeping its generation.
func Retry(ref Ref) Intent { return Intent{Op: OpRetry, Ref: ref} }

// InOrder sets the order class.
func (i Intent) InOrder(order int) Intent { i.Order = order; return i }

// Until sets the absolute instant that the resource must not outlive.
func (i Intent) Until(notAfter Instant) Intent { i.NotAfter = notAfter; return i }

// Err is the encoding error of an Upsert, if any.
func (i Intent) Err() error { return i.err }

// Ruling is what a parent rules on a failed child.
type Ruling string

// The rulings.
const (
	Continue Ruling = "continue" // accept the failure; the parent is at best Degraded
	Abort    Ruling = "abort"    // retire all children, fail the parent, escalate once
)

// Verdict is a ruling on one generation of a failed child. A parent that wants
// to fail without retiring its children decides Fail and rules Continue.
type Verdict struct {
	Child      Ref
	Generation int64
	Ruling     Ruling
}
