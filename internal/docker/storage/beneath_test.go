package storage

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/steadyfleet/steady/internal/testkit"
)

func TestNoLinkLeadsOn(t *testing.T) {
	dir := t.TempDir()
	allowed := filepath.Join(dir, "data")
	for _, d := range []string{"a/b", "real"} {
		testkit.Must(t, os.MkdirAll(filepath.Join(allowed, d), 0o755))
	}
	for from, to := range map[string]string{"link": "/", "a/up": "../..", "inside": "real", "a/b/dangling": "/nowhere", "self": "self"} {
		testkit.Must(t, os.Symlink(to, filepath.Join(allowed, from)))
	}
	testkit.Must(t, os.WriteFile(filepath.Join(allowed, "a/file"), nil, 0o600))
	testkit.Must(t, os.Symlink(allowed, filepath.Join(dir, "alias")))
	for name, ok := range map[string]bool{
		"data": true, "data/a": true, "data/a/b": true, "data/a/file": true, "data/new": true, "data/a/new/deeper": true,
		"data/link": false, "data/link/etc": false, "data/a/up": false, "data/a/up/x": false, "data/inside": false, "data/inside/new": false,
		"data/a/b/dangling": false, "data/a/b/dangling/x": false, "data/self": false, "database": false,
	} {
		if err := CheckBeneath(allowed, filepath.Join(dir, name)); (err == nil) != ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := CheckBeneath(filepath.Join(dir, "alias"), filepath.Join(dir, "alias", "a")); err != nil {
		t.Errorf("the folder that the signer names may be a link: %v", err)
	}
	if err := CheckBeneath("/", filepath.Join(dir, "alias", "a")); err == nil {
		t.Error("a link below / is followed")
	}
	if err := CheckBeneath(filepath.Join(dir, "missing"), filepath.Join(dir, "missing", "a")); err != nil {
		t.Error(err)
	}
}
