package session

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/steadyfleet/steady/reconcile/engine"
)

// Where a phase stands.
const (
	PhasePending = "pending"
	PhaseRunning = "running"
	PhaseFailed  = "failed"
	PhaseOver    = "over"
	PhaseGone    = "deleted" // with its part, before it was over
)

func phaseState(c *engine.Child) string {
	switch {
	case c == nil:
		return PhasePending
	case c.Phase == engine.Converged:
		return PhaseOver
	case c.Phase == engine.Deleted:
		return PhaseGone
	case c.Phase == engine.Failed:
		return PhaseFailed
	}
	return PhaseRunning
}

// PhaseReport is what a phase tells its part: the data of the event that ended it.
type PhaseReport struct {
	Event  string          `json:"event,omitempty"` // its id
	Result json.RawMessage `json:"result,omitempty"`
}

// AcceptedEvent is the type of the event by which the server notes, in the inbox of a phase, that
// its call was accepted. Nobody outside may send it.
const AcceptedEvent = "steady.job.accepted"

// RetryEvent is the type of the event by which an operator has a phase begin anew.
const RetryEvent = "steady.phase.retry"

// MakeCall makes the call of a phase. Try counts from 0; the receiver can tell a repeated one by
// its key.
type MakeCall struct {
	Call Call   `json:"call"`
	Try  int    `json:"try"`
	Key  string `json:"key"`
}

// RunCommand runs the command of a phase, which may have run before.
type RunCommand struct {
	Command Command    `json:"command"`
	Pod     engine.Ref `json:"pod"`
	Try     int        `json:"try"`
	Key     string     `json:"key"`
}

// ActionName implements engine.Action.
func (MakeCall) ActionName() string { return "call" }

// ActionName implements engine.Action.
func (RunCommand) ActionName() string { return "run-command" }

// maxResult bounds the data of an event that goes into a report.
const maxResult = 8 << 10

// DecidePhase is the decision on a phase, by the events in its inbox: a call until it is accepted,
// then the wait for the event that ends it, for each try.
func DecidePhase(v engine.View[Phase, NeedsNothing]) engine.Decision {
	ph := &v.Resource.Desired
	if v.Resource.Delete {
		if r := ended(ph, v.Events); r != nil {
			return gone(v.Events).WithReport(*r) // for those who look later
		}
		return gone(v.Events)
	}
	if r := ended(ph, v.Events); r != nil {
		return engine.IsConverged(engine.NewReason(codeOver, endedBy(r.Event))).WithReport(*r)
	}
	var began time.Time
	calls, tries := 0, 0 // ever, and since it was asked to begin anew
	for i := range v.Events {
		e := &v.Events[i]
		switch {
		case e.Type == RetryEvent:
			tries = 0
		case e.Type == AcceptedEvent:
			began, calls, tries = e.At, calls+1, tries+1
		}
	}
	switch {
	case tries == 0:
		return engine.Do(jobOf(&v.Resource, calls), engine.NewReason(codeCall, "its job has not been asked for")).WithReport(nil)
	case ph.Await == "":
		return engine.IsConverged(engine.NewReason(codeOver, "its job was accepted"))
	}
	until := began.Add(ph.Timeout.Std())
	if v.Now.Before(until) {
		return engine.WaitUntil(until, engine.NewReason(codeAwaits, "it awaits an event "+ph.Await))
	}
	if tries > ph.Retries {
		return engine.Fail(engine.NewReason(codeTimeout, fmt.Sprintf("no event %s within %s of %d calls", ph.Await, ph.Timeout, tries)))
	}
	return engine.Do(jobOf(&v.Resource, calls), engine.NewReason(codeTimeout, "no event came in time"))
}

// ended is what the event that ended a phase says, since it was asked to begin anew; nil if none came.
func ended(ph *Phase, events []engine.Event) (r *PhaseReport) {
	for i := range events {
		switch e := &events[i]; {
		case e.Type == RetryEvent:
			r = nil
		case ph.Await != "" && e.Type == ph.Await && r == nil:
			r = &PhaseReport{Event: e.ID}
			if len(e.Data) <= maxResult {
				r.Result = e.Data
			}
		}
	}
	return r
}

func endedBy(event string) string { return "ended by event " + event }

// jobOf asks for the job of a phase. One without a job is noted to have begun all the same.
func jobOf(r *engine.Resource[Phase], try int) engine.Action {
	ph, key := &r.Desired, fmt.Sprintf("%s#%d.%d", r.Ref.ID, r.Generation, try)
	switch {
	case ph.Command != nil:
		part := r.Ref.ID[:strings.LastIndexByte(r.Ref.ID, '/')]
		return RunCommand{*ph.Command, engine.Ref{Kind: KindPod, ID: part + "/" + ph.Command.Pod}, try, key}
	case ph.Call != nil:
		return MakeCall{*ph.Call, try, key}
	}
	return MakeCall{Call{}, try, key}
}
