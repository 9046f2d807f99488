package workspace_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/replace"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/convert"
	"github.com/steadyfleet/steady/internal/docker/dockerapi"
	"github.com/steadyfleet/steady/internal/docker/dockertest"
	"github.com/steadyfleet/steady/internal/docker/workspace"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// TestDeployAndRetire: made once, left alone, and gone without a trace.
func TestDeployAndRetire(t *testing.T) {
	w := newWorld(t)
	w.store.secrets["key"] = "hush"
	w.want(func(d *workspace.Desired) {
		d.Spec.Workspace.Contents = []spec.Content{{Target: "/etc/app.conf", Blob: w.blob("one\n")}, {Target: "/run/key", Secret: "key", Mode: 0o400}}
		d.Spec.Workspace.Env = []spec.Env{{Name: "KEY", Secret: "key"}}
		d.Spec.Workspace.Mounts = []spec.Mount{{Type: spec.MountAnonymous, Target: "/data"}}
	})
	w.converge("create")
	w.quiet()
	if got := w.run("sh", "-c", "cat /etc/app.conf /run/key; echo $KEY; stat -c %a /run/key"); got != "one\nhush"+"hush\n400\n" {
		t.Errorf("%q", got)
	}
	volume := w.one().Mounts
	w.r.Delete = true
	w.r.Generation++
	w.converge("remove")
	if got := w.all(); len(got) != 0 || len(w.folder()) != 0 {
		t.Errorf("left: %v %v", got, w.folder())
	}
	for _, m := range volume {
		if m.Name != "" {
			if _, err := w.api.VolumeInspect(t.Context(), m.Name, client.VolumeInspectOptions{}); err == nil {
				t.Errorf("the volume of %s is left", m.Destination)
			}
		}
	}
}

// TestInPlace: what an engine can change does not replace the container, and what
// it can take back neither.
func TestInPlace(t *testing.T) {
	w := newWorld(t)
	w.converge("create")
	before, declared := w.one(), w.r.Desired
	for _, c := range []struct {
		name   string
		change func(d *workspace.Desired)
		acts   []string
		check  func(c container.InspectResponse) bool
		back   []string // acts
	}{
		{"title", func(d *workspace.Desired) { d.Spec.Workspace.Title = "shop" }, []string{"rename"},
			func(container.InspectResponse) bool { return w.box("shop").State.Running }, []string{"rename"}},
		{"network", func(d *workspace.Desired) {
			_, err := w.api.NetworkCreate(w.t.Context(), w.n.Name("other"), client.NetworkCreateOptions{})
			w.ok(err)
			d.Spec.Uses.Networks["other"] = w.n.Name("other")
			d.Spec.Workspace.Networks = []spec.Attachment{{Network: "net", Aliases: []string{"site"}}, {Network: "other", Aliases: []string{"more"}}}
		}, []string{"adjust"}, func(c container.InspectResponse) bool {
			return len(c.NetworkSettings.Networks) == 2 && slices.Contains(c.NetworkSettings.Networks[w.n.Name("other")].Aliases, "more")
		}, []string{"adjust"}},
		{"aliases", func(d *workspace.Desired) { d.Spec.Workspace.Networks[0].Aliases = []string{"new", "site"} }, []string{"adjust"},
			func(c container.InspectResponse) bool {
				return slices.Contains(c.NetworkSettings.Networks[w.n.Name("net")].Aliases, "new")
			}, []string{"adjust"}},
		{"restart policy", func(d *workspace.Desired) { d.Spec.Workspace.Restart.Policy = "always" }, []string{"adjust"},
			func(c container.InspectResponse) bool { return c.HostConfig.RestartPolicy.Name == "always" }, []string{"adjust"}},
		{"restart", func(d *workspace.Desired) { d.Verb, d.Nonce = replace.Restart, "1" }, []string{"start"},
			func(c container.InspectResponse) bool {
				return c.State.Running && c.State.StartedAt != before.State.StartedAt
			}, nil},
		{"stopped", func(d *workspace.Desired) { d.Spec.Workspace.State = spec.Stopped }, []string{"stop"},
			func(c container.InspectResponse) bool { return !c.State.Running }, []string{"start"}},
		{"suspended", func(d *workspace.Desired) { d.Suspended = true }, []string{"stop"},
			func(c container.InspectResponse) bool { return !c.State.Running }, []string{"start"}},
		// The last: an engine cannot take a bound of the memory away.
		{"limits", func(d *workspace.Desired) {
			d.Spec.Workspace.Limits.Memory, d.Spec.Workspace.Limits.CPUShares = 64<<20, 512
		}, []string{"adjust"},
			func(c container.InspectResponse) bool {
				return c.HostConfig.Memory == 64<<20 && c.HostConfig.CPUShares == 512
			}, []string{"create", "swap", "remove_old"}},
	} {
		w.sub(c.name, func() {
			w.want(c.change)
			w.converge(c.acts...)
			after, err := w.api.ContainerInspect(w.t.Context(), before.ID, client.ContainerInspectOptions{})
			w.ok(err)
			if !c.check(after.Container) {
				w.t.Errorf("after: %+v %+v", after.Container.State, after.Container.HostConfig)
			}
			w.quiet()
			w.want(func(d *workspace.Desired) { *d = declared })
			if got := w.converge(); !slices.Equal(got.acts, c.back) {
				w.t.Errorf("back as it was after %v, want %v", got.acts, c.back)
			}
		})
	}
}

