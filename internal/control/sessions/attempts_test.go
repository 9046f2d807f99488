package sessions

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/session"
	"github.com/steadyfleet/steady/internal/release/sessionfile"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// TestAttemptsOfAPhase: a phase is attempted 1 + retries times, whatever ends an attempt; without retries a job that
// fails is attempted as often as the server is set to, and an event that does not come fails the phase.
func TestAttemptsOfAPhase(t *testing.T) {
	const accepted, busy, refused = 202, 503, 400
	for _, tc := range []struct {
		name    string
		retries *int
		server  int // its attempts, 0 for the default
		answers []int
		await   bool
		calls   int
		why     string
	}{
		{"a job that fails, without retries", nil, 0, []int{busy}, false, 5, "gave up after 5 attempts: http://lms.example/x answered"},
		{"as the server is set to", nil, 2, []int{busy}, true, 2, "gave up after 2 attempts"},
		{"more than a file may have", nil, 20, []int{busy}, false, 20, "gave up after 20 attempts"},
		{"retries before the server's setting", new(3), 2, []int{busy}, false, 4, "gave up after 4 attempts"},
		{"no retries", new(0), 0, []int{busy}, true, 1, "gave up after 1 attempt: "},
		{"one retry", new(1), 0, []int{busy}, false, 2, "gave up after 2 attempts"},
		{"the most retries", new(10), 0, []int{busy}, false, 11, "gave up after 11 attempts"},
		{"a refusal ends it", new(3), 0, []int{busy, refused}, false, 2, `answered `},
		{"an event that does not come, without retries", nil, 0, []int{accepted}, true, 1, "no event done came within 1m"},
		{"after a failure too", nil, 0, []int{busy, accepted}, true, 2, "gave up after 2 attempts: no event done came within 1m"},
		{"an event that does not come", new(2), 0, []int{accepted}, true, 3, "gave up after 3 attempts: no event done"},
		{"both count", new(3), 0, []int{busy, accepted, busy, accepted}, true, 4, "gave up after 4 attempts: no event done came within 1m"},
		{"both, and the job last", new(3), 0, []int{accepted, busy}, true, 4, "gave up after 4 attempts"},
		{"done at the last attempt", new(2), 0, []int{busy, busy, accepted}, false, 3, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, []string{"a"}, func(w *world) {
				calls := 0
				w.client = &http.Client{Transport: transport(func(*http.Request) int {
					w.mu.Lock()
					defer w.mu.Unlock()
					calls++
					return tc.answers[min(calls, len(tc.answers))-1]
				})}
				w.retry = reconcile.RetryPolicy{Max: tc.server}
				w.restart()
				ph := session.Phase{Name: "x", Call: &session.Call{URL: "http://lms.example/x"}, Retries: tc.retries}
				if tc.await {
					ph.Await, ph.Timeout = "done", clock.Minute
				}
				create(w, "lab", session.Spec{Timeslot: slot(), Calls: []string{"lms.example"}, Parts: []session.Part{{Name: "p", OnFailure: engine.Continue, Phases: []session.Phase{ph}}}})
				pass(40 * time.Minute)
				w.restart() // and no start makes another attempt
				pass(5 * time.Minute)
				w.mu.Lock()
				made := calls
				w.mu.Unlock()
				j := w.status("lab").Parts[0].Phases[0]
				want := session.PhaseFailed
				if tc.why == "" {
					want = session.PhaseOver
				}
				if made != tc.calls || j.State != want || !strings.Contains(j.Reason, tc.why) {
					t.Fatalf("%d calls, want %d; %s: %q, want %q\n%s", made, tc.calls, j.State, j.Reason, tc.why, w.story("lab"))
				}
			})
		})
	}
}

// TestAttemptsOfACommand: so is a command, and the phase shows which attempt it is in.
func TestAttemptsOfACommand(t *testing.T) {
	inBubble(t, []string{"a"}, func(w *world) {
		w.exec = errors.New("exit code 7")
		f, problems := sessionfile.Read("lab.yaml", []byte(`name: lab
timeslot: {end: in 2h}
parts:
- name: p
  onFailure: continue
  pods: [{name: p, compose: {services: {shell: {image: "box:1"}}}}]
  phases: [{name: x, retries: 2, command: {pod: p, service: shell, run: [check]}}]
`), time.Now())
		if f == nil {
			t.Fatal(problems)
		}
		create(w, "lab", f.Spec)
		var seen []string
		for range 20 * 60 {
			pass(time.Second)
			if j := w.status("lab").Parts[0].Phases[0]; j.State == session.PhaseRunning {
				if at := fmt.Sprintf("%d failed of %d", j.Attempts, j.Most); len(seen) == 0 || seen[len(seen)-1] != at {
					seen = append(seen, at)
				}
			}
		}
		j := w.status("lab").Parts[0].Phases[0]
		ran := func() int {
			w.mu.Lock()
			defer w.mu.Unlock()
			return len(w.ran)
		}
		if j.State != session.PhaseFailed || j.Reason != "gave up after 3 attempts: exit code 7" || ran() != 3 {
			t.Fatalf("%+v after %d runs\n%s", j, ran(), w.story("lab"))
		}
		if len(seen) == 0 || seen[len(seen)-1] != "2 failed of 3" {
			t.Errorf("it was shown as %q", seen)
		}
		w.check(w.runner.RetryPhase(w.ctx, "lab", "p/x", "1", "ann"))
		pass(5 * time.Minute)
		if ran() != 6 {
			t.Errorf("begun anew, it ran %d times in all; want 6", ran())
		}
	})
}

// TestAHostThatIsAwayIsNoAttempt: a command waits for its host, and fails as often as before once that is back.
func TestAHostThatIsAwayIsNoAttempt(t *testing.T) {
	for _, fails := range []bool{false, true} {
		inBubble(t, []string{"a"}, func(w *world) {
			f, problems := sessionfile.Read("lab.yaml", []byte(`name: lab
timeslot: {end: in 5h}
parts:
- name: p
  onFailure: continue
  pods: [{name: p, compose: {services: {shell: {image: "box:1"}}}}]
  phases: [{name: wait, await: go, timeout: 1h}, {name: x, retries: 1, command: {pod: p, service: shell, run: [check]}}]
`), time.Now())
			if f == nil {
				t.Fatal(problems)
			}
			create(w, "lab", f.Spec)
			pass(5 * time.Minute)
			w.online("a", false)
			w.check(w.runner.Receive(w.ctx, "lab", "p/wait", engine.Event{Source: "x", ID: "1", Type: "go"}))
			pass(5 * time.Minute)
			if j := w.status("lab").Parts[0].Phases[1]; j.State != session.PhaseRunning || j.Reason != "host a is offline" || j.Attempts != 0 {
				t.Fatalf("%+v\n%s", j, w.story("lab"))
			}
			if fails {
				w.mu.Lock()
				w.exec = errors.New("exit code 7")
				w.mu.Unlock()
			}
			w.online("a", true)
			pass(5 * time.Minute)
			w.mu.Lock()
			ran := len(w.ran)
			w.mu.Unlock()
			state, runs := session.PhaseOver, 1
			if fails {
				state, runs = session.PhaseFailed, 2
			}
			if j := w.status("lab").Parts[0].Phases[1]; j.State != state || ran != runs {
				t.Errorf("%d runs, want %d: %+v\n%s", ran, runs, j, w.story("lab"))
			}
		})
	}
}
