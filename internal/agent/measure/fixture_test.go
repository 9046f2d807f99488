package measure

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/steadyfleet/steady/internal/testkit"
)

const fixtureID = "0f3d6f0b1c9e4a7d8b2a5c6e7f8091a2b3c4d5e6f708192a3b4c5d6e7f8091a2"

// tree unpacks fixtures into a folder that stands for the root of a host.
func tree(t testing.TB, names ...string) string {
	t.Helper()
	root := t.TempDir()
	for _, name := range names {
		a := testkit.Value(txtar.ParseFile(filepath.Join("testdata", name+".txtar")))(t)
		for _, f := range a.Files {
			put(t, filepath.Join(root, f.Name), string(f.Data))
		}
	}
	return root
}

func put(t testing.TB, path, content string) {
	t.Helper()
	testkit.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	_ = os.Remove(path)
	var err error
	if strings.HasSuffix(path, "/ns/net") {
		err = os.Symlink(strings.TrimSpace(content), path)
	} else {
		err = os.WriteFile(path, []byte(content), 0o644)
	}
	testkit.Must(t, err)
}

func fixtureCollector(t testing.TB, root string) *Collector {
	c := New(Options{Settings: Settings{Workspaces: true}, Proc: root + "/proc", Sys: root + "/sys"})
	t.Cleanup(c.Close)
	return c
}

// Only version 1 made by the engine itself can be had on the machines that run
// these tests, and is read for real in real_test.go. The trees here stand for
// the other layouts. They are written after cgroups(7), the kernel's
// documentation and what systemd and the engine are known to make there.
func TestLayouts(t *testing.T) {
	want := []Workspace{{Name: "web", CPUMicros: new(int64(7654321)), MemBytes: new(int64(8 << 20)), MemLimitBytes: new(int64(64 << 20)),
		Pids: new(int64(7)), IOReadBytes: new(int64(8192)), IOWrittenBytes: new(int64(512)), NetRxBytes: new(int64(11345)), NetTxBytes: new(int64(2300))}}
	for _, layout := range []string{"v1-cgroupfs", "v1-systemd", "v2-systemd", "v2-cgroupfs", "v2-parent", "v2-hidden", "hybrid"} {
		t.Run(layout, func(t *testing.T) {
			c := fixtureCollector(t, tree(t, "common", layout))
			in := Input{Targets: []Target{{Name: "web", PID: 4242, ContainerID: fixtureID}}}
			s := c.Collect(t.Context(), 1000, in)
			if d := cmp.Diff(want, s.Workspaces); d != "" || len(s.Problems) > 0 {
				t.Fatalf("-want +got:\n%s%q", d, s.Problems)
			}
			s = c.Collect(t.Context(), 2000, in)
			if got := s.Workspaces[0].CPUPermille; got == nil || *got != 0 || *s.IntervalMillis != 1000 {
				t.Errorf("an idle workspace has rate %v", got)
			}
		})
	}
}

func TestWorkspaceWithoutContainerID(t *testing.T) {
	root := tree(t, "common", "v2-systemd")
	c := fixtureCollector(t, root)
	in := Input{Targets: []Target{{Name: "web", PID: 4242}}}
	if s := c.Collect(t.Context(), 1, in); len(s.Workspaces) != 1 || s.Workspaces[0].CPUMicros == nil {
		t.Errorf("the process's own group is not read: %+v", s)
	}
	// The root group is the host, never a workspace.
	put(t, root+"/proc/4242/cgroup", "0::/\n")
	put(t, root+"/sys/fs/cgroup/cpu.stat", "usage_usec 99\n")
	if s := c.Collect(t.Context(), 2, in); len(s.Workspaces) != 0 || len(s.Problems) != 1 {
		t.Errorf("the whole host was taken for a workspace: %+v", s)
	}
}

func TestHostNetworkHasNoCountersOfItsOwn(t *testing.T) {
	root := tree(t, "common", "v2-systemd")
	put(t, root+"/proc/4343/cgroup", "0::/system.slice/docker-"+fixtureID+".scope\n")
	put(t, root+"/proc/4343/net/dev", "eth0: 1 0 0 0 0 0 0 0 1 0\n")
	s := fixtureCollector(t, root).Collect(t.Context(), 1, Input{Targets: []Target{{Name: "web", PID: 4343, ContainerID: fixtureID}}})
	if len(s.Workspaces) != 1 || s.Workspaces[0].NetRxBytes != nil || s.Workspaces[0].CPUMicros == nil {
		t.Errorf("got %+v", s)
	}
}