// TestReplace: what an engine cannot change replaces the container; name and data
// stay, and it is told why.
func TestReplace(t *testing.T) {
	w := newWorld(t)
	w.want(func(d *workspace.Desired) {
		d.Spec.Workspace.Mounts = []spec.Mount{{Type: spec.MountAnonymous, Target: "/data"}}
	})
	w.converge("create")
	w.run("sh", "-c", "echo kept >/data/f")
	for _, c := range []struct {
		name   string
		change func(d *workspace.Desired)
		why    string
	}{
		{"environment", func(d *workspace.Desired) { d.Spec.Workspace.Env[0].Value = "2" }, "env/A: 1 -> 2"},
		{"command", func(d *workspace.Desired) { d.Spec.Workspace.Command = sleeper("v2") }, "command"},
		{"image", func(d *workspace.Desired) { d.Spec.Uses.Image = w.build("app", "ENV X=1") }, "image: "},
		{"port", func(d *workspace.Desired) {
			d.Spec.Workspace.Ports = []spec.Port{{Port: 80, Protocol: "tcp"}}
		}, "port"},
		{"shm", func(d *workspace.Desired) { d.Spec.Workspace.ShmSize = 1 << 20 }, "shm-size"},
		{"content", func(d *workspace.Desired) {
			d.Spec.Workspace.Contents = []spec.Content{{Target: "/etc/x", Blob: w.blob("x")}}
		}, "/etc/x"},
		{"redeploy", func(d *workspace.Desired) { d.Verb, d.Nonce = replace.Redeploy, "7" }, "redeploy"},
	} {
		w.sub(c.name, func() {
			before := w.one()
			w.want(c.change)
			got := w.converge("create", "swap", "remove_old")
			if !strings.Contains(got.first.Message, c.why) || got.first.Code != replace.CodeReplace {
				w.t.Errorf("why: %s", got.first)
			}
			if after := w.one(); after.ID == before.ID {
				w.t.Error("the same container")
			}
			if got := w.run("cat", "/data/f"); got != "kept\n" {
				w.t.Errorf("data %q", got)
			}
			w.quiet()
		})
	}
}

// TestImageTaggedAgain: the tag stays and means another image.
func TestImageTaggedAgain(t *testing.T) {
	w := newWorld(t)
	w.want(func(d *workspace.Desired) { d.Spec.Uses.Image = w.build("app", "ENV X=1\nVOLUME /data") })
	w.converge("create")
	w.run("sh", "-c", "echo kept >/data/f")
	w.build("app", "ENV X=2\nVOLUME /data")
	w.converge("create", "swap", "remove_old")
	if got := w.run("sh", "-c", "echo $X; cat /data/f"); got != "2\nkept\n" {
		t.Errorf("%q", got)
	}
	w.quiet()
}

