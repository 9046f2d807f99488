package replace

import (
	"cmp"
	"fmt"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// adjust brings the container in place to the state that is wanted: fields that
// change in place, then whether it runs.
func (s *step) adjust(m *Container) (engine.Decision, bool) {
	if m.reviving() && s.w.Run == spec.Stopped {
		return do(Stop{IDs: []string{m.ID}, Ordered: true}, CodeRuns, "declared as stopped"), true
	}
	if m.State == Paused {
		return do(Unpause{ID: m.ID}, CodePaused, "somebody paused it"), true
	}
	if l := s.w.of(m, diff.InPlace); len(l) > 0 {
		return do(Adjust{ID: m.ID, Fields: fields(l)}, CodeAdjust, diff.Summary(l)), true
	}
	if s.w.Run == spec.Stopped {
		return engine.Decision{}, false
	}
	if s.w.Verb == Restart && s.w.Nonce != "" && m.Fulfilled != s.w.Nonce && m.Restarted != s.w.Nonce {
		return do(Start{ID: m.ID, Restart: s.w.Nonce}, CodeRestart, ""), true
	}
	if m.hookDue(s.w.HasConverged) {
		return do(RunHooks{ID: m.ID}, CodeHook, m.HookError), true
	}
	if m.live() || s.w.done(m) || s.w.spent(m) {
		return engine.Decision{}, false
	}
	if m.State == Exited && m.ExitCode == 0 && m.End == EndUnknown && s.w.ends() && m.Rested < endKnown {
		return s.wait(endKnown-m.Rested, CodeNotRunning, ended(m)), true
	}
	if d, lacking := s.missing(s.seen.MissingToStart); lacking {
		return d, true
	}
	if pause := backoff(m.Starts) - m.Rested; pause > 0 && m.State == Exited {
		return s.wait(pause, CodeRestarting, ended(m)), true
	}
	return do(Start{ID: m.ID}, CodeNotRunning, ended(m)), true
}

// endKnown is how long after an end the engine's events may take to tell how it came.
const endKnown = 3 * clock.Second

// backoff is the pause before a container that ended soon after so many starts
// in a row is started again.
func backoff(starts int) clock.Duration {
	if starts < 2 {
		return 0
	}
	return min(clock.Second<<min(starts-1, 10), 5*clock.Minute)
}

// ended says how a container that does not run came to its end.
func ended(c *Container) string {
	switch {
	case c.State == Created && !c.startFailed():
		return "never started"
	case c.State == Created:
		return fmt.Sprintf("could not be started: %s", cmp.Or(c.Error, fmt.Sprintf("exit code %d", c.ExitCode)))
	}
	message := fmt.Sprintf("ended with exit code %d", c.ExitCode)
	if c.Error != "" {
		message += ": " + c.Error
	}
	if c.Tail != "" {
		message += "; last output: " + c.Tail
	}
	return message
}

// firstSpan is how long a container without healthcheck that replaces none has to
// run.
const firstSpan = clock.Second

// verdict is what is known of a container's success. It is good, has a cause of
// failure, or is not known yet: then wait says when to look again, 0 for a
// trigger.
type verdict struct {
	good    bool
	code    engine.Code
	cause   string
	wait    clock.Duration
	message string
}

// judge tells whether a container does what is wanted of it. One that replaces
// another has to run for longer.
func judge(w *Want, c *Container, trial bool) verdict {
	failed := verdict{code: CodeFailed, cause: ended(c)}
	switch {
	case w.Run == spec.Stopped:
		return verdict{good: !c.live()}
	case w.done(c):
		return verdict{good: true}
	case c.State == Exited && c.End == EndOrdered && w.runs():
		return verdict{message: "somebody stopped it, or the engine as it ended"} // which says nothing of what it is
	case c.startFailed(), c.State == Exited, c.State == Dead:
		return failed
	case c.State == Created:
		return verdict{message: "not started"}
	case c.State == Running && c.HookPending && c.HookError != "":
		return verdict{code: CodeHookFailed, cause: c.HookError}
	case c.State == Running && c.HookPending:
		return verdict{message: "its post_start commands have not ended"}
	case w.Run == spec.Once:
		return verdict{code: spec.CodeRunsToEnd, message: "runs to its end"}
	case c.State == Restarting, c.Restarts > 0 && c.Ran < steady(w, c.Restarts):
		return restarting(w, c)
	case c.State == Paused:
		return verdict{message: "paused"}
	}
	return w.healthy(c, trial)
}

// restarting: an engine that restarts a container again and again is given a few
// tries before it is a failure.
func restarting(w *Want, c *Container) verdict {
	const tries = 3
	message := "the engine starts it again and again: " + ended(c)
	if c.State == Running {
		message = "the engine starts it again and again"
	}
	if c.Restarts >= tries {
		return verdict{code: CodeRestarting, cause: message}
	}
	return verdict{message: message, wait: max(steady(w, c.Restarts)-c.Ran, clock.Second)}
}

// steady is how long a container has to run after so many restarts.
func steady(w *Want, restarts int) clock.Duration {
	m := w.monitor()
	return min(m<<min(restarts, 10), max(m, clock.Minute))
}

func (w *Want) healthy(c *Container, trial bool) verdict {
	switch c.Health {
	case "":
		span := w.monitor()
		if !trial {
			span = min(span, firstSpan)
		}
		if rest := span - c.Ran; rest > 0 {
			return verdict{wait: rest, message: fmt.Sprintf("has to run for %s", span)}
		}
		return verdict{good: true}
	case Healthy:
		return verdict{good: true}
	}
	rest := w.healthWait() - c.Ran
	switch {
	case c.Health == Unhealthy:
		return verdict{code: CodeUnhealthy, cause: "its health check fails" + checked(c)}
	case rest <= 0 && !w.HasConverged:
		return verdict{code: CodeUnhealthy, cause: fmt.Sprintf("its health check did not pass within %s", w.healthWait()) + checked(c)}
	}
	return verdict{wait: rest, message: "its health check has not passed yet"}
}

func checked(c *Container) string {
	if c.Check == "" {
		return ""
	}
	return ": " + c.Check
}
