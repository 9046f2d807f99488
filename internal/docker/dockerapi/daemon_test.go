package dockerapi_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	"github.com/steadyfleet/steady/internal/docker/dockerapi"
	"github.com/steadyfleet/steady/internal/docker/dockertest"
	"github.com/steadyfleet/steady/internal/sandbox"
	"github.com/steadyfleet/steady/internal/testkit"
)

func TestMain(m *testing.M) { dockertest.Main(m) }

// fixture is an engine, its wrapper and a namespace.
type fixture struct {
	t *testing.T
	*dockerapi.Engine
	d *dockertest.Daemon
	n dockertest.Namespace
}

func open(t *testing.T, socket string, o dockerapi.Options) *dockerapi.Engine {
	t.Helper()
	o.Socket = socket
	e := testkit.Value(dockerapi.Open(o))(t)
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func setup(t *testing.T) fixture {
	t.Helper()
	d := dockertest.Engine(t)
	return fixture{t: t, Engine: open(t, d.Socket(), dockerapi.Options{}), d: d, n: d.Namespace(t)}
}

func (f fixture) create(name string, change func(*dockerapi.Creation)) string {
	f.t.Helper()
	c := dockerapi.Creation{Name: f.n.Name(name), Host: &container.HostConfig{}, Config: &container.Config{
		Image: f.d.Busybox(f.t), Cmd: []string{"sleep", "1000"}, StopSignal: "KILL", Labels: map[string]string{"test": f.n.Prefix}}}
	if change != nil {
		change(&c)
	}
	id, _, err := f.ContainerCreate(f.t.Context(), c)
	testkit.Must(f.t, err)
	return id
}

func (f fixture) started(name string, change func(*dockerapi.Creation)) string {
	f.t.Helper()
	id := f.create(name, change)
	testkit.Must(f.t, f.ContainerStart(f.t.Context(), id))
	return id
}

func (f fixture) network(name string) string {
	f.t.Helper()
	id, _, err := f.NetworkCreate(f.t.Context(), f.n.Name(name), client.NetworkCreateOptions{Labels: map[string]string{"test": f.n.Prefix}})
	testkit.Must(f.t, err)
	return id
}

func (f fixture) inspect(id string) container.InspectResponse {
	f.t.Helper()
	c := testkit.Value(f.ContainerInspect(f.t.Context(), id))(f.t)
	return c
}

func TestEngineSaysWhatItIs(t *testing.T) {
	f := setup(t)
	ctx := t.Context()
	testkit.Must(t, f.Alive(ctx))
	v := testkit.Value(f.Version(ctx))(t)
	if v.Engine == "" || v.API == "" || v.OS != "linux" || v.Arch == "" {
		t.Errorf("version %+v", v)
	}
	i := testkit.Value(f.Info(ctx))(t)
	if _, runc := i.Runtimes["runc"]; !runc || i.Driver != sandbox.StorageDriver(f.d.DataRoot()) || i.DockerRootDir != f.d.DataRoot() || i.CgroupVersion == "" || i.DefaultRuntime != "runc" {
		t.Errorf("info %+v", i)
	}
}

func TestOpenRefusesNonsense(t *testing.T) {
	if _, err := dockerapi.Open(dockerapi.Options{Socket: "docker"}); err == nil || !strings.Contains(err.Error(), "unix://") {
		t.Errorf("got %v", err)
	}
}

func TestContainerLife(t *testing.T) {
	f := setup(t)
	ctx := t.Context()
	id := f.create("a", nil)
	label := "test=" + f.n.Prefix
	list := func(all bool) int {
		got := testkit.Value(f.ContainerList(ctx, all, label))(t)
		return len(got)
	}
	if list(true) != 1 || list(false) != 0 {
		t.Errorf("created: %d, running %d", list(true), list(false))
	}
	status := func(want container.ContainerState) { // a busy engine shows it a moment later
		t.Helper()
		testkit.Eventually(t, "status "+string(want), func() bool { return f.inspect(id).State.Status == want })
	}
	testkit.Must(t, f.ContainerStart(ctx, id))
	testkit.Must(t, f.ContainerStart(ctx, id)) // runs already
	status("running")
	testkit.Must(t, dockertest.Pause(func() error {
		_, err := f.d.Client().ContainerPause(ctx, id, client.ContainerPauseOptions{})
		return err
	}))
	status("paused")
	testkit.Must(t, f.ContainerUnpause(ctx, id))
	status("running")
	testkit.Must(t, f.ContainerRename(ctx, id, f.n.Name("b")))
	if got := f.inspect(id).Name; got != "/"+f.n.Name("b") {
		t.Errorf("name %s", got)
	}
	testkit.Value(f.ContainerUpdate(ctx, id, &container.Resources{Memory: 64 << 20, MemorySwap: 64 << 20}, &container.RestartPolicy{Name: "on-failure", MaximumRetryCount: 3}))(t)
	if h := f.inspect(id).HostConfig; h.Memory != 64<<20 || h.RestartPolicy.MaximumRetryCount != 3 {
		t.Errorf("limits %+v", h.Resources)
	}
	testkit.Value(f.d.Client().ContainerKill(ctx, id, client.ContainerKillOptions{}))(t)
	testkit.Must(t, f.ContainerStop(ctx, id, time.Second, "")) // stopped or about to
	status("exited")
	testkit.Must(t, f.ContainerStart(ctx, id))
	if err := f.ContainerRemove(ctx, id, dockerapi.Removal{}); !dockerapi.Conflict(err) {
		t.Errorf("remove a running container: %v", err)
	}
	testkit.Must(t, f.ContainerStop(ctx, id, 0, "KILL"))
	testkit.Must(t, f.ContainerRemove(ctx, id, dockerapi.Removal{}))
	if _, err := f.ContainerInspect(ctx, id); !dockerapi.NotFound(err) || dockerapi.Unknown(err) {
		t.Errorf("inspect what is gone: %v", err)
	}
}

func TestKindsOfErrors(t *testing.T) {
	f := setup(t)
	ctx := t.Context()
	f.create("a", nil)
	create := func(name, image string, host *container.HostConfig) error {
		_, _, err := f.ContainerCreate(ctx, dockerapi.Creation{Name: name, Config: &container.Config{Image: image, Cmd: []string{"true"}}, Host: host})
		return err
	}
	box := f.d.Busybox(t)
	checks := map[string]func(error) bool{"unknown": dockerapi.Unknown, "unavailable": dockerapi.Unavailable, "not found": dockerapi.NotFound,
		"conflict": dockerapi.Conflict, "refused": dockerapi.Refused, "denied": dockerapi.Denied}
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"name taken", create(f.n.Name("a"), box, nil), "conflict"},
		{"no image", create(f.n.Name("b"), "no/such:image", nil), "not found"},
		{"limit too low", create(f.n.Name("c"), box, &container.HostConfig{Resources: container.Resources{Memory: 1}}), "refused"},
		{"bad name", create("%%", box, nil), "refused"},
		{"no id", f.ContainerStart(ctx, ""), "refused"},
		{"bad reference", f.ImageTag(ctx, box, "UPPER CASE"), "refused"},
		{"no network", f.NetworkRemove(ctx, f.n.Name("none")), "not found"},
		{"no volume", f.VolumeRemove(ctx, f.n.Name("none")), "not found"},
	} {
		var got []string
		for _, name := range slices.Sorted(maps.Keys(checks)) {
			if checks[name](c.err) {
				got = append(got, name)
			}
		}
		if !slices.Equal(got, []string{c.want}) {
			t.Errorf("%s: %v, want %s: %v", c.name, got, c.want, c.err)
		}
	}
}