// TestFailingReplacement: the one before is back, runs and has its data, and the
// failure says what the new one printed.
func TestFailingReplacement(t *testing.T) {
	for name, command := range map[string][]string{
		"not found": {"/no/such/program"},
		"ends":      {"sh", "-c", "echo no database; exit 3"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.want(func(d *workspace.Desired) {
				d.Spec.Workspace.Mounts = []spec.Mount{{Type: spec.MountAnonymous, Target: "/data"}}
			})
			w.converge("create")
			before := w.one()
			w.run("sh", "-c", "echo kept >/data/f")
			w.want(func(d *workspace.Desired) { // it is given the time to fail
				d.Spec.Workspace.Command, d.Spec.Workspace.Update.Monitor = command, clock.Hour
			})
			got := w.until(func(d engine.Decision, err error) bool { return err != nil })
			if !strings.Contains(got.Error(), "was not good") || name == "ends" && !strings.Contains(got.Error(), "no database") {
				t.Errorf("error: %v", got)
			}
			if after := w.one(); after.ID != before.ID {
				t.Error("not the one before")
			}
			if got := w.run("cat", "/data/f"); got != "kept\n" {
				t.Errorf("data %q", got)
			}
			w.want(func(d *workspace.Desired) { d.Spec.Workspace.Command = sleeper("v1") })
			w.converge()
			if w.one().ID != before.ID {
				t.Error("replaced although it is as desired")
			}
			w.quiet()
		})
	}
}

// until takes turns, waiting for the container to end where it is watched.
func (w *world) until(stop func(engine.Decision, error) bool) error {
	w.t.Helper()
	for range 20 {
		for len(w.events) > 0 {
			<-w.events
		}
		d, err := w.turn()
		if stop(d, err) {
			return err
		}
		testkit.Must(w.t, err)
		if d.Name() == "wait" {
			c := w.box("web")
			if c.State.Running {
				r := w.api.ContainerWait(w.t.Context(), c.ID, client.ContainerWaitOptions{})
				select {
				case <-r.Result:
				case err := <-r.Error:
					w.t.Fatal(err)
				}
			}
		}
	}
	w.t.Fatal("does not come to that")
	return nil
}

// TestHealthGate: the old one goes when the new one's healthcheck passes, and
// stays when it fails.
func TestHealthGate(t *testing.T) {
	w := newWorld(t)
	health := func(test string) *spec.Health {
		return &spec.Health{Test: []string{"CMD-SHELL", test}, Interval: 200, Timeout: clock.Minute, Retries: 2}
	}
	w.want(func(d *workspace.Desired) { d.Spec.Workspace.Health = health("true") })
	w.converge("create")
	w.want(func(d *workspace.Desired) { d.Spec.Workspace.Health = health("test -e /tmp") })
	w.converge("create", "start", "promote", "remove_old") // nothing forbids to start first
	good := w.one()
	w.want(func(d *workspace.Desired) { d.Spec.Workspace.Health = health("false") })
	got := w.settle()
	if got.err == nil || !strings.Contains(got.err.Error(), "health check") || w.one().ID != good.ID {
		t.Errorf("%+v", got)
	}
	w.want(func(d *workspace.Desired) {
		d.Spec.Workspace.Health = health("false")
		d.Spec.Workspace.Update.Order = spec.StopFirst
	})
	got = w.settle()
	if got.err == nil || !strings.Contains(got.err.Error(), "health check") || w.one().ID != good.ID {
		t.Errorf("stop first: %+v", got)
	}
}

// TestOnceRuns: it runs to its end, and again after another exit code than 0 where its restart policy has that.
func TestOnceRuns(t *testing.T) {
	w := newWorld(t)
	w.want(func(d *workspace.Desired) {
		d.Spec.Workspace.State, d.Spec.Workspace.Restart.Policy = spec.Once, "on-failure"
		d.Spec.Workspace.Mounts = []spec.Mount{{Type: spec.MountAnonymous, Target: "/data"}}
		d.Spec.Workspace.Command = []string{"sh", "-c", "test -e /data/f || { touch /data/f; echo first; exit 4; }"}
	})
	got := w.converge("create", "note")
	if c := w.box("web"); c.State.Running || c.State.ExitCode != 0 {
		t.Errorf("%+v %+v", got, c.State)
	}
	w.quiet()
}

