package workspace_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/workspace"
	"github.com/steadyfleet/steady/internal/testkit"
)

// TestNoLinkLeadsAMountOut has the engine mount folders below one that is allowed, with
// a link in the place of such a folder when the container is made and when it is started
// again: neither gets to what the link leads to.
func TestNoLinkLeadsAMountOut(t *testing.T) {
	w := newWorld(t)
	allowed, secret := t.TempDir(), t.TempDir()
	for path, text := range map[string]string{filepath.Join(secret, "key"): "the host's own", filepath.Join(allowed, "app", "file"): "fine"} {
		testkit.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		testkit.Must(t, os.WriteFile(path, []byte(text), 0o644))
	}
	testkit.Must(t, os.Symlink(secret, filepath.Join(allowed, "link")))
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
	testkit.Must(t, os.Rename(filepath.Join(allowed, "app"), filepath.Join(allowed, "was")))
	testkit.Must(t, os.Symlink(secret, filepath.Join(allowed, "app")))
	w.want(func(d *workspace.Desired) { d.Spec.Workspace.State = "" })
	refused("a link at a later start")
	if c := w.box("web"); c.State.Running {
		t.Fatal("the container runs with what the link leads to")
	}
}
