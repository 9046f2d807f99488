package release

import (
	"bytes"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/disk"
	"github.com/steadyfleet/steady/internal/release/fleetdir"
	"github.com/steadyfleet/steady/internal/testkit"
)

// checkoutTree is a fleet whose bundle has all that may be found on a builder's disk:
// single files, folders that containers mount, a build context, variables, and storage.
var checkoutTree = map[string]string{
	fleetdir.FleetFile:              strings.Replace(jsonFleet, `"path":"web"`, `"path":"b/web"`, 1),
	".gitignore":                    "*.log\n/out/\n/release*\n.env\n",
	"b/web/bundle.yaml":             "compose: compose.yaml\nfiles:\n  - {path: a, source: a.conf}\n",
	"b/web/a.conf":                  "a",
	"b/web/conf/x.conf":             "x",
	"b/web/conf/deep/run.sh":        "#!/bin/sh\n",
	"b/web/app/Dockerfile":          "FROM scratch\nCOPY . /\n",
	"b/web/app/src/main":            "main",
	"b/web/compose.yaml":            "services:\n  web:\n    build: app\n    environment: {LEVEL: \"${LEVEL:-info}\"}\n    volumes: [\"./conf:/etc/conf:ro\", \"./data:/data\", \"./link/x.conf:/x.conf:ro\"]\n",
	"elsewhere/of-nobodys-interest": "",
}

const jsonFleet = `{"apiVersion":"steady/v1","kind":"Fleet","metadata":{"name":"acme"},"allowMovingTags":true,
 "hosts":{"a-1":{"channel":"stable","bundle":"web"}},
 "channels":{"stable":{"rolloutPolicy":"once","freshnessWindow":"24h"}},
 "rolloutPolicies":{"once":{"waves":[{"name":"all","selector":{"all":true}}]}},
 "bundles":{"web":{"path":"web"}}}`

func git(t testing.TB, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "commit.gpgsign=false"}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

// dirt is what people and tools leave in a checkout without changing anything that git tracks.
type dirt func(t *rapid.T, dir string)

func inside(t *rapid.T, name string) string {
	folder := rapid.SampledFrom([]string{"", "b", "b/web", "b/web/conf", "b/web/conf/deep", "b/web/app", "b/web/app/src", "b/web/data", "b/web/other", "data", "hosts/a-1", "tokens", "release", "out"}).Draw(t, "folder")
	return filepath.Join(folder, name)
}

func write(t *rapid.T, dir, name string) {
	at := filepath.Join(dir, name)
	if _, err := os.Lstat(at); err == nil {
		return
	}
	for _, err := range []error{os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(rapid.StringN(0, 20, -1).Draw(t, "content")), 0o600)} {
		if err != nil {
			t.Fatal(err)
		}
	}
}

var dirts = map[string]dirt{
	"empty folder": func(t *rapid.T, dir string) {
		if err := os.MkdirAll(filepath.Join(dir, inside(t, rapid.SampledFrom([]string{"empty", "data", "cache/deep"}).Draw(t, "name"))), 0o755); err != nil {
			t.Fatal(err)
		}
	},
	"untracked file": func(t *rapid.T, dir string) {
		write(t, dir, inside(t, rapid.SampledFrom([]string{"notes", "x.conf~", "#a.conf#", ".gitkeep", ".a.conf.swp", "images.lock.orig", ".DS_Store"}).Draw(t, "name")))
	},
	"ignored file": func(t *rapid.T, dir string) {
		write(t, dir, inside(t, rapid.SampledFrom([]string{"build.log", ".env", "out/x"}).Draw(t, "name")))
	},
	"override file": func(t *rapid.T, dir string) { write(t, dir, "b/web/compose.override.yaml") },
	"ignore file":   func(t *rapid.T, dir string) { write(t, dir, "b/web/app/.dockerignore") },
	"link": func(t *rapid.T, dir string) {
		_ = os.Symlink(rapid.SampledFrom([]string{"conf", "nowhere", "a.conf", ".."}).Draw(t, "to"), filepath.Join(dir, "b/web", rapid.SampledFrom([]string{"data", "more", "app/more"}).Draw(t, "name")))
	},
	"permissions": func(t *rapid.T, dir string) {
		name := rapid.SampledFrom([]string{"b/web/a.conf", "b/web/conf/x.conf", "b/web/app/src/main", "b/web/app/Dockerfile"}).Draw(t, "name")
		if err := os.Chmod(filepath.Join(dir, name), rapid.SampledFrom([]os.FileMode{0o600, 0o640, 0o664, 0o666, 0o444}).Draw(t, "mode")); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(dir, filepath.Dir(name)), rapid.SampledFrom([]os.FileMode{0o700, 0o755, 0o775, 0o777}).Draw(t, "mode")); err != nil {
			t.Fatal(err)
		}
	},
	"times": func(t *rapid.T, dir string) {
		at := clock.Instant(rapid.Int64Range(0, 2e12).Draw(t, "at")).Time()
		if err := os.Chtimes(filepath.Join(dir, "b/web/conf/x.conf"), at, at); err != nil {
			t.Fatal(err)
		}
	},
}