// byHand are changes that people make to a running container with the engine's own
// tools.
var byHand = map[string]func(ctx context.Context, w *world, c container.InspectResponse) error{
	"stop": func(ctx context.Context, w *world, c container.InspectResponse) error {
		_, err := w.api.ContainerStop(ctx, c.ID, client.ContainerStopOptions{})
		return err
	},
	"kill": func(ctx context.Context, w *world, c container.InspectResponse) error {
		r := w.api.ContainerWait(ctx, c.ID, client.ContainerWaitOptions{})
		if _, err := w.api.ContainerKill(ctx, c.ID, client.ContainerKillOptions{Signal: "KILL"}); err != nil {
			return err
		}
		select {
		case <-r.Result:
			return nil
		case err := <-r.Error:
			return err
		}
	},
	"pause": func(ctx context.Context, w *world, c container.InspectResponse) error {
		return dockertest.Pause(func() error {
			_, err := w.api.ContainerPause(ctx, c.ID, client.ContainerPauseOptions{})
			return err
		})
	},
	"rename": func(ctx context.Context, w *world, c container.InspectResponse) error {
		_, err := w.api.ContainerRename(ctx, c.ID, client.ContainerRenameOptions{NewName: w.n.Name("mine")})
		return err
	},
	"disconnect": func(ctx context.Context, w *world, c container.InspectResponse) error {
		_, err := w.api.NetworkDisconnect(ctx, w.n.Name("net"), client.NetworkDisconnectOptions{Container: c.ID, Force: true})
		return err
	},
	"update": func(ctx context.Context, w *world, c container.InspectResponse) error {
		_, err := w.api.ContainerUpdate(ctx, c.ID, client.ContainerUpdateOptions{
			RestartPolicy: &container.RestartPolicy{Name: "always"}})
		return err
	},
	"limit": func(ctx context.Context, w *world, c container.InspectResponse) error {
		_, err := w.api.ContainerUpdate(ctx, c.ID, client.ContainerUpdateOptions{
			Resources: &container.Resources{Memory: 64 << 20, MemorySwap: 128 << 20}})
		return err
	},
	"remove": func(ctx context.Context, w *world, c container.InspectResponse) error {
		_, err := w.api.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true})
		return err
	},
	"network gone": func(ctx context.Context, w *world, c container.InspectResponse) error {
		// Trap 13: the network goes while the container is stopped, and another one of
		// its name comes.
		if _, err := w.api.ContainerStop(ctx, c.ID, client.ContainerStopOptions{}); err != nil {
			return err
		}
		if _, err := w.api.NetworkRemove(ctx, w.n.Name("net"), client.NetworkRemoveOptions{}); err != nil {
			return err
		}
		_, err := w.api.NetworkCreate(ctx, w.n.Name("net"), client.NetworkCreateOptions{})
		return err
	},
}

// TestOutsideChanges: what somebody does by hand is undone, without a replace
// where none is needed.
func TestOutsideChanges(t *testing.T) {
	w := newWorld(t)
	w.converge("create")
	for _, c := range []struct {
		what string
		acts []string
		same bool
	}{
		{"stop", []string{"start"}, true},
		{"kill", []string{"start"}, true},
		{"pause", []string{"unpause"}, true},
		{"rename", []string{"rename"}, true},
		{"disconnect", []string{"adjust"}, true},
		{"update", []string{"adjust"}, true},
		{"limit", []string{"create", "swap", "remove_old"}, false},
		{"remove", []string{"create"}, false},
		{"network gone", []string{"adjust", "start"}, true},
	} {
		w.sub(c.what, func() {
			before := w.one()
			w.ok(byHand[c.what](w.t.Context(), w, before))
			w.converge(c.acts...)
			after := w.one()
			if same := after.ID == before.ID; same != c.same {
				w.t.Errorf("the same container: %v", same)
			}
			if a := after.NetworkSettings.Networks[w.n.Name("net")]; a == nil || !slices.Contains(a.Aliases, "site") {
				w.t.Errorf("trap 14: networks %v", keys(after.NetworkSettings.Networks))
			}
			w.quiet()
		})
	}
}

