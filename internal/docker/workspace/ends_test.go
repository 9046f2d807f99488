package workspace_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/client"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/dockertest"
	"github.com/steadyfleet/steady/internal/docker/workspace"
)

// TestStoppedStaysStopped: what is not to run has no restart policy, so that a start of the engine, as after a
// reboot, does not bring it back; once it is to run, it has its policy again.
func TestStoppedStaysStopped(t *testing.T) {
	w := newWorldOn(t, dockertest.Private(t))
	always := func(d *workspace.Desired) { d.Spec.Workspace.Restart.Policy = "always" }
	w.want(always)
	w.converge("create")
	for _, c := range []struct {
		name string
		stop func(on bool)
	}{
		{"not declared any more", func(on bool) { w.want(func(d *workspace.Desired) { d.Suspended = on }) }},
		{"the host is disabled", func(on bool) {
			w.o.Halted = func() bool { return on }
			w.anew()
		}},
		{"declared as stopped", func(on bool) {
			w.want(func(d *workspace.Desired) {
				if d.Spec.Workspace.State = spec.Running; on {
					d.Spec.Workspace.State = spec.Stopped
				}
			})
		}},
	} {
		w.sub(c.name, func() {
			c.stop(true)
			w.converge("stop")
			w.d.Restart()
			if box := w.box("web"); box.State.Running || box.HostConfig.RestartPolicy.Name != "no" {
				t.Fatalf("after a start of the engine: %+v %+v", box.State, box.HostConfig.RestartPolicy)
			}
			if got := w.settle(); len(got.acts) != 0 {
				t.Fatalf("it does %v: %s", got.acts, got.first)
			}
			c.stop(false)
			w.converge("start")
			if box := w.one(); !box.State.Running || box.HostConfig.RestartPolicy.Name != "always" {
				t.Fatalf("it is to run again: %+v %+v", box.State, box.HostConfig.RestartPolicy)
			}
			w.d.Restart()
			w.converge() // whatever the engine began
			w.quiet()
		})
	}
}

// TestAnEndThatIsWanted: a container that no policy starts again after a success is done when it ended by itself,
// and does not run again when it is removed. One that was told to end is to run.
func TestAnEndThatIsWanted(t *testing.T) {
	for _, policy := range []string{"", "no", "on-failure"} {
		t.Run("policy "+policy, func(t *testing.T) {
			w := newWorld(t)
			dir := t.TempDir()
			runs := func() int {
				raw, err := os.ReadFile(filepath.Join(dir, "runs"))
				if err != nil && !os.IsNotExist(err) {
					t.Fatal(err)
				}
				return strings.Count(string(raw), "\n")
			}
			w.want(func(d *workspace.Desired) {
				d.Spec.Workspace.Restart.Policy = policy
				d.Spec.Workspace.Mounts = []spec.Mount{{Type: spec.MountBind, Source: dir, Target: "/data"}}
				d.Spec.Workspace.Command = []string{"sh", "-c", "echo ran >> /data/runs"}
			})
			w.toItsEnd()
			w.quiet()
			if got := w.settle(); got.reason.Code != spec.CodeCompleted || runs() != 1 {
				t.Fatalf("it is %s and ran %d times", got.reason, runs())
			}
			w.anew()
			_, err := w.api.ContainerRemove(t.Context(), w.box("web").ID, client.ContainerRemoveOptions{})
			w.ok(err)
			if got := w.settle(); got.name != "converged" || len(got.acts) != 0 || runs() != 1 {
				t.Fatalf("its container was removed: %s %s after %v, and it ran %d times", got.name, got.reason, got.acts, runs())
			}
			w.want(func(d *workspace.Desired) { // as it is where another service waits for it from now on
				d.Spec.Workspace.State, d.Spec.Workspace.Limits.Memory, d.Spec.Workspace.Update.Monitor = spec.Once, 64<<20, 200
			})
			if got := w.settle(); got.name != "converged" || len(got.acts) != 0 || runs() != 1 {
				t.Fatalf("what makes no container anew: %s %s after %v, and it ran %d times", got.name, got.reason, got.acts, runs())
			}
			w.want(func(d *workspace.Desired) { d.Spec.Workspace.Env = []spec.Env{{Name: "A", Value: "2"}} })
			if w.toItsEnd(); runs() != 2 {
				t.Fatalf("another spec: it ran %d times", runs())
			}
			w.r.Delete = true
			w.r.Generation++
			w.converge("remove")
			w.r.Delete = false
			w.r.Generation++
			if w.toItsEnd(); runs() != 3 {
				t.Fatalf("declared once more: it ran %d times", runs())
			}
		})
	}
}

