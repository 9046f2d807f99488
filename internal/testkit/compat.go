package testkit

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// OtherVersion is the program of the commit that .ci/compat names, which this tree
// has to work with. It is built once and kept in the user's cache folder; root is the
// path of the tree's root.
func OtherVersion(t testing.TB, root string) string {
	t.Helper()
	named := filepath.Join(root, ".ci/compat")
	var commit string
	for line := range strings.Lines(string(Value(os.ReadFile(named))(t))) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			commit = line
		}
	}
	if len(commit) != 40 {
		t.Fatalf("%s names %q: expected the 40 digits of a commit", named, commit)
	}
	dir := filepath.Join(Value(os.UserCacheDir())(t), "steady-compat", commit)
	Must(t, os.MkdirAll(dir, 0o755))
	defer locked(t, dir)()
	program := filepath.Join(dir, "steady")
	if _, err := os.Stat(program); err == nil {
		return program
	}
	Command(t, "git", "install git")
	git := func(args ...string) (string, error) {
		// Another user may own the repository.
		out, err := exec.Command("git", append([]string{"-c", "safe.directory=*", "-C", root}, args...)...).CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	if out, err := git("cat-file", "-e", commit+"^{commit}"); err != nil {
		// An export or a shallow clone cannot know another commit: that is no missing
		// component, which CI would have to install.
		if shallow, err := git("rev-parse", "--is-shallow-repository"); err != nil || shallow == "true" {
			t.Skipf("this tree has no history that holds commit %s, which .ci/compat names: git fetch --unshallow", commit)
		}
		t.Fatalf("commit %s, which .ci/compat names, is not in the history: name one that is (%s)", commit, out)
	}
	src := Value(os.MkdirTemp(dir, "src-"))(t)
	defer os.RemoveAll(src)
	cmd := exec.Command("bash", "-eo", "pipefail", "-c", fmt.Sprintf(`git -c "safe.directory=*" -C %q archive %s | tar -x -C %q && cd %[3]q && go build -o built ./cmd/steady`, Value(filepath.Abs(root))(t), commit, src))
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
