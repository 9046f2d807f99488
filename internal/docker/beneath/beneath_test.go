package beneath

import (
	"os"
	"path/filepath"
	"testing"
)

func TestNoLinkLeadsOn(t *testing.T) {
	dir := t.TempDir()
	allowed := filepath.Join(dir, "data")
	for _, d := range []string{"a/b", "real"} {
		if err := os.MkdirAll(filepath.Join(allowed, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for from, to := range map[string]string{"link": "/", "a/up": "../..", "inside": "real", "a/b/dangling": "/nowhere", "self": "self"} {
		if err := os.Symlink(to, filepath.Join(allowed, from)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(allowed, "a/file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(allowed, filepath.Join(dir, "alias")); err != nil {
		t.Fatal(err)
	}
	for name, ok := range map[string]bool{
		"data": true, "data/a": true, "data/a/b": true, "data/a/file": true, "data/new": true, "data/a/new/deeper": true,
		"data/link": false, "data/link/etc": false, "data/a/up": false, "data/a/up/x": false, "data/inside": false, "data/inside/new": false,
		"data/a/b/dangling": false, "data/a/b/dangling/x": false, "data/self": false, "database": false,
	} {
		if err := Check(allowed, filepath.Join(dir, name)); (err == nil) != ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := Check(filepath.Join(dir, "alias"), filepath.Join(dir, "alias", "a")); err != nil {
		t.Errorf("the folder that the signer names may be a link: %v", err)
	}
	if err := Check("/", filepath.Join(dir, "alias", "a")); err == nil {
		t.Error("a link below / is followed")
	}
	if err := Check(filepath.Join(dir, "missing"), filepath.Join(dir, "missing", "a")); err != nil {
		t.Error(err)
	}
}