// TestAJobReplacesAJob: the next release's job runs once, and the container of the one before goes, whichever starts
// first. A host that goes back runs the job of before no second time, also where the agent was started meanwhile.
func TestAJobReplacesAJob(t *testing.T) {
	for _, order := range []spec.Order{spec.Auto, spec.StopFirst, spec.StartFirst} {
		t.Run("order "+string(order), func(t *testing.T) {
			w := newWorld(t)
			dir := t.TempDir()
			for version := 1; version <= 2; version++ {
				w.want(func(d *workspace.Desired) {
					d.Spec.Workspace.Update.Order = order
					d.Spec.Workspace.Mounts = []spec.Mount{{Type: spec.MountBind, Source: dir, Target: "/data"}}
					d.Spec.Workspace.Command = []string{"sh", "-c", fmt.Sprint("echo ", version, " >> /data/runs")}
				})
				w.toItsEnd()
				w.quiet()
			}
			w.want(func(d *workspace.Desired) {
				d.Spec.Workspace.Command = []string{"sh", "-c", "echo 1 >> /data/runs"}
			})
			w.anew()
			w.converge()
			w.quiet()
			if got := w.all(); len(got) != 1 {
				t.Errorf("left are %v", got)
			}
			raw, err := os.ReadFile(filepath.Join(dir, "runs"))
			w.ok(err)
			if string(raw) != "1\n2\n" {
				t.Errorf("they ran %q", raw)
			}
		})
	}
}

// TestDoneOverAStartOfTheEngine: what was done is done, whatever the engine's events tell of it afterwards.
func TestDoneOverAStartOfTheEngine(t *testing.T) {
	w := newWorldOn(t, dockertest.Private(t))
	dir := t.TempDir()
	w.want(func(d *workspace.Desired) {
		d.Spec.Workspace.Mounts = []spec.Mount{{Type: spec.MountBind, Source: dir, Target: "/data"}}
		d.Spec.Workspace.Command = []string{"sh", "-c", "echo ran >> /data/runs"}
	})
	w.toItsEnd()
	w.d.Restart()
	w.anew()
	if got := w.settle(); got.name != "converged" || got.reason.Code != spec.CodeCompleted || len(got.acts) != 0 {
		t.Fatalf("after a start of the engine: %s %s after %v", got.name, got.reason, got.acts)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "runs"))
	w.ok(err)
	if string(raw) != "ran\n" {
		t.Errorf("it ran %q", raw)
	}
}

// TestToldToEnd: a service that somebody stops ends with code 0 as well, and is started again.
func TestToldToEnd(t *testing.T) {
	w := newWorld(t)
	w.want(func(d *workspace.Desired) { // as Apache's image has it
		d.Spec.Workspace.StopSignal, d.Spec.Workspace.Command = "SIGWINCH", []string{"sh", "-c", "trap 'exit 0' WINCH; sleep 1000 & wait"}
	})
	w.converge("create")
	_, err := w.api.ContainerStop(t.Context(), w.one().ID, client.ContainerStopOptions{})
	w.ok(err)
	w.converge("start")
	w.anew() // which reads what the engine still has of its events
	_, err = w.api.ContainerStop(t.Context(), w.one().ID, client.ContainerStopOptions{})
	w.ok(err)
	w.converge("start")
}

// TestAFailedJob: it is run again as its restart policy has it, by the engine, and not by the agent.
func TestAFailedJob(t *testing.T) {
	for _, c := range []struct {
		policy spec.Restart
		runs   int
	}{{spec.Restart{}, 1}, {spec.Restart{Policy: "on-failure", Max: 2}, 3}} {
		t.Run(c.policy.Policy, func(t *testing.T) {
			w := newWorld(t)
			dir := t.TempDir()
			w.want(func(d *workspace.Desired) {
				d.Spec.Workspace.State, d.Spec.Workspace.Restart = spec.Once, c.policy
				d.Spec.Workspace.Mounts = []spec.Mount{{Type: spec.MountBind, Source: dir, Target: "/data"}}
				d.Spec.Workspace.Command = []string{"sh", "-c", "echo ran >> /data/runs; exit 3"}
			})
			got := w.settle()
			raw, err := os.ReadFile(filepath.Join(dir, "runs"))
			w.ok(err)
			if n := strings.Count(string(raw), "\n"); got.name != "fail" || n != c.runs || !strings.Contains(got.reason.Message, "exit code 3") {
				t.Fatalf("%s %s after %d runs", got.name, got.reason, n)
			}
		})
	}
}