// A checkout that holds a commit in another form says so instead of building another release of it.
func TestConvertedCheckoutsAreRefused(t *testing.T) {
	testkit.Needs(t, testkit.Git)
	for _, c := range []struct {
		name   string
		config []string
		file   string
	}{
		{"line ends", []string{"core.autocrlf=true"}, "text.conf"},
		{"native line ends", []string{"core.eol=crlf"}, "auto.txt"},
		{"links", []string{"core.symlinks=false"}, "link"},
	} {
		origin := testkit.Folder(t, map[string]string{fleetdir.FleetFile: "kind: Fleet", "text.conf": "a\nb\n", "auto.txt": "a\nb\n", ".gitattributes": "auto.txt text\nkept.txt text eol=crlf\n", "kept.txt": "a\nb\n"})
		testkit.Must(t, os.Symlink("text.conf", filepath.Join(origin, "link")))
		git(t, origin, "init", "-q")
		git(t, origin, "add", ".")
		git(t, origin, "commit", "-q", "-m", "fleet")
		dir := filepath.Join(t.TempDir(), "clone")
		git(t, origin, "clone", "-q", "-c", c.config[0], origin, dir)
		f := testkit.Value(disk.OpenCheckout(dir, disk.CheckoutOptions{Main: fleetdir.FleetFile}))(t)
		if _, err := f.ReadFile(c.file, 100); err == nil || !strings.Contains(err.Error(), "another form than git keeps it") {
			t.Errorf("%s: %s is read: %v", c.name, c.file, err)
		}
		if err := f.Walk(func(string, fs.DirEntry, error) error { return nil }); err == nil {
			t.Errorf("%s: the folder is walked", c.name)
		}
		if _, err := f.ReadFile("kept.txt", 100); err != nil {
			t.Errorf("%s: what .gitattributes declare is refused: %v", c.name, err)
		}
		testkit.Must(t, f.Close())
	}
}

// A file that git was told to take for unchanged is none of its commit.
func TestAssumedUnchangedIsNoCommit(t *testing.T) {
	testkit.Needs(t, testkit.Git)
	origin := testkit.Folder(t, map[string]string{fleetdir.FleetFile: "kind: Fleet", "a": "1"})
	git(t, origin, "init", "-q")
	git(t, origin, "add", ".")
	git(t, origin, "commit", "-q", "-m", "fleet")
	git(t, origin, "update-index", "--assume-unchanged", "a")
	testkit.Must(t, os.WriteFile(filepath.Join(origin, "a"), []byte("2"), 0o644))
	f := testkit.Value(disk.OpenCheckout(origin, disk.CheckoutOptions{Main: fleetdir.FleetFile}))(t)
	if at := f.Commit("a"); at != "" {
		t.Errorf("a changed file is of commit %s", at)
	}
	testkit.Must(t, f.Close())
}

// One commit is one release, whatever else lies in the checkout that it is built in.
func TestOneCommitIsOneRelease(t *testing.T) {
	testkit.Needs(t, testkit.Git)
	origin := testkit.Folder(t, checkoutTree)
	testkit.Must(t, os.Symlink("conf", filepath.Join(origin, "b/web/link")))
	testkit.Must(t, os.Chmod(filepath.Join(origin, "b/web/conf/deep/run.sh"), 0o755))
	git(t, origin, "init", "-q")
	git(t, origin, "add", ".")
	git(t, origin, "commit", "-q", "-m", "fleet")
	built := func(t testing.TB, dir string) *Release {
		src, ps := fleetdir.Load(dir)
		if Fatal(ps) || src == nil {
			t.Fatalf("load:\n%s", lines(ps))
		}
		return build(t, src, BuildOptions{Now: t0})
	}
	want := built(t, origin)
	blobs := 0
	for name := range want.Files {
		if strings.HasPrefix(name, "blobs/") {
			blobs++
		}
	}
	if blobs != 4 {
		t.Fatalf("the release has %d contents, want a file, two that are mounted, and a build context", blobs)
	}
	clones := filepath.Join(t.TempDir(), "clones")
	testkit.Must(t, os.Mkdir(clones, 0o755))
	passed, failed := 0, false // a clone takes its time: 20 are enough where none differs
	rapid.Check(t, func(rt *rapid.T) {
		if passed >= 20 && !failed {
			return
		}
		defer func() {
			if failed = failed || rt.Failed(); !failed {
				passed++
			}
		}()
		dir := testkit.Value(os.MkdirTemp(clones, "clone"))(t)
		defer os.RemoveAll(dir)
		git(t, clones, "clone", "-q", origin, dir)
		for range rapid.IntRange(1, 8).Draw(rt, "pieces of dirt") {
			dirts[rapid.SampledFrom(slices.Sorted(maps.Keys(dirts))).Draw(rt, "dirt")](rt, dir)
		}
		got := built(t, dir)
		if got.Ref != want.Ref {
			rt.Errorf("ref %s, want %s", got.Ref, want.Ref)
		}
		if a, b := slices.Sorted(maps.Keys(got.Files)), slices.Sorted(maps.Keys(want.Files)); !slices.Equal(a, b) {
			rt.Fatalf("files %q, want %q", a, b)
		}
		for name, raw := range want.Files {
			if !bytes.Equal(got.Files[name], raw) {
				rt.Errorf("%s differs", name)
			}
		}
	})
}