// TestReportOnly: where only reports are asked for, what somebody does by hand is
// told and left, one change after the other.
func TestReportOnly(t *testing.T) {
	w := newWorld(t)
	w.want(func(d *workspace.Desired) { d.Spec.Workspace.ReportOnly = true })
	w.converge("create")
	c := w.one()
	for _, x := range []struct{ what, told string }{
		{"pause", "somebody paused it"},
		{"update", "restart: "},
		{"disconnect", "network/"},
		{"limit", "limit/memory: "},
		{"stop", "ended with exit code "},
		{"kill", "ended with exit code 137"},
		{"remove", "removed by somebody other than the agent"},
	} {
		w.sub(x.what, func() {
			w.ok(byHand[x.what](w.t.Context(), w, c))
			writes := w.e.Calls().Writes
			code := replace.CodeReported
			if slices.Contains([]string{"stop", "kill", "remove"}, x.what) {
				code = spec.CodeStopped // it is not shown as running
			}
			if got := w.settle(); got.name != "converged" || got.reason.Code != code || !strings.Contains(got.reason.Message, x.told) || w.e.Calls().Writes != writes {
				w.t.Errorf("%+v", got)
			}
			switch x.what { // by hand as well
			case "pause":
				_, err := w.api.ContainerUnpause(w.t.Context(), c.ID, client.ContainerUnpauseOptions{})
				w.ok(err)
			case "stop":
				_, err := w.api.ContainerStart(w.t.Context(), c.ID, client.ContainerStartOptions{})
				w.ok(err)
			}
		})
	}
}

// TestS35NamesOfOthers: a container of somebody else under the name is left
// alone and named, and so is one whose labels were copied.
func TestS35NamesOfOthers(t *testing.T) {
	w := newWorld(t)
	w.converge("create")
	labels := w.one().Config.Labels
	made, err := w.api.ContainerCreate(t.Context(), client.ContainerCreateOptions{Name: w.n.Name("copy"),
		Config: &container.Config{Image: w.d.Busybox(t), Cmd: sleeper("x"), Labels: labels}})
	w.ok(err)
	w.quiet()
	w.r.Delete = true
	w.r.Generation++
	w.converge("remove")
	if _, err := w.api.ContainerInspect(t.Context(), made.ID, client.ContainerInspectOptions{}); err != nil {
		t.Error(err)
	}
	w.ok(rename(t.Context(), w, made.ID, w.n.Name("x")))
	other, err := w.api.ContainerCreate(t.Context(), client.ContainerCreateOptions{Name: w.n.Name("web"),
		Config: &container.Config{Image: w.d.Busybox(t), Cmd: sleeper("x")}})
	w.ok(err)
	w.r.Delete = false
	w.r.Generation++
	if got := w.settle(); got.name != "fail" || got.reason.Code != replace.CodeNameInUse || !strings.Contains(got.reason.Message, other.ID[:12]) {
		t.Errorf("%+v", got)
	}
}

func rename(ctx context.Context, w *world, id, name string) error {
	_, err := w.api.ContainerRename(ctx, id, client.ContainerRenameOptions{NewName: name})
	return err
}

// TestFourAgents: four reconcilers that share nothing but the engine make one
// container of a workspace, and one of each newer declaration.
func TestFourAgents(t *testing.T) {
	w := newWorld(t)
	agents := make([]*world, 4)
	for i := range agents {
		o := w.o
		o.Engine, o.Ledger, o.Dir = w.open(), &book{m: map[string][]byte{}}, t.TempDir()
		a := &world{t: t, d: w.d, api: w.api, e: w.e, n: w.n, r: w.r, store: w.store, now: 1}
		o.Now = a.clock
		a.o, a.m = o, workspace.New(o)
		agents[i] = a
	}
	for round := range 3 {
		var wg sync.WaitGroup
		for _, a := range agents {
			a.want(func(d *workspace.Desired) { d.Spec.Workspace.Env[0].Value = string(rune('1' + round)) })
			wg.Go(func() { a.race() })
		}
		wg.Wait()
		w.neverTwo()
		if c := w.one(); !slices.Contains(c.Config.Env, "A="+string(rune('1'+round))) {
			t.Errorf("round %d: %v", round, c.Config.Env)
		}
	}
}

