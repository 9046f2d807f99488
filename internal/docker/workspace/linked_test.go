package workspace_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	spec "github.com/steadyfleet/steady/internal/core/container"
	"github.com/steadyfleet/steady/internal/docker/workspace"
)

// TestNoLinkLeadsAMountOut has the engine mount folders below one that is allowed, with
// a link in the place of such a folder when the container is made and when it is started
// again: neither gets to what the link leads to.
func TestNoLinkLeadsAMountOut(t *testing.T) {
	w := newWorld(t)
	allowed, secret := t.TempDir(), t.TempDir()
	for path, text := range map[string]string{filepath.Join(secret, "key"): "the host's own", filepath.Join(allowed, "app", "file"): "fine"} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(secret, filepath.Join(allowed, "link")); err != nil {
		t.Fatal(err)
	}
	mount := func(name string) {
		w.want(func(d *workspace.Desired) {
			d.Spec.Workspace.Mounts = []spec.Mount{{Type: spec.MountBind, Source: filepath.Join(allowed, name), Target: "/data", Beneath: allowed}}
		})
	}
	refused := func(when string) {
		t.Helper()
		got := w.settle()
		if got.err == nil || !strings.Contains(got.err.Error(), "is a link") {
			t.Fatalf("%s: %+v, expected words about the link", when, got)
		}
	}
	mount("link")
	refused("a link at the first start")
	if names := w.all(); len(names) != 0 {
		t.Fatalf("there are containers: %v", names)
	}

	w.anew()
	mount("app")
	w.converge()
	if got := w.run("cat", "/data/file"); got != "fine" {
		t.Fatalf("a plain folder shows %q", got)
	}
	w.want(func(d *workspace.Desired) { d.Spec.Workspace.State = spec.Stopped })
	w.converge()
	if err := os.Rename(filepath.Join(allowed, "app"), filepath.Join(allowed, "was")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, filepath.Join(allowed, "app")); err != nil {
		t.Fatal(err)
	}
	w.want(func(d *workspace.Desired) { d.Spec.Workspace.State = "" })
	refused("a link at a later start")
	if c := w.box("web"); c.State.Running {
		t.Fatal("the container runs with what the link leads to")
	}
}
