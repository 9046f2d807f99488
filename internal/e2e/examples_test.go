package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"syscall"
	"testing"

	"github.com/steadyfleet/steady/internal/testkit"
)

// runExample runs an example as a new user does, and returns what it shows.
func runExample(t *testing.T, env []string, command ...string) string {
	t.Helper()
	cmd := exec.Command("../../examples/"+command[0], command[1:]...)
	cmd.Env = append(append(os.Environ(), "TMPDIR="+t.TempDir()), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	testkit.Must(t, cmd.Start())
	t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }) // it may have ended
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	return out.String()
}

// inOrder checks that all patterns are found, each after the one before.
func inOrder(t *testing.T, said string, patterns ...string) {
	t.Helper()
	at := 0
	for _, want := range patterns {
		found := regexp.MustCompile(want).FindStringIndex(said[at:])
		if found == nil {
			t.Fatalf("it does not show %q after\n%s", want, said[:at]+"\n-----\n"+said[at:])
		}
		at += found[1]
	}
}