// neverTwo reads the events up to now: no two containers ran at once.
func (w *world) neverTwo() {
	w.t.Helper()
	running := map[string]bool{}
	for id := range w.runs {
		running[id] = true
	}
	w.hear(func(ev dockerapi.Event) {
		switch {
		case ev.Subject != dockerapi.Container || ev.Attributes[convert.LabelOwner] != "f/"+w.n.Prefix:
		case ev.Action == "start":
			if running[ev.ID] = true; len(running) > 1 {
				w.t.Errorf("%d containers run at once", len(running))
			}
		case ev.Action == "die":
			delete(running, ev.ID)
		}
	})
	w.runs = running
}

// race takes turns beside others until all is as desired. They come fast: what one
// agent is at may take the engine as long as hundreds of looks of another.
func (w *world) race() {
	ctx := w.t.Context()
	var last engine.Decision
	for end := time.Now().Add(patience); time.Now().Before(end); {
		o, err := w.m.Observe(ctx, w.r)
		if err != nil {
			continue // somebody removed what was looked at
		}
		d := w.m.Decide(engine.View[workspace.Desired, workspace.Observed]{Resource: w.r, Observed: o, Now: w.now.Time()})
		last = d
		switch {
		case d.Name() == "converged":
			w.r.Status.ConvergedGeneration = w.r.Generation
			return
		case d.Action() != nil:
			if err := w.m.Act(ctx, w.r, d.Action()); err != nil {
				w.t.Logf("%s: %v", d.Action().ActionName(), err)
			}
		case clock.FromTime(d.Until()) > 0:
			w.pass(clock.FromTime(d.Until()).Sub(w.now))
		}
	}
	w.t.Errorf("does not come to rest beside the others: %s %s", last.Name(), last.Reason())
}

// TestMissing: nothing is made before what it needs is there, and the wait says
// what it is for.
func TestMissing(t *testing.T) {
	w := newWorld(t)
	w.want(func(d *workspace.Desired) {
		d.Spec.Uses.Image = w.n.Name("none") + ":1"
		d.Spec.Workspace.Env = append(d.Spec.Workspace.Env, spec.Env{Name: "K", Secret: "k"})
		d.Spec.Workspace.Mounts = []spec.Mount{{Type: spec.MountVolume, Source: "v", Target: "/v"}}
		d.Spec.Uses.Volumes = map[string]string{"v": w.n.Name("v")}
	})
	got := w.settle()
	if got.name != "wait" || got.reason.Code != replace.CodeNotThere || len(got.acts) > 0 ||
		got.reason.Message != "waiting for image "+w.n.Name("none")+":1, secret k, volume "+w.n.Name("v") {
		t.Errorf("%+v", got)
	}
}

// TestNoSlot: a start waits for room and is not counted.
func TestNoSlot(t *testing.T) {
	w := newWorld(t)
	w.o.Starts = full{}
	w.anew()
	if d, err := w.turn(); err != nil || d.Name() != "wait" || d.Reason().Code != workspace.CodeNoSlot {
		t.Fatalf("%s %s: %v", d.Name(), d.Reason(), err)
	}
	w.o.Starts = taken{}
	w.anew()
	got := w.settle()
	if got.err == nil || !slices.Equal(got.acts, []string{"create"}) {
		t.Fatalf("%+v", got)
	}
	if got.err.Error() != reconcile.Blocked(engine.NewReason(workspace.CodeNoSlot, "as many containers start as may at once")).Error() {
		t.Errorf("%v", got.err)
	}
}

// taken is a pool whose last place goes after it was seen.
type taken struct{ full }

func (taken) Room(string) bool { return true }

type full struct{}

func (full) Room(string) bool { return false }

func (full) TryEnter(string) (func(), bool) { return func() {}, false }
