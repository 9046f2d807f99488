package release

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/trust"
)

// contents reads every file below a folder, with its mode.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		out[name] = string(raw)
		return err
	})
	testkit.Must(t, err)
	return out
}

// TestFailedStepLeavesTheFolder: whatever step of writing, signing or refreshing
// fails, the parent folder is as it was, byte for byte.
func TestFailedStepLeavesTheFolder(t *testing.T) {
	src := load(t, example(t, "quickstart"))
	k, other := newKeys(t, "acme"), newKeys(t, "beta")
	other.release, other.timestamp = signer(t, 8), signer(t, 9)
	rel := build(t, src, BuildOptions{Ref: "r1", Now: t0})
	for _, c := range []struct {
		name   string
		signed bool
		step   func(dir string) error
		words  string
	}{
		{"sign with a wrong release key", false, func(dir string) error {
			_, err := Sign(dir, SignOptions{Release: []trust.Signer{k.timestamp}, Timestamp: []trust.Signer{k.timestamp}, Roots: k.roots, Now: t0})
			return err
		}, "is no release key"},
		{"sign with the roots of another fleet's keys", true, func(dir string) error {
			_, err := Sign(dir, SignOptions{Release: []trust.Signer{other.release}, Timestamp: []trust.Signer{k.timestamp}, Roots: other.roots, Now: t0})
			return err
		}, "fleet"},
		{"refresh with a key that nobody names", true, func(dir string) error {
			_, err := Refresh(dir, RefreshOptions{State: k.state(t), Now: t0.Add(clock.Hour), Signers: []trust.Signer{other.timestamp}})
			return err
		}, "is not one that root version 1 names"},
		{"refresh with a key that was replaced", true, func(dir string) error {
			_, err := Refresh(dir, RefreshOptions{State: k.state(t), Roots: k.roots, Now: t0.Add(clock.Hour), Signers: []trust.Signer{other.timestamp}})
			return err
		}, "it was replaced, or is of another fleet; name the folder of the present keys with --keys"},
		{"refresh what is not signed", false, func(dir string) error {
			_, err := Refresh(dir, RefreshOptions{State: k.state(t), Now: t0, Signers: []trust.Signer{k.timestamp}})
			return err
		}, "is not signed yet"},
		{"refresh from a folder that is none", true, func(dir string) error {
			_, err := Refresh(dir, RefreshOptions{From: dir + "-none", State: k.state(t), Now: t0, Signers: []trust.Signer{k.timestamp}})
			return err
		}, "cannot be opened"},
		{"write a file that has no place", true, func(dir string) error {
			files := maps.Clone(rel.Files)
			files["zzz.txt"] = nil // after all others
			return WriteKeeping(dir, files, dir+".previous")
		}, "has no place in a release"},
		{"write and sign with a wrong key", true, func(dir string) error {
			_, err := WriteSigned(dir, rel.Files, SignOptions{Release: []trust.Signer{other.release}, Timestamp: []trust.Signer{k.timestamp}, Roots: k.roots, Now: t0})
			return err
		}, "key"},
	} {
		parent := t.TempDir()
		dir := filepath.Join(parent, "release")
		testkit.Must(t, Write(dir, rel.Files))
		if c.signed {
			k.sign(t, dir, t0)
		}
		before := contents(t, parent)
		if err := c.step(dir); err == nil || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v, want %q", c.name, err, c.words)
		}
		if after := contents(t, parent); !maps.Equal(before, after) {
			t.Errorf("%s: the folder changed", c.name)
		}
		if left, err := os.ReadDir(parent); err != nil || len(left) != 1 {
			t.Errorf("%s: left behind: %v, %v", c.name, left, err)
		}
	}
}

// TestRefreshIntoAnotherFolder takes the release from one folder, leaves that one as
// it is, and replaces the other one through a link to it.
func TestRefreshIntoAnotherFolder(t *testing.T) {
	k := newKeys(t, "acme")
	rel := build(t, load(t, example(t, "quickstart")), BuildOptions{Ref: "r1", Now: t0})
	parent := t.TempDir()
	from, kept, link := filepath.Join(parent, "from"), filepath.Join(parent, "kept"), filepath.Join(parent, "link")
	testkit.Must(t, Write(from, rel.Files))
	k.sign(t, from, t0)
	before := contents(t, from)
	for i, dir := range []string{kept, link} {
		if dir == link {
			testkit.Must(t, os.Symlink(kept, link))
		}
		v := testkit.Value(Refresh(dir, RefreshOptions{From: from, State: k.state(t), Roots: k.roots, Now: t0.Add(clock.Duration(i+1) * clock.Hour), Signers: []trust.Signer{k.timestamp}}))(t)
		again, err := VerifyDir(kept, k.state(t), t0.Add(clock.Day))
		if err != nil || again.Timestamp.Digest() != v.Timestamp.Digest() || v.Timestamp.Value().IssuedAt != t0.Add(clock.Duration(i+1)*clock.Hour) {
			t.Fatalf("%v", err)
		}
		if _, err := v.fsys.Open(ResolvedPath); err != nil {
			t.Error(err)
		}
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link was replaced: %v, %v", info, err)
	}
	if !maps.Equal(before, contents(t, from)) {
		t.Error("the release that was taken changed")
	}
	photos := filepath.Join(parent, "photos")
	testkit.Must(t, os.MkdirAll(filepath.Join(photos, "summer"), 0o755))
	if _, err := Refresh(photos, RefreshOptions{From: from, State: k.state(t), Now: t0, Signers: []trust.Signer{k.timestamp}}); err == nil {
		t.Error("a folder of photos was replaced")
	}
}

// TestWriteKeepsTheFolderOfBefore under its other name, whatever that had.
func TestWriteKeepsTheFolderOfBefore(t *testing.T) {
	k := newKeys(t, "acme")
	rel := build(t, load(t, example(t, "quickstart")), BuildOptions{Ref: "r1", Now: t0})
	dir := filepath.Join(t.TempDir(), "release")
	for range 3 {
		testkit.Must(t, WriteKeeping(dir, rel.Files, dir+".previous"))
		k.sign(t, dir, t0)
	}
	if _, err := VerifyDir(dir+".previous", k.state(t), t0); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(left) != 2 {
		t.Errorf("%v, %v", left, err)
	}
}