func TestLogs(t *testing.T) {
	f := setup(t)
	ctx := t.Context()
	read := func(id string, l dockerapi.Logs) (out []dockerapi.LogLine) {
		t.Helper()
		testkit.Must(t, f.ContainerLogs(ctx, id, l, func(line dockerapi.LogLine) error { out = append(out, line); return nil }))
		return out
	}
	id := f.started("a", func(c *dockerapi.Creation) {
		c.Config.Cmd = []string{"sh", "-c", "echo one; echo two; echo bad >&2; head -c 70000 /dev/zero | tr '\\0' x; echo; echo end"}
	})
	got := read(id, dockerapi.Logs{Follow: true, Tail: -1})
	texts := map[string]bool{}
	long := 0
	for _, l := range got {
		if l.Time.IsZero() {
			t.Error("a line without its time")
		}
		texts[l.Text] = l.Stderr
		long += strings.Count(l.Text, "x")
	}
	if err, ok := texts["bad"]; !ok || !err {
		t.Errorf("standard error: %v %v", ok, err)
	}
	for _, want := range []string{"one", "two", "end"} {
		if err, ok := texts[want]; !ok || err {
			t.Errorf("%s: %v %v", want, ok, err)
		}
	}
	if long != 70000 {
		t.Errorf("%d bytes of the long line", long)
	}
	if got := read(id, dockerapi.Logs{Tail: 1}); len(got) != 1 {
		t.Errorf("tail: %v", got)
	}
	if got := read(id, dockerapi.Logs{Tail: -1, Since: time.Now().Add(time.Hour)}); len(got) != 0 {
		t.Errorf("since: %v", got)
	}
	enough := errors.New("enough")
	if err := f.ContainerLogs(ctx, id, dockerapi.Logs{Tail: -1}, func(dockerapi.LogLine) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("stopped by the listener: %v", err)
	}
	tty := f.started("tty", func(c *dockerapi.Creation) { c.Config.Tty, c.Config.Cmd = true, []string{"echo", "term"} })
	if got := read(tty, dockerapi.Logs{Follow: true, Tail: -1}); len(got) != 1 || got[0].Text != "term" {
		t.Errorf("terminal: %v", got)
	}
}

