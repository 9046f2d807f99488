package sessions

import (
	"strings"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/session"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// TestVerbsInEachState: each verb on a session does what it is for, or is refused with the reason.
func TestVerbsInEachState(t *testing.T) {
	verbs := []struct {
		name string
		do   func(w *world) error
	}{
		{"start", func(w *world) error { return w.runner.Start(w.ctx, "lab", "bob") }},
		{"cancel", func(w *world) error { return w.runner.Cancel(w.ctx, "lab", "bob") }},
		{"extend", func(w *world) error {
			return w.runner.Extend(w.ctx, "lab", w.status("lab").Timeslot.End.Add(time.Minute), "bob")
		}},
		{"stop", func(w *world) error { return w.runner.Stop(w.ctx, "lab", "bob") }},
		{"stop p", func(w *world) error { return w.runner.SetPart(w.ctx, "lab", "p", true, "bob") }},
		{"start p", func(w *world) error { return w.runner.SetPart(w.ctx, "lab", "p", false, "bob") }},
		{"stop none", func(w *world) error { return w.runner.SetPart(w.ctx, "lab", "none", true, "bob") }},
		{"retry-phase", func(w *world) error { return w.runner.RetryPhase(w.ctx, "lab", "p/x", "1", "bob") }},
		{"reconcile", func(w *world) error { return w.runner.Reconcile(w.ctx, "lab", "bob") }},
	}
	began := "its timeslot began at"
	for _, tc := range []struct {
		state session.State
		reach func(w *world)
		want  []string // of each verb, why it is refused
	}{
		{session.Pending, func(w *world) {
			ask(w, func(s *session.Spec) { s.Parts[0].Pods[0].Resources.MilliCPU = 1 << 20 })
			pass(2 * time.Minute)
		},
			[]string{began, began, "", "", "", "it is started already", "no part none", "no phase p/x that has begun", ""}},
		{session.Scheduled, func(w *world) { ask(w, func(s *session.Spec) { later(s, time.Hour) }) },
			[]string{"", "", "", "", "", "it is started already", "no part none", "no phase p/x that has begun", ""}},
		{session.Running, func(w *world) { ask(w, nil); pass(20 * time.Minute) },
			[]string{began, began, "", "", "", "it is started already", "no part none", "", ""}},
		{session.Degraded, func(w *world) {
			ask(w, func(s *session.Spec) { s.Parts[0].Phases[0].Timeout = clock.FromStd(time.Minute) })
			pass(20 * time.Minute)
		}, []string{began, began, "", "", "", "it is started already", "no part none", "its part is stopped or failed", ""}},
		{session.Failed, func(w *world) {
			ask(w, func(s *session.Spec) {
				s.OnFailure, s.Parts[0].Phases[0].Timeout = engine.Abort, clock.FromStd(time.Minute)
			})
			pass(20 * time.Minute)
		}, []string{began, began, "", "", "", "it is started already", "no part none", "its part is stopped or failed", ""}},
		{session.Stopping, func(w *world) {
			ask(w, nil)
			pass(20 * time.Minute)
			w.online("a", false)
			w.check(w.runner.Stop(w.ctx, "lab", "eve"))
			pass(time.Minute)
		}, []string{"is over: stopped by eve", "is over: stopped by eve", "is over: stopped by eve", "", "is over", "is over", "is over", "is over", ""}},
		{session.Retired, func(w *world) { ask(w, nil); pass(3 * time.Hour) },
			[]string{"is over: its time ended", "is over", "is over", "is over: its time ended", "is over", "is over", "is over", "is over", ""}},
	} {
		for i, v := range verbs {
			t.Run(string(tc.state)+" "+v.name, func(t *testing.T) {
				inBubble(t, []string{"a"}, func(w *world) {
					tc.reach(w)
					pass(time.Second)
					w.want("lab", tc.state)
					err := v.do(w)
					switch {
					case tc.want[i] == "" && err != nil:
						t.Errorf("refused: %v", textOf(err))
					case tc.want[i] != "" && (err == nil || !strings.Contains(textOf(err), tc.want[i])):
						t.Errorf("%v, want %q", err, tc.want[i])
					}
				})
			})
		}
	}
}

// ask asks for a session with a pod and a phase that awaits an event.
func ask(w *world, edit func(*session.Spec)) {
	s := session.Spec{Timeslot: slot(), Parts: []session.Part{{Name: "p", Pods: []session.Pod{pod("a", 0)},
		Phases: []session.Phase{{Name: "x", Await: "done", Timeout: clock.FromStd(24 * time.Hour)}}}}}
	if edit != nil {
		edit(&s)
	}
	create(w, "lab", s)
}

// TestAPartThatFailedComesUpAgain: the way that a refused retry-phase names is one, also where the session failed.
func TestAPartThatFailedComesUpAgain(t *testing.T) {
	for _, onFailure := range []engine.FailureAction{engine.Continue, engine.Abort} {
		inBubble(t, []string{"a"}, func(w *world) {
			ask(w, func(s *session.Spec) {
				s.OnFailure, s.Parts[0].Phases[0].Timeout = onFailure, clock.FromStd(2*time.Minute)
			})
			pass(20 * time.Minute)
			w.check(w.runner.SetPart(w.ctx, "lab", "p", true, "bob"))
			pass(time.Minute)
			w.check(w.runner.SetPart(w.ctx, "lab", "p", false, "bob"))
			pass(time.Minute)
			w.want("lab", session.Running)
			if j := w.status("lab").Parts[0].Phases[0]; j.State != session.PhaseRunning {
				t.Errorf("%s: %+v\n%s", onFailure, j, w.story("lab"))
			}
		})
	}
}
