package docker_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker"
	"github.com/steadyfleet/steady/internal/docker/dockertest"
)

// planted is a machine's root folder with an NVIDIA driver and its toolkit, as far as
// files go. nvidia-ctk adds the runtime to the settings of the engine, as the real one.
func planted(w *world) string {
	root, dir := w.t.TempDir(), filepath.Dir(w.d.Socket())
	put := func(name, text string, mode os.FileMode) {
		path := filepath.Join(root, name)
		w.ok(os.MkdirAll(filepath.Dir(path), 0o755))
		w.ok(os.WriteFile(path, []byte(text), mode))
	}
	put("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.54.03  Tue Jun  6 22:20:39 UTC 2023\n", 0o444)
	put("dev/nvidia0", "", 0o666)
	put("usr/bin/nvidia-ctk", fmt.Sprintf(`#!/bin/sh
[ "$1 $2 $3" = "runtime configure --runtime=docker" ] || exit 2
echo '{"deprecated-key-path": "%s/key.json", "runtimes": {"nvidia": {"path": "/usr/bin/runc"}}}' > "${4#--config=}"
`, dir), 0o755)
	put("run/docker.pid", fmt.Sprint(w.d.PID()), 0o644)
	w.ok(os.MkdirAll(filepath.Join(root, "etc/docker"), 0o755))
	w.ok(os.Symlink(filepath.Join(dir, "daemon.json"), filepath.Join(root, "etc/docker/daemon.json")))
	return root
}

// TestGPUPrerequisites: a bundle whose service asks for GPUs is refused ahead of every
// pull where driver, toolkit or runtime is missing, with what to do; where the bundle
// allows it, the runtime is added to the running engine by the toolkit, and is then used.
func TestGPUPrerequisites(t *testing.T) {
	t.Parallel()
	w := worldOn(t, dockertest.Private(t))
	p := w.d.Proxy()
	w.cfg.Socket = p.Socket()
	set := spec.Set{
		Images: []spec.Image{{Name: "far", Ref: "registry.invalid/far:1", Pull: &spec.Pull{Policy: spec.PullMissing}}, plain("base")},
		Workspaces: []spec.Workspace{{Name: "train", Image: "base", Command: sleeper("here"), Runtime: "nvidia",
			GPUs: []spec.GPU{{Count: 2, Capabilities: []string{"gpu"}}}}},
	}
	refused := func(says string) {
		t.Helper()
		p.Forget()
		err := w.a.host.Prepare(w.ctx, &set)
		if !errors.Is(err, docker.ErrPrerequisite) || !strings.Contains(err.Error(), "workspace train asks for GPUs") || !strings.Contains(err.Error(), says) {
			t.Errorf("expected %q: %v", says, err)
		}
		if asked := p.Writes(); len(asked) > 0 {
			t.Errorf("the engine was asked for %+v", asked)
		}
	}
	w.cfg.HostRoot = t.TempDir()
	w.start()
	refused("the NVIDIA driver is not loaded")
	w.declare(spec.Set{Images: set.Images[1:], Workspaces: set.Workspaces})
	w.until("it does not wait for its GPUs", func() (bool, string) {
		r := w.row(spec.KindWorkspace, "train").Reason
		return r.Code == "prerequisite-missing" && strings.Contains(r.Message, "driver is not loaded"), r.String()
	})
	w.declare(spec.Set{})
	w.converged()
	w.halt(w.a)

	w.cfg.HostRoot = planted(w)
	w.start()
	refused("2 GPUs are asked for and this host has 1")
	set.Workspaces[0].GPUs = nil
	refused("the engine has no runtime nvidia")
	set.ConfigureGPUs, set.Images = true, set.Images[1:]
	w.ok(w.a.host.Prepare(w.ctx, &set))
	w.declare(set)
	w.converged()
	if x := w.inspect(w.one("train", true).ID); x.HostConfig.Runtime != "nvidia" {
		t.Errorf("it runs with runtime %s", x.HostConfig.Runtime)
	}
}
