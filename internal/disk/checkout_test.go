package disk

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/testkit"
)

func run(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "commit.gpgsign=false", "-c", "protocol.file.allow=always"}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

func repository(t *testing.T, files map[string]string) string {
	t.Helper()
	testkit.Needs(t, testkit.Git)
	dir := testkit.Folder(t, files)
	run(t, dir, "init", "-q")
	run(t, dir, "add", ".")
	run(t, dir, "commit", "-q", "-m", "all")
	return dir
}

func open(t *testing.T, dir string, also ...string) *Folder {
	t.Helper()
	f := testkit.Value(OpenCheckout(dir, CheckoutOptions{Main: "main", Also: also}))(t)
	t.Cleanup(func() { testkit.Must(t, f.Close()) })
	return f
}

func walk(t *testing.T, f *Folder) string {
	t.Helper()
	var names []string
	testkit.Must(t, f.Walk(func(p string, e fs.DirEntry, err error) error {
		if p != "." {
			names = append(names, p)
		}
		return err
	}))
	return strings.Join(names, " ")
}

func putFile(t *testing.T, dir, name, text string) {
	t.Helper()
	at := filepath.Join(dir, name)
	testkit.Must(t, os.MkdirAll(filepath.Dir(at), 0o755))
	testkit.Must(t, os.WriteFile(at, []byte(text), 0o644))
}

func TestWithoutGitAllButEmptyFolders(t *testing.T) {
	dir := testkit.Folder(t, map[string]string{"main": "", "a/b/c": "c"})
	testkit.Must(t, os.MkdirAll(filepath.Join(dir, "empty/deep"), 0o755))
	f := open(t, dir)
	if got := walk(t, f); got != "a a/b a/b/c main" {
		t.Errorf("walked %s", got)
	}
	if _, err := f.Stat("empty"); !isAbsent(err) {
		t.Errorf("an empty folder: %v", err)
	}
	if f.Commit("main") != "" {
		t.Error("a commit without git")
	}
}

func isAbsent(err error) bool {
	return err != nil && (os.IsNotExist(err) || strings.Contains(err.Error(), "git does not track it"))
}

func TestOnlyWhatGitTracks(t *testing.T) {
	dir := repository(t, map[string]string{"main": "", "a/kept": "k", "a/gone": "", ".gitignore": "*.log\n"})
	putFile(t, dir, "a/new", "")
	putFile(t, dir, "a/x.log", "")
	putFile(t, dir, "fresh/x", "")
	testkit.Must(t, os.Symlink("a", filepath.Join(dir, "link")))
	f := open(t, dir)
	if got := walk(t, f); got != ".gitignore a a/gone a/kept main" {
		t.Errorf("walked %s", got)
	}
	for _, name := range []string{"a/new", "a/x.log", "fresh", "link", "link/kept"} {
		if _, err := f.Stat(name); !isAbsent(err) || !f.Hides(name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := f.ReadFile("a/new", 10); err == nil || !strings.Contains(err.Error(), "git add it, or name it with --untracked") {
		t.Errorf("an untracked file: %v", err)
	}
	if _, err := f.Stat("nowhere"); !os.IsNotExist(err) || f.Hides("nowhere") {
		t.Errorf("what is nowhere: %v", err)
	}
	sub := testkit.Value(f.OpenFolder("a"))(t)
	defer sub.Close()
	if got := strings.Join(sub.Untracked(), " "); got != "a/new" {
		t.Errorf("untracked: %s", got)
	}
	if f.Commit("a", "main") == "" {
		t.Error("untracked files are no change")
	}
	testkit.Must(t, os.Remove(filepath.Join(dir, "a/gone")))
	if f = open(t, dir); f.Commit("a") != "" || f.Commit("main") == "" {
		t.Error("a file that was removed is a change of its folder")
	}
	if f = open(t, dir, "a/x.log", "fresh"); walk(t, f) != ".gitignore a a/kept a/x.log fresh fresh/x main" || f.Commit("fresh") != "" || f.Commit("main") == "" {
		t.Errorf("with untracked files: %s", walk(t, f))
	}
	if f = open(t, dir, "."); !strings.Contains(walk(t, f), "a/new") || f.Commit("main") != "" {
		t.Errorf("with all: %s", walk(t, f))
	}
}

func TestAFolderThatNobodyAddedIsReadWhole(t *testing.T) {
	dir := repository(t, map[string]string{"other": ""})
	putFile(t, dir, "main", "")
	if got := walk(t, open(t, dir)); !strings.Contains(got, "main") {
		t.Errorf("walked %s", got)
	}
}

func TestWhoMayExecute(t *testing.T) {
	for _, c := range []struct {
		keeps string // core.fileMode
		want  fs.FileMode
	}{{"true", 0o644}, {"false", 0o755}} {
		dir := repository(t, map[string]string{"main": "", "run": ""})
		testkit.Must(t, os.Chmod(filepath.Join(dir, "run"), 0o755))
		run(t, dir, "add", "--chmod=+x", "run")
		run(t, dir, "config", "core.fileMode", c.keeps)
		testkit.Must(t, os.Chmod(filepath.Join(dir, "run"), 0o600))
		if info := testkit.Value(open(t, dir).Stat("run"))(t); info.Mode() != c.want {
			t.Errorf("fileMode %s: mode %o, want %o", c.keeps, info.Mode(), c.want)
		}
	}
}

// What git has and did not put on this disk is missed, and not taken as absent.
func TestWhatGitKeepsOut(t *testing.T) {
	dir := repository(t, map[string]string{"main": "", "big/data": "d", "lfs": lfsPointer + "v1\n"})
	if _, err := open(t, dir).ReadFile("lfs", 1000); err == nil || !strings.Contains(err.Error(), "git lfs pull") {
		t.Errorf("a pointer: %v", err)
	}
	run(t, dir, "sparse-checkout", "set", "--no-cone", "/*", "!/big")
	f := open(t, dir)
	if _, err := f.ReadFile("big/data", 10); err == nil || !strings.Contains(err.Error(), "sparse-checkout disable") {
		t.Errorf("a sparse file: %v", err)
	}
	if err := f.Walk(func(string, fs.DirEntry, error) error { return nil }); err == nil {
		t.Error("a folder without all of its files was walked")
	}
	module := repository(t, map[string]string{"x": "x"})
	whole := repository(t, map[string]string{"main": ""})
	run(t, whole, "submodule", "--quiet", "add", module, "sub")
	run(t, whole, "commit", "-q", "-m", "sub")
	putFile(t, whole, "sub/stray", "")
	if got := walk(t, open(t, whole)); got != ".gitmodules main sub sub/x" {
		t.Errorf("with a submodule: %s", got)
	}
	run(t, whole, "submodule", "--quiet", "deinit", "-f", "sub")
	if _, err := open(t, whole).Stat("sub/x"); err == nil {
		t.Error("a submodule that is not checked out has no files")
	}
	if _, err := open(t, whole).Stat("sub"); err == nil {
		t.Error("a submodule that is not checked out is no empty folder")
	}
}

func TestARepositoryNeedsGit(t *testing.T) {
	dir := repository(t, map[string]string{"main": ""})
	t.Setenv("PATH", t.TempDir())
	if _, err := OpenCheckout(dir, CheckoutOptions{Main: "main"}); err == nil || !strings.Contains(err.Error(), "is not installed: install it, or build with --untracked .") {
		t.Errorf("without git: %v", err)
	}
}
