package system

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/reconcile/engine"
)

func sh(script string) []string { return []string{"/bin/sh", "-c", script} }

func TestRun(t *testing.T) {
	dir := t.TempDir()
	tests := []struct {
		name string
		argv []string
		code int
		out  string
	}{
		{"success", sh("echo hello"), 0, "hello"},
		{"exit code", sh("echo bad >&2; exit 7"), 7, "bad"},
		{"control characters", sh(`printf 'a\033[31mb\000c\nd'`), 0, "a [31mb c\nd"},
		{"no shell", []string{"/bin/echo", "$HOME;", "*"}, 0, "$HOME; *"},
		{"folder and environment", sh(`test "$PWD" = "$STEADY_ROOT" && echo $STEADY_HOST $STEADY_BUNDLE ${SECRET:-none}`), 0, "h sha256:x none"},
		{"killed by a signal", sh("kill -9 $$"), -1, ""},
		{"what goes on in the background is not waited for", sh("sleep 60 & echo $! > bg"), 0, ""},
	}
	t.Setenv("SECRET", "in the agent's environment")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o, err := Run(t.Context(), Command{Argv: tt.argv, Dir: dir, Env: Environment(dir, "h", "sha256:x")})
			if err != nil || o.ExitCode != tt.code || o.Tail != tt.out || o.TimedOut {
				t.Errorf("%+v, %v", o, err)
			}
		})
	}
	if _, err := Run(t.Context(), Command{Argv: []string{"/nonexistent"}, Dir: dir}); err == nil {
		t.Error("a command that is not there was started")
	}
	_, _ = Run(t.Context(), Command{Argv: sh("kill $(cat bg)"), Dir: dir, Env: Environment(dir, "h", "")})
}

func TestRunKeepsTheEndOfLongOutput(t *testing.T) {
	o, err := Run(t.Context(), Command{Argv: sh("i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done"), Dir: t.TempDir()})
	if err != nil || len(o.Tail) > MaxTail || !strings.HasSuffix(o.Tail, "line 1999") {
		t.Errorf("%d bytes ending in %q, %v", len(o.Tail), o.Tail[max(0, len(o.Tail)-20):], err)
	}
}

// TestTimeoutKillsTheChildren starts a grandchild that would go on for ever.
func TestTimeoutKillsTheChildren(t *testing.T) {
	dir := t.TempDir()
	var pid []byte
	// The time is doubled until there is a grandchild before it is up.
	for timeout := 50 * clock.Millisecond; len(pid) == 0; timeout *= 2 {
		o, err := Run(t.Context(), Command{
			Argv: sh("(while :; do sleep 60; done) & echo $! > new; mv new child; while :; do sleep 60; done"),
			Dir:  dir, Env: Environment(dir, "h", ""), Timeout: timeout,
		})
		if errors.Is(err, context.DeadlineExceeded) && timeout < clock.Minute {
			continue // it was up before the shell was started
		}
		if err != nil || !o.TimedOut {
			t.Fatalf("%+v, %v", o, err)
		}
		if pid, err = os.ReadFile(dir + "/child"); err != nil && (!errors.Is(err, fs.ErrNotExist) || timeout > clock.Minute) {
			t.Fatal(err)
		}
	}
	testkit.Eventually(t, "the child to end", func() bool {
		stat, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/stat")
		return err != nil || strings.Contains(string(stat), ") Z ")
	})
}

// TestStep walks a step through runs, its check and its undoing.
func TestStep(t *testing.T) {
	b := newBench(t)
	m := &execs{host: b.host}
	r := engine.Resource[SystemDesired]{Ref: engine.Ref{Kind: KindSystem, ID: "s"}, Desired: SystemDesired{Run: "one", Exec: fleet.Exec{
		Name: "s", Activate: sh("echo up >> log; touch on"), Revert: sh("echo down >> log; rm on"), Check: sh("test -e on"),
	}}}
	turn := func(want engine.Code) {
		t.Helper()
		o := testkit.Value(m.Observe(t.Context(), r))(t)
		d := decideStep(r, o)
		if d.Reason().Code != want {
			t.Fatalf("decided %s, expected %q", d.Reason(), want)
		}
		if d.Action() != nil {
			testkit.Must(t, m.Act(t.Context(), r, d.Action()))
		}
	}
	turn(CodeNotRun)
	turn("")
	testkit.Must(t, os.Remove(b.path("on")))
	turn(CodeCheckFails) // drift
	turn("")
	r.Desired.Run = "two"
	turn(CodeNotRun) // another run, although the check passes
	turn("")
	r.Delete = true
	turn(CodeUndoStep)
	turn("")
	if got := b.read("log"); got != "up\nup\nup\ndown\n" {
		t.Errorf("the commands ran as %q", got)
	}
}

// TestStepBegunIsNeverTakenAsDone fails a command: what was begun is run again,
// and undone when it is left.
func TestStepBegunIsNeverTakenAsDone(t *testing.T) {
	b := newBench(t)
	m := &execs{host: b.host}
	r := engine.Resource[SystemDesired]{Ref: engine.Ref{Kind: KindSystem, ID: "s"}, Desired: SystemDesired{Run: "one", Exec: fleet.Exec{
		Name: "s", Activate: sh("echo half >> log; exit 3"), Revert: sh("echo undone >> log"),
	}}}
	err := m.Act(t.Context(), r, Activate{Run: "one"})
	if err == nil || !strings.Contains(err.Error(), string(CodeStepFailed)) {
		t.Fatalf("error %v", err)
	}
	o, err := m.Observe(t.Context(), r)
	testkit.Must(t, err)
	if o.Done || o.Run != "one" {
		t.Errorf("observed %+v", o)
	}
	r.Delete = true
	d := decideStep(r, o)
	testkit.Must(t, m.Act(t.Context(), r, d.Action()))
	if got := b.read("log"); got != "half\nundone\n" {
		t.Errorf("the commands ran as %q", got)
	}
	// A step that another run's declaration never began has nothing to undo.
	r.Desired.Run = "two"
	testkit.Must(t, b.SetStep(t.Context(), "s", "one", true))
	o, err = m.Observe(t.Context(), r)
	testkit.Must(t, err)
	if d := decideStep(r, o); d.Action() != nil {
		t.Errorf("decided %s", d.Reason())
	}
}
