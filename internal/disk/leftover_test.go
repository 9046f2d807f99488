package disk

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/steadyfleet/steady/internal/testkit"
)

// leftEnv makes the test binary a writer that is killed in the middle.
const leftEnv = "STEADY_TEST_BEGIN"

func TestMain(m *testing.M) {
	if path := os.Getenv(leftEnv); path != "" {
		f, err := createNew(path)
		if err == nil {
			_, err = f.WriteString("half")
		}
		if err != nil {
			println(err.Error())
			os.Exit(1)
		}
		os.Stdout.WriteString("begun\n")
		_, _ = io.Copy(io.Discard, os.Stdin) // until it is killed
		runtime.KeepAlive(f)
	}
	os.Exit(m.Run())
}

// TestLeftByAKill: what a writer leaves that is killed is gone after the next write, and
// while the writer lives nobody takes its file away.
func TestLeftByAKill(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	writer := exec.Command(os.Args[0])
	writer.Env = append(os.Environ(), leftEnv+"="+path)
	_, ierr := writer.StdinPipe()
	out, err := writer.StdoutPipe()
	if err = errors.Join(err, ierr); err == nil {
		err = writer.Start()
	}
	if err == nil {
		_, err = out.Read(make([]byte, 6))
	}
	testkit.Must(t, err)
	if err := Replace(path, []byte("second"), 0o600); !errors.Is(err, ErrLocked) {
		t.Errorf("while another process writes: %v", err)
	}
	testkit.Must(t, errors.Join(writer.Process.Kill(), ignoreExit(writer.Wait())))
	if got := names(t, dir); len(got) != 1 {
		t.Fatalf("the kill left %v: this test sees nothing", got)
	}
	testkit.Must(t, Replace(path, []byte("whole"), 0o600))
	if got, err := os.ReadFile(path); err != nil || string(got) != "whole" || len(names(t, dir)) != 1 {
		t.Errorf("%q, %v, %v", got, err, names(t, dir))
	}
}

// TestPlanted: neither a link nor a file of another one's is written through.
func TestPlanted(t *testing.T) {
	dir, victim := t.TempDir(), filepath.Join(t.TempDir(), "victim")
	path := filepath.Join(dir, "file")
	for _, plant := range []func(at string) error{
		func(at string) error { return os.Symlink(victim, at) },
		func(at string) error { return os.Link(victim, at) },
	} {
		testkit.Must(t, errors.Join(os.WriteFile(victim, []byte("theirs"), 0o666), plant(filepath.Join(dir, ".new-file"))))
		if err := Replace(path, []byte("secret"), 0o600); err != nil {
			t.Error(err)
		}
		if got, err := os.ReadFile(victim); err != nil || string(got) != "theirs" {
			t.Errorf("%q, %v", got, err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != "secret" || len(names(t, dir)) != 1 {
			t.Errorf("%q, %v, %v", got, err, names(t, dir))
		}
	}
}

// TestCreate: it refuses what is there, and leaves that and nothing else.
func TestCreate(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	testkit.Must(t, Create(path, []byte("first"), 0o600))
	if err := Create(path, []byte("second"), 0o600); !errors.Is(err, fs.ErrExist) {
		t.Errorf("created twice: %v", err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "first" || len(names(t, dir)) != 1 {
		t.Errorf("%q, %v, %v", got, err, names(t, dir))
	}
}

func names(t *testing.T, dir string) (out []string) {
	t.Helper()
	entries := testkit.Value(os.ReadDir(dir))(t)
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// ignoreExit lets the end of a killed process be no error.
func ignoreExit(err error) error {
	if _, ok := errors.AsType[*exec.ExitError](err); ok {
		return nil
	}
	return err
}
