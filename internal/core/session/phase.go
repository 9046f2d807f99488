package session

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/steadyfleet/steady/internal/core/prose"
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

// PhaseReport is what a phase tells its part: how often it was attempted, and the data of the event that ended it.
type PhaseReport struct {
	Event  string          `json:"event,omitempty"` // its id
	Result json.RawMessage `json:"result,omitempty"`
	// Missed counts the attempts whose event did not come, and Most is how many attempts there are at most.
	Missed int `json:"missed,omitempty"`
	Most   int `json:"most,omitempty"`
}

// AcceptedEvent is the type of the event by which the server notes, in the inbox of a phase, that
// its call was accepted. Nobody outside may send it.
const AcceptedEvent = "steady.job.accepted"

// RetryEvent is the type of the event by which an operator has a phase begin anew.
const RetryEvent = "steady.phase.retry"

// Attempt is which attempt of its phase an action belongs to.
type Attempt struct {
	Try int    `json:"try"` // counts the jobs that were accepted before
	Key string `json:"key"` // by which the receiver can tell a repeated one
	N   int    `json:"attempt,omitempty"`
	// Last is set where no attempt follows when this one fails.
	Last bool `json:"last,omitempty"`
}

// MakeCall makes the call of a phase.
type MakeCall struct {
	Call Call `json:"call"`
	Attempt
}

// RunCommand runs the command of a phase, which may have run before.
type RunCommand struct {
	Command Command    `json:"command"`
	Pod     engine.Ref `json:"pod"`
	Attempt
}

// ActionName implements engine.Action.
func (MakeCall) ActionName() string { return "call" }

// ActionName implements engine.Action.
func (RunCommand) ActionName() string { return "run-command" }

// maxResult bounds the data of an event that goes into a report.
const maxResult = 8 << 10

// DefaultAttempts is how often a phase is attempted whose job fails, where neither its file nor the server has a number.
const DefaultAttempts = 5

// attempts is how often the phase is attempted at most. Again reports whether an event that does not come ends an
// attempt and not the phase: what was accepted is asked for again only where the file has retries.
func (ph *Phase) attempts() (most int, again bool) {
	if ph.Retries != nil {
		return 1 + *ph.Retries, true
	}
	return cmp.Or(ph.Attempts, DefaultAttempts), false
}

// SetAttempts sets what only the server sets in a session that is asked for: n attempts of phases without retries.
func (s *Spec) SetAttempts(n int) {
	for i := range s.Parts {
		s.Parts[i].Late = false
		for k := range s.Parts[i].Phases {
			s.Parts[i].Phases[k].Attempts = n
		}
	}
}

// tries are the attempts of a phase since it was asked to begin anew.
type tries struct {
	calls    int       // that were accepted ever
	accepted int       // jobs
	failed   int       // jobs, or whose end is unknown
	began    time.Time // the wait for the event of the last job that was accepted
}

func (t *tries) used() int { return t.accepted + t.failed }

func triesOf(s engine.Status, events []engine.Event) (t tries) {
	for i := range events {
		switch e := &events[i]; e.Type {
		case RetryEvent:
			t.accepted = 0
		case AcceptedEvent:
			t.began, t.calls, t.accepted = e.At, t.calls+1, t.accepted+1
		}
	}
	t.failed = failedJobs(s)
	return t
}

// failedJobs counts the jobs of a phase that failed, or whose end is unknown: its row counts the one that is under
// way, or was accepted, too.
func failedJobs(s engine.Status) int {
	if s.Phase == engine.Retrying || s.Phase == engine.Waiting && s.Reason.Code == CodeAway {
		return s.Attempts
	}
	return max(0, s.Attempts-1)
}

// DecidePhase is the decision on a phase, by the events in its inbox. An attempt is its job, until that is accepted,
// and then the wait for the event that ends it; one whose job fails or whose event does not come is followed by
// another one, as far as the phase has more.
func DecidePhase(v engine.View[Phase, NeedsNothing]) engine.Decision {
	ph := &v.Resource.Desired
	r := ended(ph, v.Events)
	switch {
	case v.Resource.Delete && r == nil:
		return gone(v.Resource.Status, v.Events)
	case v.Resource.Delete:
		return gone(v.Resource.Status, v.Events).WithReport(*r) // for those who look later
	case r != nil:
		return engine.IsConverged(engine.NewReason(codeOver, endedBy(r.Event))).WithReport(*r)
	case v.Resource.Status.Phase == engine.Failed: // until it is asked to begin anew
		return engine.Fail(v.Resource.Status.Reason)
	}
	t := triesOf(v.Resource.Status, v.Events)
	most, again := ph.attempts()
	if t.accepted == 0 {
		return ph.attempt(&v.Resource, &t, most)
	}
	if ph.Await == "" {
		return engine.IsConverged(engine.NewReason(codeOver, "its job was accepted"))
	}
	if until := t.began.Add(ph.Timeout.Std()); v.Now.Before(until) {
		if !again {
			most = t.used()
		}
		return engine.WaitUntil(until, engine.NewReason(codeAwaits, "it awaits an event "+ph.Await)).WithReport(PhaseReport{Missed: t.accepted - 1, Most: most})
	}
	if !again || t.used() >= most {
		why := fmt.Sprintf("no event %s came within %s", ph.Await, ph.Timeout)
		if n := t.used(); n > 1 {
			why = Exhausted(n, why)
		}
		return engine.Fail(engine.NewReason(codeTimeout, why))
	}
	return ph.attempt(&v.Resource, &t, most)
}

// attempt decides on the job of the next attempt.
func (ph *Phase) attempt(r *engine.Resource[Phase], t *tries, most int) engine.Decision {
	n := t.used() + 1
	if n > most { // the end of the last one is unknown
		return engine.Fail(engine.NewReason(engine.CodeExhausted, Exhausted(most, r.Status.Reason.Text())))
	}
	why := fmt.Sprintf("its job is asked for: attempt %d of %d", n, most)
	code := codeCall
	if ph.Call == nil && ph.Command == nil {
		why = fmt.Sprintf("it begins: attempt %d of %d", n, most)
	}
	if t.accepted > 0 {
		code, why = codeTimeout, fmt.Sprintf("no event %s came within %s; %s", ph.Await, ph.Timeout, why)
	}
	a := Attempt{Try: t.calls, Key: fmt.Sprintf("%s#%d.%d", r.Ref.ID, r.Generation, t.calls), N: n, Last: n == most}
	return engine.Do(jobOf(r, a), engine.NewReason(code, why)).WithReport(PhaseReport{Missed: t.accepted, Most: most})
}

// Exhausted is why a phase failed whose last attempt did.
func Exhausted(attempts int, last string) string {
	return "gave up after " + prose.Count(attempts, "attempt") + ": " + last
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
func jobOf(r *engine.Resource[Phase], a Attempt) engine.Action {
	ph := &r.Desired
	switch {
	case ph.Command != nil:
		part := r.Ref.ID[:strings.LastIndexByte(r.Ref.ID, '/')]
		return RunCommand{*ph.Command, engine.Ref{Kind: KindPod, ID: part + "/" + ph.Command.Pod}, a}
	case ph.Call != nil:
		return MakeCall{*ph.Call, a}
	}
	return MakeCall{Call{}, a}
}
