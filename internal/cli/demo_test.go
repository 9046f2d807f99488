package cli_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/steadyfleet/steady/internal/docker/dockertest"
	"github.com/steadyfleet/steady/internal/sandbox"
	"github.com/steadyfleet/steady/internal/testkit"
)

// demonstrate starts the real demonstration with an empty folder for its files.
func demonstrate(t *testing.T, flags ...string) (*exec.Cmd, *bytes.Buffer, string) {
	t.Helper()
	testkit.Long(t, "the demonstration starts seven processes")
	cmd := exec.Command("steady", append([]string{"demo", "--json"}, flags...)...)
	dir := t.TempDir()
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	return cmd, &stderr, dir
}

// nothingLeft fails if the demonstration left a file or a process behind.
func nothingLeft(t *testing.T, dir string) {
	t.Helper()
	entries := testkit.Value(os.ReadDir(dir))(t)
	for _, e := range entries {
		t.Errorf("%s was left behind", e.Name())
	}
	links := testkit.Value(filepath.Glob("/proc/[0-9]*/cwd"))(t)
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
			Granted, Converged, Reverted []string
		}
		Seconds float64
	}
	testkit.Must(t, json.Unmarshal([]byte(lines[len(lines)-1]), &last))
	if !last.OK || len(last.Releases) != 3 || last.Seconds <= 0 {
		t.Fatalf("the last line is %s", lines[len(lines)-1])
	}
	for i, want := range []struct{ granted, converged, reverted int }{{6, 6, 0}, {1, 0, 1}, {6, 6, 0}} {
		r := last.Releases[i]
		if len(r.Granted) != want.granted || len(r.Converged) != want.converged || len(r.Reverted) != want.reverted {
			t.Errorf("release %s: %+v, expected %+v", r.Release, r, want)
		}
	}
	if got := last.Releases[1].Granted; !slices.Equal(got, []string{"canary-1"}) {
		t.Errorf("the bad release was granted to %v", got)
	}
	nothingLeft(t, dir)
}

// TestDemoContainers runs the demonstration of containers on a private engine.
func TestDemoContainers(t *testing.T) {
	t.Parallel()
	testkit.Needs(t, dockertest.Here)
	cmd, stderr, dir := demonstrate(t, "--docker")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("the demonstration failed: %v\n%s\n%s", err, stderr, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	type release struct{ Granted, Converged, Reverted []string }
	type things struct{ Containers, Networks, Volumes int }
	var last struct {
		OK         bool
		Releases   []release
		Requests   struct{ Answered, Refused int }
		Containers int
		Removed    things
	}
	testkit.Must(t, json.Unmarshal([]byte(lines[len(lines)-1]), &last))
	both, canary := []string{"edge-1", "edge-2"}, []string{"edge-1"}
	if want := []release{{both, both, []string{}}, {canary, []string{}, canary}, {both, both, []string{}}}; !last.OK || !reflect.DeepEqual(last.Releases, want) {
		t.Errorf("the releases went %+v, expected %+v", last.Releases, want)
	}
	if last.Requests.Answered == 0 || last.Requests.Refused != 0 {
		t.Errorf("%d requests answered, %d refused", last.Requests.Answered, last.Requests.Refused)
	}
	if want := (things{4, 2, 2}); last.Containers != 4 || last.Removed != want {
		t.Errorf("%d containers ran, and %+v was removed, expected %+v", last.Containers, last.Removed, want)
	}
	nothingLeft(t, dir)
}

// TestDemoInterrupted ends a demonstration with Ctrl-C while its agents run.
func TestDemoInterrupted(t *testing.T) {
	t.Parallel()
	t.Run("files", func(t *testing.T) { t.Parallel(); interrupt(t) })
	t.Run("containers", func(t *testing.T) { t.Parallel(); testkit.Needs(t, dockertest.Here); interrupt(t, "--docker") })
}

func interrupt(t *testing.T, flags ...string) {
	cmd, stderr, dir := demonstrate(t, flags...)
	stdout := testkit.Value(cmd.StdoutPipe())(t)
	testkit.Must(t, cmd.Start())
	interrupted := false
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if !interrupted && strings.Contains(lines.Text(), `"grant.claimed"`) {
			interrupted = true
			testkit.Must(t, cmd.Process.Signal(syscall.SIGINT))
		}
	}
	err := cmd.Wait()
	ended, ok := errors.AsType[*exec.ExitError](err)
	if !interrupted || !ok || ended.ExitCode() != 130 {
		t.Fatalf("interrupted: %v; ended with %v\n%s", interrupted, err, stderr)
	}
	nothingLeft(t, dir)
}

func TestDemoWithoutEngine(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--engine", "/nowhere.sock"}, 2, "give --docker as well"},
		{[]string{"--docker", "--engine", "/nowhere.sock"}, 4, "/nowhere.sock"},
	} {
		cmd := exec.Command("steady", append([]string{"demo"}, c.args...)...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		err := cmd.Run()
		ended, ok := errors.AsType[*exec.ExitError](err)
		if !ok || ended.ExitCode() != c.code || !strings.Contains(stderr.String(), c.says) {
			t.Errorf("demo %v ended with %v and said %q; expected code %d and %q", c.args, err, stderr.String(), c.code, c.says)
		}
	}
	// Without a dockerd there is no private engine, and the words say how to get one.
	cmd := exec.Command("steady", "demo", "--docker")
	cmd.Env = append(os.Environ(), "PATH=/nowhere")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err := cmd.Run()
	ended, ok := errors.AsType[*exec.ExitError](err)
	if !ok || ended.ExitCode() != 4 || !strings.Contains(stderr.String(), sandbox.Install) {
		t.Errorf("demo --docker without dockerd ended with %v and said %q", err, stderr.String())
	}
}
