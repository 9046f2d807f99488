package engine

import "time"

// Class says what an error of Observe or Act means.
type Class uint8

// The classes.
const (
	Succeeded Class = iota // no error
	Transient              // counted and tried again
	Permanent              // no retry can cure it: the generation fails now
	Blocked                // not the resource's fault: wait, do not count
)

// Outcome is how an observe or an act ended.
type Outcome struct {
	Class    Class
	Reason   Reason
	Error    string // the error's text, for history
	Duration time.Duration
}

// AfterAct computes what to record when the act that began with the given
// snapshot's row (Phase Acting) has ended.
func AfterAct(in Input, o Outcome) Record {
	rec := newRecord(in)
	row, now := &rec.Row, in.now()
	row.state.DueBy = 0
	action := row.state.Action
	delay := Backoff(in.Policy.Retry, row.Ref, row.Generation, row.Attempts)
	row.state.RetryAt = now.add(delay)
	first := len(rec.Transitions)
	switch o.Class {
	case Succeeded:
		row.state.ActionOK = true
		rec.move(in, Verifying, NewReason(CodeActed, ""))
		rec.wakeAt(now, TriggerActed)
	case Permanent:
		row.state.Action, row.state.ActionOK = "", true // what is to be done now is still to be seen
		rec.fail(in, o.Reason, true)
		rec.wakeAt(now, TriggerActed)
	case Blocked:
		row.Attempts, row.state.RetryAt = max(0, row.Attempts-1), 0
		rec.block(in, o)
	default:
		if row.Attempts >= in.Policy.Retry.Max {
			// The last attempt may have worked although it reported an error: look once more, now.
			row.state.RetryAt = now
		}
		rec.move(in, Retrying, o.Reason)
	}
	if len(rec.Transitions) > first {
		t := &rec.Transitions[len(rec.Transitions)-1]
		t.Action, t.Error, t.Duration = action, o.Error, o.Duration
	}
	return rec.done(in)
}

// ObserveFailed computes what to record when the world could not be read.
func ObserveFailed(in Input, o Outcome) Record {
	rec := newRecord(in)
	row := &rec.Row
	t := turn{in: in, rec: &rec, d: Fail(o.Reason)}
	switch {
	case t.overdue():
	case row.state.GivenUp:
	case t.late():
	case o.Class == Permanent:
		rec.fail(in, o.Reason, true)
	case o.Class == Blocked:
		rec.block(in, o)
	default:
		row.Attempts++
		if row.Attempts >= in.Policy.Retry.Max {
			row.state.Action, row.state.ActionOK = "", false // whatever is seen next is news
			rec.fail(in, exhausted(row.Attempts, o.Reason), true)
			break
		}
		row.state.RetryAt = in.now().add(Backoff(in.Policy.Retry, row.Ref, row.Generation, row.Attempts))
		rec.move(in, Retrying, o.Reason)
	}
	if n := len(rec.Transitions); n > 0 {
		rec.Transitions[n-1].Error = o.Error
	}
	return rec.done(in)
}

// block records a wait that the reconciler asked for by an error.
func (rec *Record) block(in Input, o Outcome) {
	rec.to(in, Waiting, o.Reason)
	rec.wakeAt(in.now().add(Backoff(in.Policy.Retry, rec.Row.Ref, rec.Row.Generation, max(1, in.Policy.Retry.Max))), TriggerSchedule)
}
