package workspace_test

import (
	"strings"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/replace"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/workspace"
)

// TestFailedHealthCheckIsTold: a health check that fails is told with its command,
// exit code and last output, without secrets and control characters; the words stay
// while it goes on to fail, whatever it prints; and they come with a rollback.
func TestFailedHealthCheckIsTold(t *testing.T) {
	w := newWorld(t)
	w.store.secrets["key"] = "hush-hush-hush"
	w.want(func(d *workspace.Desired) {
		d.Spec.Workspace.Env = append(d.Spec.Workspace.Env, spec.Env{Name: "KEY", Secret: "key"})
	})
	w.converge("create")
	w.want(func(d *workspace.Desired) {
		d.Spec.Workspace.Health = &spec.Health{Interval: 200, Timeout: clock.Minute, Retries: 1,
			Test: []string{"CMD-SHELL", `echo first; printf 'no \033[31mdatabase with %s' "$KEY"; echo ""; exit 7`}}
	})
	got := w.settle()
	if got.err == nil {
		t.Fatalf("%+v", got)
	}
	for _, part := range []string{"was not good", "its health check fails", "`echo first; printf", "exit code 7", "its output: first | no ", "database with [secret key]", "; it was removed"} {
		if !strings.Contains(got.err.Error(), part) {
			t.Errorf("it does not say %q: %v", part, got.err)
		}
	}
	if strings.Contains(got.err.Error(), "hush") || strings.ContainsRune(got.err.Error(), '\033') {
		t.Errorf("told as it is: %q", got.err)
	}
}

// TestFailedHealthCheckStaysTold: the words of a check that goes on to fail stay,
// whatever it prints each time: they are one reason, and one report.
func TestFailedHealthCheckStaysTold(t *testing.T) {
	w := newWorld(t)
	w.want(func(d *workspace.Desired) {
		d.Spec.Workspace.Health = &spec.Health{Interval: 200, Timeout: clock.Minute, Retries: 1, Test: []string{"CMD-SHELL", "cat /proc/sys/kernel/random/uuid; exit 1"}}
	})
	got := w.settle()
	if got.name != "fail" || got.reason.Code != replace.CodeUnhealthy || !strings.Contains(got.reason.Message, "its output: ") {
		t.Fatalf("%+v", got)
	}
	output := func() string {
		l := w.box("web").State.Health.Log
		return l[len(l)-1].Output
	}
	before, tick := output(), time.NewTicker(50*time.Millisecond)
	defer tick.Stop()
	for range 1200 { // a minute
		if output() != before {
			break
		}
		<-tick.C
	}
	if again := w.settle(); again.reason != got.reason {
		t.Errorf("%s became %s", got.reason, again.reason)
	}
}