// TestVariablesOfSecrets: the newline at the end of a file is no part of a variable.
func TestVariablesOfSecrets(t *testing.T) {
	w := newWorld(t)
	w.store.secrets["key"] = "abc\n"
	w.want(func(d *workspace.Desired) {
		d.Spec.Workspace.Env = []spec.Env{{Name: "KEY", Secret: "key"}}
		d.Spec.Workspace.Contents = []spec.Content{{Target: "/run/key", Secret: "key"}}
	})
	w.converge("create")
	w.quiet()
	if got := w.run("sh", "-c", "printf %s \"$KEY\" | wc -c; wc -c < /run/key"); strings.Join(strings.Fields(got), " ") != "3 4" {
		t.Errorf("variable and file have %q bytes", got)
	}
	w.store.secrets["key"] = "abc" // the file differs, the variable does not
	w.converge()
	if got := w.run("sh", "-c", "wc -c < /run/key"); strings.TrimSpace(got) != "3" {
		t.Errorf("the file has %q bytes", got)
	}
}

// TestFilesThatTheBundleWrites: a container that mounts one is made again when it is another one, and when somebody
// put another in its place.
func TestFilesThatTheBundleWrites(t *testing.T) {
	w := newWorld(t)
	w.o.HostRoot = "/"
	w.anew()
	file := filepath.Join(t.TempDir(), "app.conf")
	write := func(text string) digest.Digest {
		w.ok(os.WriteFile(file+".new", []byte(text), 0o644))
		w.ok(os.Rename(file+".new", file))
		return digest.Of([]byte(text))
	}
	one := write("version one")
	w.want(func(d *workspace.Desired) {
		d.Spec.Workspace.Mounts = []spec.Mount{{Type: spec.MountBind, Source: file, Target: "/etc/app.conf", ReadOnly: true, File: one}}
	})
	w.converge("create")
	w.quiet()
	two := write("version two")
	w.want(func(d *workspace.Desired) { d.Spec.Workspace.Mounts[0].File = two })
	if w.converge(); w.run("cat", "/etc/app.conf") != "version two" {
		t.Error("the container has the file of before")
	}
	w.quiet()
	write("by hand")
	write("version two") // as the agent repairs it
	got := w.converge()
	if !slices.Contains(got.acts, "create") || w.run("cat", "/etc/app.conf") != "version two" {
		t.Errorf("it did %v, and the container has %q", got.acts, w.run("cat", "/etc/app.conf"))
	}
	w.quiet()
}

// TestASlowStart: how long a healthcheck may take follows from its own times.
func TestASlowStart(t *testing.T) {
	w := newWorld(t)
	w.want(func(d *workspace.Desired) {
		d.Spec.Workspace.Health = &spec.Health{Test: []string{"CMD", "true"}, Interval: 150 * clock.Second, StartPeriod: 4 * clock.Minute}
	})
	o := w.observe()
	if want := w.m.Want(&w.r, &o).HealthWait; want != 4*clock.Minute+3*(150+30)*clock.Second {
		t.Errorf("the check is given %s", want)
	}
	w.want(func(d *workspace.Desired) { d.Spec.Workspace.Update.HealthWait = clock.Minute })
	if want := w.m.Want(&w.r, &o).HealthWait; want != clock.Minute {
		t.Errorf("the check is given %s", want)
	}
}

// TestWhatDidNotRunIsNotGoneBackTo: the container before may be what failed, and was stopped for it.
func TestWhatDidNotRunIsNotGoneBackTo(t *testing.T) {
	w := newWorld(t)
	w.converge("create")
	w.want(func(d *workspace.Desired) { d.Suspended = true })
	w.converge("stop")
	w.want(func(d *workspace.Desired) {
		d.Suspended, d.Spec.Workspace.Command = false, []string{"sh", "-c", "sleep 1; exit 4"}
		d.Spec.Workspace.Restart.Policy = "always"
	})
	for range 3 {
		w.settle()
		for _, name := range w.all() {
			if box := w.box(strings.TrimPrefix(name, "/"+w.n.Name(""))); box.State.Running && strings.Contains(strings.Join(box.Config.Cmd, " "), "v1") {
				t.Fatal("the container of before runs")
			}
		}
	}
}

// toItsEnd converges, waits until the container has ended by itself, and converges again.
func (w *world) toItsEnd() {
	w.t.Helper()
	w.converge()
	wait := w.api.ContainerWait(w.t.Context(), w.box("web").ID, client.ContainerWaitOptions{})
	select {
	case <-wait.Result:
	case err := <-wait.Error:
		w.t.Fatal(err)
	}
	w.converge()
}
