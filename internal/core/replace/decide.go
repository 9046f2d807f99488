// Package replace decides what to do next about the containers of one
// workspace: it makes, starts, adjusts, replaces and removes them one step at a
// time, from what is on the engine alone. Which step a replacement has reached is
// read from names and labels, so that a crash after any call of the engine needs no
// memory of what was begun.
//
// A workspace's container has the engine's name N. While it is replaced, the next
// one is named N.<replica>.new and the one before N.<replica>.old. The old one is
// removed only when the new one is good.
package replace

import (
	"fmt"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// Codes of workspaces, beside spec.CodeStarting.
const (
	CodeMissing     engine.Code = "container-missing"
	CodeNotThere    engine.Code = "prerequisite-missing"
	CodeReplace     engine.Code = "replace"
	CodeReplacing   engine.Code = "replacing"
	CodeGood        engine.Code = "replacement-good"
	CodeAdjust      engine.Code = "adjust"
	CodeRenamed     engine.Code = "renamed"
	CodeNotRunning  engine.Code = "not-running"
	CodePaused      engine.Code = "paused"
	CodeRuns        engine.Code = "runs"
	CodeRestart     engine.Code = "restart-requested"
	CodeFailed                  = spec.CodeStartFailed
	CodeUnhealthy               = spec.CodeUnhealthy
	CodeRestarting              = spec.CodeRestarting
	CodeLeftover    engine.Code = "leftover"
	CodeRemoving    engine.Code = "being-removed"
	CodeNotDeclared engine.Code = "not-declared"
	CodeNameInUse   engine.Code = "name-taken"
	CodeImpossible  engine.Code = "engine-cannot"
	CodeFutile      engine.Code = "difference-stays"
	CodeReported    engine.Code = "drift-reported"
	CodeUnknownVerb engine.Code = "unknown-verb"
	CodeWritten     engine.Code = "files-written"
	CodeHook        engine.Code = "post-start"
	CodeHookFailed              = spec.CodeHookFailed
	CodeStopping                = spec.CodeStopping
	CodeStays       engine.Code = "cannot-be-removed"
)

// Times of waiting.
const (
	removalPause = clock.Second
	missingPause = 15 * clock.Second
	lookAgain    = 5 * clock.Second
	// A container that is replaced for the same differences within loopSpan of
	// being made, mostRepeats times in a row, is left alone.
	loopSpan    = 10 * clock.Minute
	mostRepeats = 2
	// A command that failed after a start is run again after this time, where
	// nothing is there to go back to.
	hookPause = clock.Minute
)

// Decide decides on the next step. It is pure and total.
func Decide(w Want, s Seen, now clock.Instant) engine.Decision {
	w.StartFirst, w.noted = w.StartFirst && w.runs(), s.Done
	st := &step{w: w, seen: s, now: now, cast: castOf(s.Containers)}
	stopping := st.stopping()
	switch {
	case w.Delete:
		return st.retire(stopping)
	case stopping != nil:
		return st.stops(stopping)
	case w.Suspended:
		return st.suspend()
	case w.Halted:
		return st.halt()
	case w.Verb != "" && w.Verb != Redeploy && w.Verb != Restart:
		return engine.Fail(engine.NewReason(CodeUnknownVerb, fmt.Sprintf("a workspace has the verbs %s and %s, not %q", Redeploy, Restart, w.Verb)))
	}
	if d, missing := st.missing(s.Missing); missing && s.Uncompared && !w.HasConverged {
		return d // the container of before is neither started nor taken for what is desired
	}
	d := st.next()
	if w.ReportOnly && w.HasConverged && d.Action() != nil {
		code := CodeReported
		if w.runs() && len(st.live()) == 0 {
			code = spec.CodeStopped // it is shown, and probed, as what it is
		}
		return engine.IsConverged(engine.NewReason(code, "left alone: "+d.Reason().Text()))
	}
	return d
}

type step struct {
	w    Want
	seen Seen
	now  clock.Instant
	cast
}

func do(a Action, code engine.Code, message string) engine.Decision {
	return engine.Do(a, engine.NewReason(code, message))
}

func (s *step) wait(d clock.Duration, code engine.Code, message string) engine.Decision {
	return engine.WaitUntil(s.now.Add(max(d, 1)).Time(), engine.NewReason(code, message))
}

// stopping is a container whose stop is under way, the one that ends last; nil if there is none.
func (s *step) stopping() (last *Container) {
	for i := range s.seen.Containers {
		if c := &s.seen.Containers[i]; c.Stopping != "" && c.live() && (last == nil || c.StopsBy > last.StopsBy) {
			last = c
		}
	}
	return last
}

// stops waits for the end of a stop, which cannot be taken back.
func (s *step) stops(c *Container) engine.Decision {
	return s.wait(max(c.StopsBy.Sub(s.now), 0)+lookAgain, CodeStopping, c.Stopping)
}

func (s *step) retire(stopping *Container) engine.Decision {
	asked := func(c *Container) bool { return c.Stopping != "" || !c.live() }
	switch {
	case stopping != nil && !slices.ContainsFunc(s.seen.Containers, func(c Container) bool { return !asked(&c) }):
		return s.stops(stopping)
	case s.seen.Stays != "" && s.seen.StaysUntil > s.now && len(s.seen.Containers) > 0:
		return s.wait(s.seen.StaysUntil.Sub(s.now), CodeStays, s.seen.Stays)
	}
	var rest []*Container
	for _, l := range [][]*Container{{s.main}, s.news, s.olds, s.strays} {
		for _, c := range l {
			if c != nil {
				rest = append(rest, c)
			}
		}
	}
	switch {
	case len(rest) > 0 && s.seen.Stays != "":
		return do(Remove{IDs: ids(rest)}, CodeStays, s.seen.Stays)
	case len(rest) > 0, s.seen.Done && len(s.seen.Containers) == 0:
		return do(Remove{IDs: ids(rest)}, CodeNotDeclared, "")
	case len(s.seen.Containers) > 0:
		return s.wait(removalPause, CodeRemoving, "")
	}
	return engine.IsConverged(engine.Reason{})
}

func (s *step) suspend() engine.Decision {
	if up := s.reviving(); len(up) > 0 {
		return do(Stop{IDs: up, Ordered: true}, CodeNotDeclared, "kept stopped: it may come back")
	}
	return engine.IsConverged(engine.NewReason(spec.CodeStopped, ""))
}

// halt stops everything of a disabled host. What never converged is not as
// declared for that: it waits until the host is enabled.
func (s *step) halt() engine.Decision {
	const message = "this host is disabled"
	if up := s.reviving(); len(up) > 0 {
		return do(Stop{IDs: up, Ordered: true}, spec.CodeStopped, message)
	}
	why := engine.NewReason(spec.CodeStopped, message)
	if s.w.HasConverged {
		return engine.IsConverged(why)
	}
	return engine.Wait(why)
}

func (s *step) live() []string { return s.all((*Container).live) }

// reviving are the containers that run, or that the engine starts by itself.
func (s *step) reviving() []string { return s.all((*Container).reviving) }

func (s *step) all(is func(*Container) bool) []string {
	var out []string
	for i := range s.seen.Containers {
		if c := &s.seen.Containers[i]; is(c) {
			out = append(out, c.ID)
		}
	}
	return out
}

func (s *step) next() engine.Decision {
	switch {
	case s.main == nil && s.seen.Foreign != "":
		return engine.Fail(engine.NewReason(CodeNameInUse, fmt.Sprintf(
			"container %s of somebody else is named %s: rename or remove it", short(s.seen.Foreign), s.w.Title)))
	case s.main == nil:
		return s.absent()
	case s.main.State == Dead:
		return do(Discard{IDs: []string{s.main.ID}}, CodeLeftover, s.dead())
	case len(s.olds) > 0:
		return s.trial()
	case len(s.news) > 0:
		return s.beside()
	}
	return s.alone()
}

// absent decides when no container has the name.
func (s *step) absent() engine.Decision {
	switch {
	case len(s.strays) > 0:
		return do(Rename{ID: s.strays[0].ID}, CodeRenamed, "it is named "+s.strays[0].Name)
	case len(s.olds) > 0 && len(s.news) > 0 && s.usable(s.news[0]):
		o, n := s.olds[0], s.news[0]
		if n.live() && s.w.StartFirst {
			return do(Promote{Old: o.ID, New: n.ID}, CodeReplacing, "")
		}
		return do(Swap{Old: o.ID, New: n.ID, Run: s.w.Run != spec.Stopped && !s.w.done(n)}, CodeReplacing, "")
	case len(s.olds) > 0:
		return do(Rename{ID: s.olds[0].ID}, CodeReplacing, "back to the one before")
	case len(s.news) > 0:
		return do(Rename{ID: s.news[0].ID}, CodeReplacing, "")
	}
	message := ""
	if s.w.HasConverged {
		message = removedOutside
	}
	if s.seen.Done && s.w.ends() {
		return engine.IsConverged(engine.NewReason(spec.CodeCompleted, "ended with exit code 0; its container was removed since"))
	}
	for i := range s.seen.Containers {
		if s.seen.Containers[i].Role == Main { // being removed
			return s.wait(removalPause, CodeRemoving, message)
		}
	}
	return s.make(Create{Run: s.w.Run != spec.Stopped}, CodeMissing, message)
}

const removedOutside = "removed by somebody other than the agent"

// dead says why a container is one that cannot be started any more. The agent itself
// removes none that is in its place and as declared.
func (s *step) dead() string {
	if s.w.HasConverged {
		return removedOutside + ", and the engine has not finished"
	}
	return "the engine did not finish removing it"
}

// usable reports whether a prepared container may take the place.
func (s *step) usable(c *Container) bool {
	cure, _ := s.w.stale(c)
	return len(cure) == 0 && c.State != Dead && (!c.Begun && !c.startFailed() || c.live() || s.w.done(c))
}

// missing waits for things that are not there; false if all are.
func (s *step) missing(things []string) (engine.Decision, bool) {
	if len(things) == 0 {
		return engine.Decision{}, false
	}
	l := slices.Clone(things)
	slices.Sort(l)
	return s.wait(missingPause, CodeNotThere, "waiting for "+strings.Join(l, ", ")), true
}

// make makes a container unless something forbids it.
func (s *step) make(c Create, code engine.Code, message string) engine.Decision {
	if len(s.seen.Refused) > 0 {
		return engine.Fail(engine.NewReason(CodeImpossible, diff.Summary(s.seen.Refused)))
	}
	if d, missing := s.missing(s.seen.Missing); missing {
		return d
	}
	c.Replica, c.Nonce = s.top+1, s.w.Nonce
	return do(c, code, message)
}

// trial decides while the one before is kept.
func (s *step) trial() engine.Decision {
	m := s.main
	v := judge(&s.w, m, true)
	cure, _ := s.w.stale(m)
	// What did not run before is not started by going back to it: it may be what failed.
	back := Restore{Bad: m.ID, Old: s.olds[0].ID, Run: s.w.runs() && !m.ReplacesIdle}
	if !s.w.StartFirst {
		var live []string
		for _, o := range s.olds {
			if o.reviving() {
				live = append(live, o.ID)
			}
		}
		if len(live) > 0 && v.cause == "" {
			return do(Stop{IDs: live, Replaced: true}, CodeReplacing, "what is replaced was started again")
		}
	}
	if len(cure) > 0 && !v.good {
		return do(back, CodeReplace, "no longer wanted: "+diff.Summary(cure))
	}
	if v.cause == "" && len(cure) == 0 {
		if d, ok := s.adjust(m); ok {
			return d
		}
	}
	switch {
	case v.good:
		return do(RemoveOld{Keep: m.ID, IDs: ids(s.olds), Run: s.w.runs() && !s.w.done(m)}, CodeGood, "")
	case v.cause != "" && s.olds[0].State == Dead:
		return do(Discard{IDs: ids(s.olds), Cause: v.cause}, v.code, v.cause)
	case v.cause != "":
		back.Cause = v.cause
		return do(back, v.code, v.cause+"; going back to the one before")
	}
	return s.pending(v)
}

// beside decides while a new container is prepared beside the one in place.
func (s *step) beside() engine.Decision {
	m, n := s.main, s.news[0]
	cure, _ := s.w.stale(m)
	if len(s.news) > 1 {
		return do(Discard{IDs: ids(s.news[1:])}, CodeLeftover, "")
	}
	discard := func(cause string) Discard { return Discard{IDs: []string{n.ID}, Cause: cause} }
	again, _ := s.w.stale(n)
	switch {
	case len(cure) == 0:
		return do(discard(""), CodeLeftover, "nothing is to be replaced")
	case len(again) > 0:
		return do(discard(""), CodeLeftover, "no longer wanted: "+diff.Summary(again))
	case n.startFailed() || n.Begun && !n.live() && !s.w.done(n) || n.State == Dead:
		cause := judge(&s.w, n, true).cause
		if s.w.runs() && !n.live() && !n.ReplacesIdle && m.State == Exited && m.Starts < 2 {
			// The way back was cut short: what ran before runs again first.
			return do(Start{ID: m.ID}, CodeFailed, cause+"; going back to the one before")
		}
		return do(discard(cause), CodeFailed, cause)
	case n.live() && !s.w.StartFirst:
		return do(discard(""), CodeLeftover, "it may not run while the old one does")
	}
	if l := s.w.of(n, diff.InPlace); len(l) > 0 {
		return do(Adjust{ID: n.ID, Fields: fields(l)}, CodeReplacing, diff.Summary(l))
	}
	if s.w.done(n) { // it ran beside the one in place, and is not to run again
		return do(Swap{Old: m.ID, New: n.ID, Live: m.live()}, CodeReplacing, diff.Summary(cure))
	}
	if !s.w.StartFirst || !m.live() {
		return do(Swap{Old: m.ID, New: n.ID, Run: s.w.Run != spec.Stopped, Live: m.live()}, CodeReplacing, diff.Summary(cure))
	}
	if n.State == Created {
		return do(Start{ID: n.ID}, CodeReplacing, diff.Summary(cure))
	}
	v := judge(&s.w, n, true)
	switch {
	case n.hookDue(false):
		return do(RunHooks{ID: n.ID}, CodeHook, "")
	case n.State == Paused:
		return do(Unpause{ID: n.ID}, CodePaused, "")
	case v.good:
		return do(Promote{Old: m.ID, New: n.ID}, CodeGood, diff.Summary(cure))
	case v.cause != "":
		return do(discard(v.cause), v.code, v.cause+"; the one before runs on")
	}
	return s.pending(v)
}

// alone decides on the one container of the workspace.
func (s *step) alone() engine.Decision {
	m := s.main
	if s.w.Snapshotting && s.w.HasConverged && (m.State == Running || m.State == Paused) {
		return engine.IsConverged(engine.NewReason(spec.CodeSnapshotting, "it is being captured for a snapshot"))
	}
	blocked := s.w.of(m, diff.Blocked)
	cure, futile := s.w.stale(m)
	if len(cure) > 0 && s.seen.Done && s.w.ends() { // it need not run again; what is there is another one's container
		if m.reviving() {
			return do(Stop{IDs: []string{m.ID}, Ordered: true}, CodeNotDeclared, "what is declared ended with exit code 0 before")
		}
		return engine.IsConverged(engine.NewReason(spec.CodeCompleted, "ended with exit code 0 before"))
	}
	if len(cure) > 0 && len(blocked) == 0 {
		if m.Repeats >= mostRepeats && m.Age < loopSpan && slices.Equal(marks(cure), m.MadeFor) {
			return engine.Fail(engine.NewReason(CodeFutile, "replaced again and again for the same: "+diff.Summary(cure)))
		}
		repeats := 1
		if slices.Equal(marks(cure), m.MadeFor) && m.Age < loopSpan {
			repeats = m.Repeats + 1
		}
		return s.make(Create{Replaces: m.ID, MadeFor: marks(cure), Repeats: repeats, Live: m.live()}, CodeReplace, diff.Summary(cure))
	}
	if d, ok := s.adjust(m); ok {
		return d
	}
	switch {
	case len(blocked) > 0:
		return engine.Fail(engine.NewReason(CodeImpossible, diff.Summary(blocked)))
	case len(futile) > 0:
		return engine.Fail(engine.NewReason(CodeFutile, "made anew and still: "+diff.Summary(futile)))
	}
	v := judge(&s.w, m, false)
	switch {
	case v.good:
		if l := s.w.outside(m); len(l) > 0 {
			return engine.IsConverged(engine.NewReason(CodeReported, "left alone: "+diff.Summary(l)))
		}
		if !m.live() {
			return s.atRest(m)
		}
		if s.seen.PreStop != "" {
			return engine.IsConverged(engine.NewReason(CodeHookFailed, s.seen.PreStop))
		}
		if l := s.seen.Written; len(l) > 0 {
			return engine.IsConverged(engine.NewReason(CodeWritten, "the container wrote in its own copy of files of the bundle, which is kept: "+strings.Join(l, ", ")))
		}
		return engine.IsConverged(engine.Reason{})
	case v.cause != "" && !s.w.HasConverged:
		return engine.Fail(engine.NewReason(v.code, v.cause))
	case v.cause != "":
		return engine.Wait(engine.NewReason(v.code, v.cause))
	}
	return s.pending(v)
}

// atRest decides on a container that is as desired and does not run. What ran to its end is noted, so that it does
// not run again when its container is gone.
func (s *step) atRest(m *Container) engine.Decision {
	switch {
	case !s.w.ends():
		return engine.IsConverged(engine.NewReason(spec.CodeStopped, ""))
	case !s.seen.Done:
		return do(Note{ID: m.ID}, spec.CodeCompleted, "")
	}
	return engine.IsConverged(engine.NewReason(spec.CodeCompleted, "ended with exit code 0"))
}

// pending waits for what is not known yet. Events tell of most of it sooner.
func (s *step) pending(v verdict) engine.Decision {
	code := spec.CodeStarting
	if v.code != "" {
		code = v.code
	}
	if v.wait <= 0 || v.wait > lookAgain {
		v.wait = lookAgain
	}
	return s.wait(v.wait, code, v.message)
}

func short(id string) string {
	if len(id) > 12 {
		return id[:12]
	}
	return id
}
