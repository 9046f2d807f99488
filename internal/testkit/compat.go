package testkit

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// treeRoot is the root of the tree.
func treeRoot() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..")
}

// otherVersion is where the program of OtherVersion is kept, and its commit.
func otherVersion() (dir, commit string, err error) {
	named := filepath.Join(treeRoot(), ".ci/compat")
	text, err := os.ReadFile(named)
	if err != nil {
		return "", "", err
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			commit = line
		}
	}
	if len(commit) != 40 {
		return "", "", fmt.Errorf("%s names %q: expected the 40 digits of a commit", named, commit)
	}
	cache, err := os.UserCacheDir()
	return filepath.Join(cache, "steady-compat", commit), commit, err
}

// history reports that this tree has no history to build OtherVersion from.
func history() error {
	dir, commit, err := otherVersion()
	if err != nil {
		return nil //nolint:nilerr // a fault of the tree, which OtherVersion reports
	}
	if _, err := os.Stat(filepath.Join(dir, "steady")); err == nil {
		return nil
	}
	if _, err := git("cat-file", "-e", commit+"^{commit}"); err == nil {
		return nil
	}
	if shallow, err := git("rev-parse", "--is-shallow-repository"); err != nil || shallow == "true" {
		return fmt.Errorf("this tree has none that holds commit %s, which .ci/compat names: git fetch --unshallow", commit)
	}
	return nil // a commit that is in no history is a fault of .ci/compat
}

// git asks the repository, which another user may own.
func git(args ...string) (string, error) {
	out, err := exec.Command("git", append([]string{"-c", "safe.directory=*", "-C", treeRoot()}, args...)...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// OtherVersion is the program of the commit that .ci/compat names, which this tree has to work with. It is
// built once and kept in the user's cache folder.
func OtherVersion(t testing.TB) string {
	t.Helper()
	Needs(t, History)
	dir, commit, err := otherVersion()
	Must(t, err)
	Must(t, os.MkdirAll(dir, 0o755))
	defer locked(t, dir)()
	program := filepath.Join(dir, "steady")
	if _, err := os.Stat(program); err == nil {
		return program
	}
	if out, err := git("cat-file", "-e", commit+"^{commit}"); err != nil {
		t.Fatalf("commit %s, which .ci/compat names, is not in the history: name one that is (%s)", commit, out)
	}
	src := Value(os.MkdirTemp(dir, "src-"))(t)
	defer os.RemoveAll(src)
	cmd := exec.Command("bash", "-eo", "pipefail", "-c", fmt.Sprintf(`git -c "safe.directory=*" -C %q archive %s | tar -x -C %q && cd %[3]q && go build -o built ./cmd/steady`, treeRoot(), commit, src))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build commit %s, which .ci/compat names: %v\n%s", commit, err, out)
	}
	Must(t, os.Rename(filepath.Join(src, "built"), program))
	return program
}

// locked has the test alone in a folder, among all processes, until the returned
// function is called.
func locked(t testing.TB, dir string) (unlock func()) {
	t.Helper()
	f := Value(os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644))(t)
	Must(t, syscall.Flock(int(f.Fd()), syscall.LOCK_EX))
	return func() { _ = f.Close() }
}
