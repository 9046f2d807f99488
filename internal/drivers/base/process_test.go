package base

import (
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/testkit"
)

// TestProcessesThatRun: a program is found with its arguments and when it began, and not after it ended, also while
// its parent has not asked for its exit status.
func TestProcessesThatRun(t *testing.T) {
	before := time.Now()
	cmd := exec.Command("sh", "-c", "read line")
	input := testkit.Value(cmd.StdinPipe())(t) // which it waits for
	defer input.Close()
	testkit.Must(t, cmd.Start())
	mine := func() int {
		return slices.IndexFunc(Processes("sh"), func(p Process) bool { return p.PID == cmd.Process.Pid })
	}
	testkit.Eventually(t, "it runs", func() bool { return mine() >= 0 })
	p, runs := ProcessOf(cmd.Process.Pid, "sh")
	if !runs || !slices.Equal(p.Args, []string{"sh", "-c", "read line"}) || p.Began.Before(before) {
		t.Errorf("it is %+v, begun after %s", p, before)
	}
	testkit.Must(t, cmd.Process.Kill())
	testkit.Eventually(t, "it ended", func() bool { return mine() < 0 })
	if err := cmd.Wait(); err == nil {
		t.Error("it ended by itself")
	}
}