func TestFollowEndsWithItsContext(t *testing.T) {
	f := setup(t)
	id := f.started("a", func(c *dockerapi.Creation) { c.Config.Cmd = []string{"sh", "-c", "echo up; sleep 1000"} })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := f.ContainerLogs(ctx, id, dockerapi.Logs{Follow: true, Tail: -1}, func(dockerapi.LogLine) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) || !dockerapi.Unknown(err) {
		t.Errorf("got %v", err)
	}
}

func TestExec(t *testing.T) {
	f := setup(t)
	ctx := t.Context()
	id := f.started("a", nil)
	code, out, err := f.Run(ctx, id, dockerapi.Exec{Cmd: []string{"sh", "-c", "echo $A in $PWD; echo bad >&2; exit 7"}, Env: []string{"A=b"}, WorkingDir: "/tmp"}, 1000)
	testkit.Must(t, err)
	if code != 7 || !strings.Contains(string(out), "b in /tmp\n") || !strings.Contains(string(out), "bad\n") {
		t.Errorf("%d %q", code, out)
	}
	if _, out, err := f.Run(ctx, id, dockerapi.Exec{Cmd: []string{"seq", "1000"}}, 4); err != nil || string(out) != "1\n2\n" {
		t.Errorf("capped: %q %v", out, err)
	}
	r, err := f.Exec(ctx, id, dockerapi.Exec{Cmd: []string{"cat"}, Stdin: true})
	testkit.Must(t, err)
	defer r.Close()
	_, err = r.Write([]byte("hello"))
	testkit.Must(t, err)
	testkit.Must(t, r.CloseWrite())
	var stdout, stderr bytes.Buffer
	testkit.Must(t, r.Copy(&stdout, &stderr))
	if stdout.String() != "hello" || stderr.Len() != 0 {
		t.Errorf("%q %q", stdout.String(), stderr.String())
	}
	tty, err := f.Exec(ctx, id, dockerapi.Exec{Cmd: []string{"sh", "-c", "read x; stty size"}, Stdin: true, TTY: true})
	testkit.Must(t, err)
	defer tty.Close()
	testkit.Must(t, tty.Resize(ctx, 33, 77))
	_, err = io.WriteString(tty, "go\n")
	testkit.Must(t, err)
	stdout.Reset()
	testkit.Must(t, tty.Copy(&stdout, io.Discard))
	if !strings.Contains(stdout.String(), "33 77") {
		t.Errorf("terminal: %q", stdout.String())
	}
	_, _, err = f.Run(ctx, id, dockerapi.Exec{Cmd: []string{"/no/such"}}, 100)
	if err == nil {
		// Engines report it as exit code 126 or 127 instead.
		code, _, _ := f.Run(ctx, id, dockerapi.Exec{Cmd: []string{"/no/such"}}, 100)
		if code != 126 && code != 127 {
			t.Errorf("a command that does not exist: %d", code)
		}
	}
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	if _, _, err := f.Run(short, id, dockerapi.Exec{Cmd: []string{"sleep", "1000"}}, 100); !dockerapi.Unknown(err) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("given up: %v", err)
	}
}

