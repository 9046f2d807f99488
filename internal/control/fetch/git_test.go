package fetch

import (
	"bytes"
	"fmt"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/release"
	"github.com/steadyfleet/steady/internal/testkit"
)

// upstream is a real repository with a work tree.
type upstream struct {
	t   testing.TB
	dir string
}

func newUpstream(t testing.TB) *upstream {
	t.Helper()
	testkit.Needs(t, testkit.Git)
	u := &upstream{t: t, dir: t.TempDir()}
	u.git("init", "--quiet", "--initial-branch=main", ".")
	return u
}

func (u *upstream) git(args ...string) string {
	u.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = u.dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
	out, err := cmd.CombinedOutput()
	if err != nil {
		u.t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (u *upstream) commit(files map[string]string) {
	u.t.Helper()
	write(u.t, u.dir, files)
	u.git("add", "-A")
	u.git("commit", "--quiet", "--allow-empty", "-m", "release")
}

func (u *upstream) spec(fragment string) string { return "git+file://" + u.dir + fragment }

func below(folder string, files map[string]string) map[string]string {
	out := map[string]string{}
	for name, text := range files {
		out[folder+"/"+name] = text
	}
	return out
}

func options(t testing.TB) Options {
	return Options{Cache: filepath.Join(t.TempDir(), "cache")}
}

// traps are files of a repository that would run something, or change what is
// read, if git did more than read objects.
func traps(mark string) map[string]string {
	return map[string]string{
		".gitattributes": "* filter=trap text eol=crlf\nrelease/timestamp.json ident export-ignore\n",
		".gitmodules":    "[submodule \"x\"]\n\tpath = x\n\turl = ext::sh -c touch% " + mark + "\n",
		".lfsconfig":     "[lfs]\n\turl = http://127.0.0.1:1/\n",
	}
}

func TestGitBranchIsFollowed(t *testing.T) {
	u := newUpstream(t)
	mark := filepath.Join(t.TempDir(), "mark")
	u.commit(traps(mark))
	hook := filepath.Join(u.dir, ".git", "hooks", "post-checkout")
	testkit.Must(t, os.WriteFile(hook, []byte("#!/bin/sh\ntouch "+mark+"\n"), 0o755))
	u.git("config", "uploadpack.packObjectsHook", "touch "+mark+"; exec")
	u.git("config", "filter.trap.smudge", "touch "+mark)
	u.git("config", "core.fsmonitor", "touch "+mark)
	u.commit(below("release", content("one\n$Id$")))
	s := open(t, u.spec("#main:release"), options(t))
	last := took(t, s, "", content("one\n$Id$"))
	took(t, s, last, nil)
	u.commit(map[string]string{"README": "a commit beside the release"})
	again := took(t, s, last, nil)
	if again == last {
		t.Error("the validator did not follow the commit")
	}
	u.commit(below("release", content("two")))
	last = took(t, s, again, content("two"))
	// The branch is set back: what is there counts, the floors of trust decide.
	u.git("reset", "--quiet", "--hard", "HEAD~2")
	_ = os.Remove(mark) // of git in the repository itself
	took(t, s, last, content("one\n$Id$"))
	took(t, open(t, u.spec("#main:release"), options(t)), "", content("one\n$Id$"))
	if _, err := os.Stat(mark); err == nil {
		t.Error("something of the repository ran")
	}
}

func TestGitWithoutFragment(t *testing.T) {
	u := newUpstream(t)
	u.commit(content("one"))
	took(t, open(t, u.spec(""), options(t)), "", content("one"))
	fails(t, open(t, u.spec("#nothing:release"), options(t)), Refused)
	fails(t, open(t, u.spec("#main:nothing"), options(t)), Content)
	fails(t, open(t, u.spec("#main:timestamp.json"), options(t)), Content)
	fails(t, open(t, "git+file://"+t.TempDir()+"/none", options(t)), Refused)
}

// A real server of git over HTTP.
func TestGitOverHTTP(t *testing.T) {
	u := newUpstream(t)
	u.commit(below("release", content("one")))
	at := testkit.Value(exec.Command("git", "--exec-path").Output())(t)
	h := &cgi.Handler{Path: filepath.Join(strings.TrimSpace(string(at)), "git-http-backend"),
		Env: []string{"GIT_PROJECT_ROOT=" + u.dir, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"}}
	s := httptest.NewServer(h)
	defer s.Close()
	source := open(t, "git+"+s.URL+"/.git#main:release", options(t))
	last := took(t, source, "", content("one"))
	took(t, source, last, nil)
	u.commit(below("release", content("two")))
	took(t, source, last, content("two"))

	away := httptest.NewServer(nil)
	away.Config.Handler = redirectTo(s.URL)
	defer away.Close()
	fails(t, open(t, "git+"+away.URL+"/.git#main:release", options(t)), Redirected)
	s.Close()
	fails(t, source, Unreachable)
}

func TestGitTreesThatAreNoRelease(t *testing.T) {
	u := newUpstream(t)
	caps := release.Caps{Files: 20, Bytes: 1 << 20}
	blob := func(text string) string {
		path := filepath.Join(t.TempDir(), "blob")
		testkit.Must(t, os.WriteFile(path, []byte(text), 0o644))
		return u.git("hash-object", "-w", path)
	}
	// tree makes one by hand: lines as git mktree reads them.
	tree := func(lines ...string) string {
		path := filepath.Join(t.TempDir(), "tree")
		testkit.Must(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o644))
		return u.git("-c", "alias.x=!git mktree --missing < "+path, "x")
	}
	entry := func(mode, kind, id, name string) string { return fmt.Sprintf("%s %s %s\t%s", mode, kind, id, name) }
	one := blob("one")
	deep := tree(entry("100644", "blob", one, "x"))
	for range 12 { // ten to the twelfth folders, in a hundred objects
		var lines []string
		for i := range 10 {
			lines = append(lines, entry("040000", "tree", deep, fmt.Sprint("d", i)))
		}
		deep = tree(lines...)
	}
	var many []string
	for i := range 30 {
		many = append(many, entry("100644", "blob", one, fmt.Sprintf("%064x", i)))
	}
	for what, root := range map[string]string{
		"a link":            tree(entry("120000", "blob", blob("/etc/passwd"), "timestamp.json")),
		"a link up":         tree(entry("120000", "blob", blob("../.."), "blobs")),
		"a submodule":       tree(entry("160000", "commit", strings.Repeat("1", 40), "blobs")),
		"a stranger":        tree(entry("100644", "blob", one, "README")),
		"a folder":          tree(entry("040000", "tree", tree(entry("100644", "blob", one, "x")), "timestamp.json")),
		"an endless folder": tree(entry("040000", "tree", deep, "blobs")),
		"many files":        tree(entry("040000", "tree", tree(many...), "blobs")),
		"a large file":      tree(entry("100644", "blob", blob(strings.Repeat("x", 5<<20)), "timestamp.json")),
		"a bomb":            tree(entry("040000", "tree", tree(entry("100644", "blob", blob(strings.Repeat("x", 2<<20)), strings.Repeat("a", 64))), "blobs")),
		"nothing":           tree(entry("040000", "tree", tree(entry("100644", "blob", one, strings.Repeat("a", 64))), "budgets")),
	} {
		t.Run(what, func(t *testing.T) {
			u.git("update-ref", "refs/heads/bad", u.git("commit-tree", "-m", "x", root))
			o := options(t)
			o.Caps = caps
			fails(t, open(t, u.spec("#bad"), o), Content)
		})
	}
}

// Names that would leave the folder cannot even be fetched.
func TestGitNamesThatClimb(t *testing.T) {
	u := newUpstream(t)
	u.commit(content("one"))
	raw := append([]byte("100644 ..\x00"), make([]byte, 20)...)
	path := filepath.Join(t.TempDir(), "tree")
	testkit.Must(t, os.WriteFile(path, raw, 0o644))
	root := u.git("hash-object", "-w", "-t", "tree", "--literally", path)
	u.git("update-ref", "refs/heads/bad", u.git("commit-tree", "-m", "x", root))
	_, changed, err := open(t, u.spec("#bad"), options(t)).Fetch(t.Context(), t.TempDir(), "")
	if err == nil || changed {
		t.Error("a tree with .. was fetched")
	}
}

// What is fetched is bounded on its way, before anything looks at it.
func TestGitPackIsBounded(t *testing.T) {
	u := newUpstream(t)
	noise := make([]byte, 6<<20)
	x := uint64(1)
	for i := range noise { // incompressible, and the same each time
		x = x*6364136223846793005 + 1442695040888963407
		noise[i] = byte(x >> 56)
	}
	u.commit(map[string]string{"other": string(noise)})
	o := options(t)
	o.Caps = release.Caps{Files: 20, Bytes: 1 << 20}
	fails(t, open(t, u.spec("#main"), o), Content)
	if size, err := sizeOf(o.Cache); err != nil || size > 3<<20 {
		t.Errorf("the cache has %d bytes: %v", size, err)
	}
	o.Caps.Bytes = 32 << 20
	fails(t, open(t, u.spec("#main"), o), Content) // it fits, and is no release
}

func TestGitHangs(t *testing.T) {
	testkit.Needs(t, testkit.Git)
	gate := make(chan struct{})
	s := serve(t, waitFor(gate))
	defer close(gate)
	o := options(t)
	o.Timeout = 300 * time.Millisecond
	fails(t, open(t, "git+"+s.URL+"/x.git#main", o), Slow) // the gate opens only after it was given up
}

// A damaged cache is thrown away, and the next attempt succeeds.
func TestGitCacheMayBreak(t *testing.T) {
	u := newUpstream(t)
	u.commit(content("one"))
	o := options(t)
	s := open(t, u.spec("#main"), o)
	took(t, s, "", content("one"))
	testkit.Must(t, os.WriteFile(filepath.Join(o.Cache, "objects.git", "HEAD"), []byte("junk"), 0o600))
	u.commit(content("two"))
	if _, _, err := s.Fetch(t.Context(), t.TempDir(), ""); err == nil {
		t.Fatal("a broken cache was used")
	}
	took(t, s, "", content("two"))
}

func FuzzReadTree(f *testing.F) {
	id := strings.Repeat("a", 40)
	f.Add([]byte("040000 tree " + id + "       -\tblobs\x00100644 blob " + id + "       3\tblobs/" + strings.Repeat("b", 64) + "\x00"))
	f.Add([]byte("120000 blob " + id + " 3\ttimestamp.json\x00"))
	f.Add([]byte("100644 blob " + id + " 99999999999999999999\ttimestamp.json\x00"))
	f.Add([]byte("100644 blob " + id + " 3\t../timestamp.json\x00"))
	caps := release.Caps{Files: 3, Bytes: 100}
	f.Fuzz(func(t *testing.T, raw []byte) {
		files, err := readTree(bytes.NewReader(raw), caps)
		if err != nil {
			return
		}
		total := int64(0)
		for _, x := range files {
			limit, ok := release.FileCap(x.name)
			if !ok || x.size < 0 || x.size > limit || !objectPattern().MatchString(x.id) {
				t.Errorf("took %+v", x)
			}
			total += x.size
		}
		if len(files) > caps.Files || total > caps.Bytes {
			t.Errorf("took %d files of %d bytes", len(files), total)
		}
	})
}

func TestGitGetsNothingOfTheEnvironment(t *testing.T) {
	testkit.Needs(t, testkit.Git)
	t.Setenv("GIT_SSH_COMMAND", "touch /nowhere")
	t.Setenv("GIT_EXEC_PATH", "/nowhere")
	t.Setenv("STEADY_TOKEN", "hush")
	s := open(t, "git+https://h/x", Options{Cache: t.TempDir(), Credentials: Credentials{"ci", "hush2"}}).(*repository)
	env := s.environment()
	for _, name := range []string{"GIT_SSH_COMMAND=", "GIT_EXEC_PATH=", "STEADY_TOKEN="} {
		if slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, name) }) {
			t.Errorf("git gets %s", name)
		}
	}
	if !slices.Contains(env, "GIT_CONFIG_KEY_0=http.https://h/.extraHeader") {
		t.Errorf("the credentials are not bound to their host: %v", env)
	}
}
