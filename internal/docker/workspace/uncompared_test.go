package workspace_test

import (
	"testing"

	"github.com/steadyfleet/steady/internal/core/replace"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/workspace"
)

// TestWhatCannotBeCompared: while something is missing without which nobody knows how a container is to be, the one of
// before is not as desired, and is not started where it does not run.
func TestWhatCannotBeCompared(t *testing.T) {
	next := func(d *workspace.Desired) {
		d.Suspended = false
		d.Spec.Workspace.Command = sleeper("v2")
		d.Spec.Workspace.Env = []spec.Env{{Name: "KEY", Secret: "key"}}
	}
	for _, stopped := range []bool{false, true} {
		w := newWorld(t)
		w.converge("create")
		if stopped {
			w.want(func(d *workspace.Desired) { d.Suspended = true })
			w.converge("stop")
		}
		w.want(next)
		got := w.settle()
		if got.name != "wait" || got.reason.Code != replace.CodeNotThere || len(got.acts) > 0 {
			t.Errorf("stopped %v: without the secret: %s %s after %v", stopped, got.name, got.reason, got.acts)
		}
		w.store.secrets["key"] = "x"
		w.converge()
		if got := w.run("sh", "-c", "echo $KEY"); got != "x\n" {
			t.Errorf("it has %q", got)
		}
	}
}
