package cli_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// demonstrate starts the real demonstration with an empty folder for its files.
func demonstrate(t *testing.T) (*exec.Cmd, *bytes.Buffer, string) {
	t.Helper()
	if testing.Short() {
		t.Skip("the demonstration starts seven processes; run without -short")
	}
	cmd := exec.Command("steady", "demo", "--json")
	dir := t.TempDir()
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	return cmd, &stderr, dir
}

// nothingLeft fails if the demonstration left a file or a process behind.
func nothingLeft(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		t.Errorf("%s was left behind", e.Name())
	}
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if cwd, err := os.Readlink(link); err == nil && strings.HasPrefix(cwd, dir) {
			t.Errorf("process %s was left behind in %s", strings.Split(link, "/")[2], cwd)
		}
	}
}

func TestDemo(t *testing.T) {
	t.Parallel()
	cmd, stderr, dir := demonstrate(t)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("the demonstration failed: %v\n%s\n%s", err, stderr, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	for _, line := range lines {
		if !json.Valid([]byte(line)) {
			t.Fatalf("%q is no JSON", line)
		}
	}
	var last struct {
		OK       bool
		Releases []struct {
			Release                      string
			Granted, Converged, Reverted int
			GrantedHosts                 []string
		}
		Seconds float64
	}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil {
		t.Fatal(err)
	}
	if !last.OK || len(last.Releases) != 3 || last.Seconds <= 0 {
		t.Fatalf("the last line is %s", lines[len(lines)-1])
	}
	for i, want := range []struct{ granted, converged, reverted int }{{6, 6, 0}, {1, 0, 1}, {6, 6, 0}} {
		r := last.Releases[i]
		if r.Granted != want.granted || r.Converged != want.converged || r.Reverted != want.reverted {
			t.Errorf("release %s: %+v, expected %+v", r.Release, r, want)
		}
	}
	if got := last.Releases[1].GrantedHosts; !slices.Equal(got, []string{"canary-1"}) {
		t.Errorf("the bad release was granted to %v", got)
	}
	nothingLeft(t, dir)
}

// TestDemoInterrupted ends the demonstration with Ctrl-C while its agents run.
func TestDemoInterrupted(t *testing.T) {
	t.Parallel()
	cmd, stderr, dir := demonstrate(t)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	interrupted := false
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if !interrupted && strings.Contains(lines.Text(), `"grant.claimed"`) {
			interrupted = true
			if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
		}
	}
	err = cmd.Wait()
	ended, ok := errors.AsType[*exec.ExitError](err)
	if !interrupted || !ok || ended.ExitCode() != 130 {
		t.Fatalf("interrupted: %v; ended with %v\n%s", interrupted, err, stderr)
	}
	nothingLeft(t, dir)
}
