package compose

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/disk"
	"github.com/steadyfleet/steady/internal/testkit"
)

func packedNames(t *testing.T, raw []byte) string {
	t.Helper()
	var out []string
	for r := tar.NewReader(bytes.NewReader(raw)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return strings.Join(out, " ")
		}
		testkit.Must(t, err)
		if !h.ModTime.Equal(time.Unix(0, 0)) || h.Uid != 0 || h.Gid != 0 || h.Uname != "" {
			t.Errorf("%s has time %v and owner %d:%d %q", h.Name, h.ModTime, h.Uid, h.Gid, h.Uname)
		}
		out = append(out, h.Name)
	}
}

func TestContextHoldsWhatDockerignoreLeaves(t *testing.T) {
	root, dir := rootWith(t, map[string]string{
		"app/Dockerfile": "FROM scratch", "app/main.go": "a", "app/a.log": "b", "app/deep/x/b.log": "c", "app/keep.log": "d",
		"app/node_modules/m/i.js": "e", "app/docs/a.md": "f", "app/docs/README.md": "g", "app/tmp1": "h", "app/tmp22": "i",
		"app/.dockerignore": "# what is not needed\n\n**/*.log\n!keep.log\n/node_modules\ndocs/*\n!docs/README.md\ntmp?\nDockerfile\n.dockerignore\n",
	})
	raw := testkit.Value(packContext(disk.PlainFolder(root), "app", "Dockerfile"))(t)
	want := ".dockerignore Dockerfile deep/ deep/x/ docs/ docs/README.md keep.log main.go tmp22"
	if got := packedNames(t, raw); got != want {
		t.Errorf("the context holds\n%s, want\n%s", got, want)
	}
	then := time.Now().Add(-time.Hour)
	testkit.Must(t, os.Chtimes(filepath.Join(dir, "app/main.go"), then, then))
	again, err := packContext(disk.PlainFolder(root), "app", "Dockerfile")
	if err != nil || digest.Of(again) != digest.Of(raw) {
		t.Errorf("another time of a file gives another context, %v", err)
	}
	testkit.Must(t, os.Chmod(filepath.Join(dir, "app/main.go"), 0o755))
	if again, err = packContext(disk.PlainFolder(root), "app", "Dockerfile"); err != nil || digest.Of(again) == digest.Of(raw) {
		t.Errorf("another mode of a file gives the same context, %v", err)
	}
}

// A folder that is mounted is the same whatever umask it was checked out under, and
// nothing is left out of it.
func TestTreeDependsOnNoUmask(t *testing.T) {
	packed := map[digest.Digest]bool{}
	for _, mask := range []os.FileMode{0, 0o020} {
		root, dir := rootWith(t, map[string]string{"app/.dockerignore": "*", "app/run.sh": "a", "app/sub/b": "c"})
		for name, mode := range map[string]os.FileMode{"app/run.sh": 0o775, "app/sub": 0o775, "app/sub/b": 0o664, "app/.dockerignore": 0o664} {
			testkit.Must(t, os.Chmod(filepath.Join(dir, name), mode&^mask))
		}
		raw, err := packTree(disk.PlainFolder(root), "app")
		if want := ".dockerignore run.sh sub/ sub/b"; err != nil || packedNames(t, raw) != want {
			t.Fatalf("%v, %s", err, packedNames(t, raw))
		}
		packed[digest.Of(raw)] = true
		testkit.Must(t, os.Chmod(filepath.Join(dir, "app/sub"), 0o777))
		if open, err := packTree(disk.PlainFolder(root), "app"); err != nil || digest.Of(open) == digest.Of(raw) {
			t.Errorf("a folder that all may write is packed as one that they may not, %v", err)
		}
	}
	if len(packed) != 1 {
		t.Error("another umask gives another folder")
	}
}

func TestContextKeepsLinksAndReadsNoneOutside(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "secret")
	testkit.Must(t, os.WriteFile(outside, []byte("hidden text"), 0o600))
	root, dir := rootWith(t, map[string]string{"app/Dockerfile": "FROM scratch"})
	testkit.Must(t, os.Symlink(outside, filepath.Join(dir, "app/link")))
	raw, err := packContext(disk.PlainFolder(root), "app", "Dockerfile")
	if err != nil || packedNames(t, raw) != "Dockerfile link" || bytes.Contains(raw, []byte("hidden text")) {
		t.Errorf("a link: %v, %s", err, packedNames(t, raw))
	}
	testkit.Must(t, os.Symlink(filepath.Dir(outside), filepath.Join(dir, "away")))
	if _, err := packContext(disk.PlainFolder(root), "away", "Dockerfile"); err == nil {
		t.Error("a context outside the folder is read")
	}
	if _, err := packContext(disk.PlainFolder(root), "app", "Containerfile"); err == nil || !strings.Contains(err.Error(), "Containerfile") {
		t.Errorf("a missing Dockerfile: %v", err)
	}
}

// FuzzParseIgnore: any text is taken or refused, and what a list leaves out
// without an exception it leaves out with all that is below.
func FuzzParseIgnore(f *testing.F) {
	for _, text := range []string{"**/*.log\n!keep.log\n", "/node_modules\ndocs/*\n", "a[bc]?\\*", "[", "**\n", "\ufeff# x\n./a/../b"} {
		f.Add([]byte(text), "docs/a.log")
	}
	f.Fuzz(func(t *testing.T, text []byte, name string) {
		l, err := parseIgnore(text)
		if err != nil {
			return
		}
		if out := l.matches(name); out && !l.exceptions && !strings.Contains(name, "\n") && !l.matches(name+"/x") {
			t.Errorf("%q is left out, and what is below it is not", name)
		}
	})
}