func TestVanishedWorkspaceIsLeftOut(t *testing.T) {
	in := Input{Targets: []Target{{Name: "web", PID: 4242, ContainerID: fixtureID}, {Name: "never", PID: 999}, {Name: "stopped"}}}
	for name, change := range map[string]func(root string){
		"process":         func(root string) { os.RemoveAll(root + "/proc/4242") },
		"control group":   func(root string) { os.RemoveAll(root + "/sys/fs/cgroup/system.slice") },
		"number taken":    func(root string) { put(t, root+"/proc/4242/cgroup", "0::/user.slice/session-1.scope\n") },
		"only its groups": func(root string) { os.Remove(root + "/proc/4242/cgroup") },
	} {
		t.Run(name, func(t *testing.T) {
			root := tree(t, "common", "v2-systemd")
			c := fixtureCollector(t, root)
			if s := c.Collect(t.Context(), 1000, in); len(s.Workspaces) != 1 || len(s.Problems) != 0 {
				t.Fatalf("before: %+v", s)
			}
			change(root)
			if s := c.Collect(t.Context(), 2000, in); len(s.Workspaces) != 0 || len(s.Problems) != 0 {
				t.Errorf("after: %+v", s)
			}
			if len(c.known) != 0 {
				t.Errorf("the collector still knows %d workspaces", len(c.known))
			}
		})
	}
}

func TestControllerThatIsNotSwitchedOn(t *testing.T) {
	root := tree(t, "common", "v2-systemd")
	dir := root + "/sys/fs/cgroup/system.slice/docker-" + fixtureID + ".scope/"
	for _, f := range []string{"memory.current", "memory.max", "memory.stat", "io.stat"} {
		testkit.Must(t, os.Remove(dir+f))
	}
	s := fixtureCollector(t, root).Collect(t.Context(), 1, Input{Targets: []Target{{Name: "web", PID: 4242, ContainerID: fixtureID}}})
	if len(s.Workspaces) != 1 || s.Workspaces[0].MemBytes != nil || s.Workspaces[0].IOReadBytes != nil || *s.Workspaces[0].Pids != 7 {
		t.Errorf("got %+v", s)
	}
}

func TestNoLimitIsAbsent(t *testing.T) {
	for layout, file := range map[string][2]string{
		"v1-cgroupfs": {"/sys/fs/cgroup/memory/docker/" + fixtureID + "/memory.limit_in_bytes", "9223372036854771712\n"},
		"v2-cgroupfs": {"/sys/fs/cgroup/docker/" + fixtureID + "/memory.max", "max\n"},
	} {
		root := tree(t, "common", layout)
		put(t, root+file[0], file[1])
		s := fixtureCollector(t, root).Collect(t.Context(), 1, Input{Targets: []Target{{Name: "web", PID: 4242, ContainerID: fixtureID}}})
		if len(s.Workspaces) != 1 || s.Workspaces[0].MemLimitBytes != nil || s.Workspaces[0].MemBytes == nil {
			t.Errorf("%s: got %+v", layout, s)
		}
	}
}

func TestTogglesAndBounds(t *testing.T) {
	c := fixtureCollector(t, tree(t, "common", "v2-systemd"))
	in := Input{Targets: []Target{{Name: "web", PID: 4242, ContainerID: fixtureID}}, Engine: &Engine{Version: strings.Repeat("ü", 400)}}
	for range MaxRuntimes + 5 {
		in.Runtimes = append(in.Runtimes, "runc\x00\x1b[31m")
	}
	c.Set(Settings{})
	s := c.Collect(t.Context(), 1, in)
	if s.Host != nil || s.GPUs != nil || s.Workspaces != nil || len(s.Runtimes) != MaxRuntimes || s.Runtimes[0] != "runc  [31m" || len(s.Problems) != 1 {
		t.Errorf("got %+v", s)
	}
	c.Set(Settings{Workspaces: true})
	in.Targets = append(in.Targets, make([]Target, MaxWorkspaces+1)...)
	s = c.Collect(t.Context(), 2, in)
	if len(s.Workspaces) != 1 || len(s.Problems) != 2 {
		t.Errorf("got %+v", s)
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
}