func TestCommit(t *testing.T) {
	f := setup(t)
	ctx := t.Context()
	id := f.started("a", func(c *dockerapi.Creation) { c.Config.Env = []string{"SECRET=s"} })
	ref := f.n.Name("snap") + ":1"
	image := testkit.Value(f.ContainerCommit(ctx, id, dockerapi.Commit{Ref: ref, Changes: []string{"LABEL test=", "ENV SECRET="}}))(t)
	got := testkit.Value(f.ImageInspect(ctx, ref))(t)
	if got.ID != image || got.Config.Labels["test"] != "" || !slices.Contains(got.Config.Env, "SECRET=") {
		t.Errorf("committed %+v", got.Config)
	}
}

func TestNetworksAndVolumes(t *testing.T) {
	f := setup(t)
	ctx := t.Context()
	net := f.network("net")
	f.network("net2")
	label := "test=" + f.n.Prefix
	if got, err := f.NetworkList(ctx, f.n.Name("net"), label); err != nil || len(got) != 1 || got[0].ID != net {
		t.Errorf("by name: %v %v", got, err)
	}
	if got, err := f.NetworkList(ctx, "", label); err != nil || len(got) != 2 {
		t.Errorf("by label: %v %v", got, err)
	}
	id := f.started("a", nil)
	testkit.Must(t, f.NetworkConnect(ctx, net, id, &network.EndpointSettings{Aliases: []string{"web"}}))
	if got := f.inspect(id).NetworkSettings.Networks[f.n.Name("net")]; got == nil || !slices.Contains(got.Aliases, "web") {
		t.Errorf("connected: %+v", got)
	}
	if err := f.NetworkRemove(ctx, net); !dockerapi.Conflict(err) {
		t.Errorf("remove a network in use: %v", err)
	}
	testkit.Must(t, f.NetworkDisconnect(ctx, net, id, false))
	testkit.Must(t, f.NetworkRemove(ctx, net))

	v := testkit.Value(f.VolumeCreate(ctx, client.VolumeCreateOptions{Name: f.n.Name("v"), Labels: map[string]string{"test": f.n.Prefix}}))(t)
	if got, err := f.VolumeInspect(ctx, v.Name); err != nil || got.Labels["test"] != f.n.Prefix {
		t.Errorf("volume %+v %v", got, err)
	}
	if got, err := f.VolumeList(ctx, label); err != nil || len(got) != 1 {
		t.Errorf("volumes %+v %v", got, err)
	}
	testkit.Must(t, f.VolumeRemove(ctx, v.Name))
	if _, err := f.VolumeInspect(ctx, v.Name); !dockerapi.NotFound(err) {
		t.Errorf("gone: %v", err)
	}
}

func TestCallsAreCounted(t *testing.T) {
	f := setup(t)
	ctx := t.Context()
	testkit.Must(t, f.Alive(ctx))
	before := f.Calls()
	f.inspect(f.create("a", nil))
	after := f.Calls()
	if after.Reads != before.Reads+1 || after.Writes != before.Writes+1 {
		t.Errorf("from %+v to %+v", before, after)
	}
}
