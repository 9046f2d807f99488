package workspace_test

import (
	"archive/tar"
	"bytes"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/replace"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/workspace"
)

// tree is a folder of a bundle with one file.
func (w *world) tree(name, text string) *spec.Blob {
	w.t.Helper()
	var out bytes.Buffer
	t := tar.NewWriter(&out)
	w.ok(t.WriteHeader(&tar.Header{Name: "sub/", Typeflag: tar.TypeDir, Mode: 0o755}))
	w.ok(t.WriteHeader(&tar.Header{Name: "sub/" + name, Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(text))}))
	_, err := t.Write([]byte(text))
	w.ok(err)
	w.ok(t.Close())
	return w.blob(out.String())
}

// TestFoldersOfTheBundle: a folder is mounted as it was packed, read-only; another
// content replaces the container. A copy may be written: that is told, kept over a
// start, and still there when the content that it was made of comes back.
func TestFoldersOfTheBundle(t *testing.T) {
	w := newWorld(t)
	declare := func(text string) {
		w.want(func(d *workspace.Desired) {
			d.Spec.Workspace.Contents = []spec.Content{
				{Target: "/etc/app", Blob: w.tree("run.sh", "#!/bin/sh\necho "+text+"\n"), Tree: true},
				{Target: "/srv/app", Blob: w.tree("data", text), Tree: true, Writable: true, UID: 7},
				{Target: "/inline.conf", Blob: w.blob(text), Writable: true},
			}
		})
	}
	declare("one")
	w.converge("create")
	if got := w.run("sh", "-c", "/etc/app/sub/run.sh; cat /srv/app/sub/data; stat -c ' %u' /srv/app/sub"); got != "one\none 7\n" {
		t.Errorf("%q", got)
	}
	if got := w.run("sh", "-c", "echo x 2>&1 > /etc/app/new || echo refused"); !strings.Contains(got, "refused") {
		t.Errorf("a folder that is read is written: %q", got)
	}
	w.quiet()
	w.run("sh", "-c", "echo mine > /srv/app/sub/data; echo more >> /inline.conf; chown 9 /inline.conf")
	w.pass(60_000)
	if got := w.converge(); got.reason.Code != replace.CodeWritten || !strings.Contains(got.reason.Message, "/inline.conf, /srv/app") {
		t.Errorf("what was written is told as %s", got.reason)
	}
	declare("two")
	w.converge("create", "swap", "remove_old")
	if got := w.run("sh", "-c", "/etc/app/sub/run.sh; cat /srv/app/sub/data /inline.conf"); got != "two\ntwotwo" {
		t.Errorf("%q", got)
	}
	if got := len(w.folder()); got != 3+2+2*2 { // mounted, their seeds, and what was written with its seeds
		t.Errorf("files %v", w.folder())
	}
	declare("one")
	w.converge("create", "swap", "remove_old")
	if got := w.run("sh", "-c", "cat /srv/app/sub/data /inline.conf"); got != "mine\nonemore\n" {
		t.Errorf("what was written does not come back: %q", got)
	}
}

// TestCommandsAroundStartsAndStops: they run after every start, also one by hand,
// and before every stop; one that fails sends a replacement back.
func TestCommandsAroundStartsAndStops(t *testing.T) {
	w := newWorld(t)
	hooks := func(start, stop string) {
		w.want(func(d *workspace.Desired) {
			d.Spec.Workspace.Mounts = []spec.Mount{{Type: spec.MountAnonymous, Target: "/log"}}
			d.Spec.Workspace.PostStart = []spec.Hook{{Command: []string{"sh", "-c", start}, Env: []string{"WHO=hook"}, WorkingDir: "/log"}}
			d.Spec.Workspace.PreStop = []spec.Hook{{Command: []string{"sh", "-c", stop}, User: "0"}}
		})
	}
	hooks("echo start $WHO $PWD >> /log/log", "echo stop >> /log/log")
	w.converge("create", "post_start")
	w.quiet()
	w.ok(w.e.ContainerStop(t.Context(), w.one().ID, 0, ""))
	w.converge("start", "post_start")
	hooks("echo again >> /log/log", "echo gone >> /log/log; exit 4")
	w.converge("create", "swap", "post_start", "remove_old")
	if got := w.run("cat", "/log/log"); got != "start hook /log\nstart hook /log\nstop\nagain\n" {
		t.Errorf("%q", got)
	}
	hooks("echo broken; exit 3", "true")
	got := w.settle()
	if got.err == nil || !strings.Contains(got.err.Error(), "post_start command 1") || !strings.Contains(got.err.Error(), "exit code 3; output: broken") {
		t.Fatalf("%+v", got)
	}
	if got := w.run("cat", "/log/log"); !strings.HasSuffix(got, "again\ngone\n") {
		t.Errorf("%q", got)
	}
	hooks("echo fine >> /log/log", "true")
	if got := w.converge(); got.reason.Code != replace.CodeHookFailed || !strings.Contains(got.reason.Message, "pre_stop command 1 (sh -c echo gone >> /log/log; exit 4) ended with exit code 4") {
		t.Errorf("the command that failed before the stop is told as %s after %v", got.reason, got.acts)
	}
}

// TestHardwareAddress: a declared one is that of the container, on a network and on
// the engine's own bridge, and nothing differs then.
func TestHardwareAddress(t *testing.T) {
	w := newWorld(t)
	w.want(func(d *workspace.Desired) { d.Spec.Workspace.MAC = "02:42:0A:4D:01:63" })
	w.converge("create")
	w.quiet()
	if got := w.run("cat", "/sys/class/net/eth0/address"); got != "02:42:0a:4d:01:63\n" {
		t.Errorf("on a network: %q", got)
	}
	w.want(func(d *workspace.Desired) { d.Spec.Workspace.MAC = "02:42:0a:4d:01:64" })
	w.converge("create", "swap", "remove_old")
	w.want(func(d *workspace.Desired) {
		d.Spec.Workspace.Networks, d.Spec.Uses.Networks, d.Spec.Workspace.NetworkMode = nil, nil, "bridge"
	})
	w.converge()
	w.quiet()
	if got := w.run("cat", "/sys/class/net/eth0/address"); got != "02:42:0a:4d:01:64\n" {
		t.Errorf("on the bridge: %q", got)
	}
}
