package engine

import (
	"fmt"
	"strconv"
	"time"
)

func newRecord(in Input) Record {
	return Record{Expect: in.Snap.Row.Revision, Row: in.Snap.Row, Now: in.now().time()}
}

// move writes a transition, also when the phase stays.
func (rec *Record) move(in Input, to Phase, why Reason) *Transition {
	return rec.note(in, rec.Row.move(to, why, in.now()))
}

// to writes a transition only if phase or reason change.
func (rec *Record) to(in Input, to Phase, why Reason) {
	if rec.Row.Phase != to || rec.Row.Reason != why {
		rec.move(in, to, why)
	}
}

// note keeps a transition and raises a trigger for the parent if it matters there.
func (rec *Record) note(in Input, t Transition) *Transition {
	t.Causes, t.CauseCount = in.Causes.List(), in.Causes.Count()
	rec.Write = true
	rec.Transitions = append(rec.Transitions, t)
	if p := rec.Row.Parent; !p.IsZero() && class(t.From) != class(t.To) {
		rec.raise(p, TriggerChild, t)
	}
	return &rec.Transitions[len(rec.Transitions)-1]
}

func (rec *Record) raise(to Ref, trigger Trigger, t Transition) {
	id := t.Ref.String() + "#" + itoa(t.N)
	rec.Raises = append(rec.Raises, Raise{Ref: to, Cause: Cause{Trigger: trigger, ID: id}})
}

// intend keeps an intent for a child, whose row is cur (nil if there is none), if it would
// change anything, and raises the child's trigger.
func (rec *Record) intend(in Input, cur *Row, i Intent) error {
	_, ch, err := ApplyIntent(cur, &rec.Row, i, in.Now, Cause{})
	if err != nil || !ch.Changed {
		return err
	}
	rec.Write = true
	rec.Intents = append(rec.Intents, i)
	rec.Raises = append(rec.Raises, Raise{Ref: i.Ref, Cause: Cause{TriggerParent, rec.Row.Ref.String()}})
	return nil
}

// fail marks the row failed; giveUp forbids further acts in this generation. It
// escalates unless this generation has escalated before.
func (rec *Record) fail(in Input, why Reason, giveUp bool) {
	if rec.Row.Phase == Failed && rec.Row.Reason == why && rec.Row.state.GivenUp == (giveUp || rec.Row.state.GivenUp) {
		return
	}
	news := giveUp && !rec.Row.state.GivenUp
	if news {
		rec.Row.state.GivenUp, rec.Row.state.FailedAt = true, in.now()
	}
	t := rec.move(in, Failed, why)
	if news {
		rec.Row.state.RetryAt = dues{row: &rec.Row, policy: in.Policy, now: in.now()}.reviveAt()
	}
	if rec.Row.state.EscalatedGen != rec.Row.Generation {
		rec.Row.state.EscalatedGen = rec.Row.Generation
		t.Escalated = true
		t.Alert = rec.Row.Parent.IsZero()
	}
}

// exhausted gives up, and says what the last attempt met.
func exhausted(attempts int, last Reason) Reason {
	return NewReason(CodeExhausted, fmt.Sprintf("gave up after %d attempts: %s", attempts, last.Text()))
}

// orphan ends a deletion that did not succeed in time.
func (rec *Record) orphan(in Input, last Reason) {
	words := "not removed in time"
	if last.Code != "" {
		words += ": " + last.Text()
	}
	rec.Row.state.DueBy, rec.Row.state.RetryAt = 0, 0
	t := rec.move(in, Orphaned, NewReason(CodeCleanupDeadline, words))
	t.Alert = true
}

// done settles revision, acknowledgement and the next wake.
func (rec *Record) done(in Input) Record {
	if rec.Write {
		rec.Row.Revision = rec.Expect + 1
	}
	rec.AckTrigger = in.Snap.TriggerN
	rec.NoHistory = in.Policy.History.Keep < 0
	rec.wakeAtDeadlines(in)
	return *rec
}

func (rec *Record) wakeAt(t instant, why Trigger) {
	switch {
	case t == 0:
	case why == TriggerDeadline:
		rec.Deadline = earliest(toInstant(rec.Deadline), t).time()
	case rec.Why == 0 || t < toInstant(rec.Wake):
		rec.Wake, rec.Why = t.time(), why
	}
}

// again has the next turn be at until, or at once where that has passed. A reconciler that asks for
// such a time in one turn after the other gets a pause that doubles, from a millisecond to the
// longest one between attempts: it would keep a worker busy for nothing.
func (rec *Record) again(in Input, until time.Time) {
	at, now := toInstant(until), in.now()
	if at == 0 {
		return
	}
	if at <= now {
		rec.Passed = true
		pause := min(time.Millisecond<<min(in.Passed, 40), in.Policy.Retry.Cap)
		at = max(at, now.add(max(pause, time.Millisecond)))
	}
	if at.time().Before(until) { // rows keep whole milliseconds
		at++
	}
	rec.wakeAt(at, TriggerSchedule)
}

// passedReason is the reason of a wait for a time that has passed, once it is no accident of one
// turn.
func passedReason(in Input, until time.Time, why Reason) Reason {
	if in.Passed < PassedOften || until.IsZero() || toInstant(until) > in.now() {
		return why
	}
	return NewReason(CodeTimePassed, "it waits for a time that has passed: "+why.Text())
}

// PassedOften is after how many turns in a row a time that has passed is given as the reason.
const PassedOften = 3

func (rec *Record) wakeAtDeadlines(in Input) {
	row := &rec.Row
	if row.Phase.Terminal() {
		rec.Wake, rec.Why, rec.Deadline, rec.Passed = time.Time{}, 0, time.Time{}, false
		return
	}
	after := dues{row, in.Snap.Parent, in.Policy, in.now()}
	if row.Delete {
		if by := after.deleteBy(); !by.reached(in.now()) {
			rec.wakeAt(by, TriggerDeadline)
		}
	} else {
		rec.wakeAt(after.expiresAt(), TriggerDeadline)
		if by := after.convergeBy(); by > in.now() {
			rec.wakeAt(by, TriggerDeadline)
		}
	}
	if row.Phase == Retrying && !row.state.GivenUp && !row.state.Aborted {
		rec.wakeAt(max(in.retryAt(row), in.now()), TriggerRetry)
	}
	rec.wakeAt(after.reviveAt(), TriggerRetry)
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
