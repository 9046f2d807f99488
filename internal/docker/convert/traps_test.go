package convert_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/diff"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/convert"
	"github.com/steadyfleet/steady/internal/docker/dockertest"
	"github.com/steadyfleet/steady/internal/testkit"
)

type classes = map[string]diff.Class

// The tests below name, by number, what is known to set apart what an engine was
// asked for and what it shows.

func TestTrap01_EnvironmentOfTheImage(t *testing.T) {
	w := newWorld(t)
	s := workspace()
	s.Image, s.Command = "rich", nil
	s.Env = []spec.Env{{Name: "A", Value: "mine"}}
	id := w.create(t, s)
	rec := w.record(t, s, id)
	// Saying what the image says changes nothing; saying another thing does.
	s.Env = append(s.Env, spec.Env{Name: "B", Value: "image"})
	same(t, "the image's own value", w.compare(t, s, id, rec))
	s.Env[1].Value = "mine"
	wantFields(t, w.compare(t, s, id, rec), classes{"env/B": diff.Replace})
	// Without A, the image's holds again.
	s.Env = nil
	wantFields(t, w.compare(t, s, id, rec), classes{"env/A": diff.Replace})
}

func TestTrap02_CommandAndEntrypoint(t *testing.T) {
	w := newWorld(t)
	for name, set := range map[string]func(s *spec.Workspace){
		"inherited": func(s *spec.Workspace) { s.Command = nil },
		"drops":     func(s *spec.Workspace) { s.Command, s.Entrypoint = nil, []string{"sleep", "5"} },
		"none":      func(s *spec.Workspace) { s.NoEntry = true },
		"empty":     func(s *spec.Workspace) { s.Command, s.NoCommand = nil, true },
	} {
		s := workspace()
		s.Image = "rich"
		set(&s)
		id := w.create(t, s)
		same(t, name, w.compare(t, s, id, nil))
		cfg := w.inspect(t, id).Config
		want := map[string][2]string{"inherited": {"sleep", "900"}, "drops": {"sleep 5", ""}, "none": {"", "sleep 900"}, "empty": {"sleep", ""}}[name]
		if got := [2]string{strings.Join(cfg.Entrypoint, " "), strings.Join(cfg.Cmd, " ")}; got != want {
			t.Errorf("%s: the engine has %q and not %q", name, got, want)
		}
	}
}

func TestTrap03_InheritedFromTheImage(t *testing.T) {
	w := newWorld(t)
	s := workspace()
	s.Image, s.Command = "rich", nil
	id := w.create(t, s)
	same(t, "all inherited", w.compare(t, s, id, nil))
	seen := convert.Observed(w.inspect(t, id), w.inputs(s))
	for _, f := range []string{"health/test", "health/interval", "label/of", "expose/71/udp", "anonymous//kept", "workdir", "user", "stop-signal"} {
		if seen[f] == "" {
			t.Errorf("%s of the image is not in the form", f)
		}
	}
	off := workspace()
	off.Image, off.Command, off.Health = "rich", nil, &spec.Health{Disable: true}
	id = w.create(t, off)
	if got := w.inspect(t, id).Config.Healthcheck.Test; !slices.Equal(got, []string{"NONE"}) {
		t.Errorf("a healthcheck turned off is %q", got)
	}
	same(t, "turned off", w.compare(t, off, id, nil))

	// An old engine drops the start interval in silence: it is refused beforehand,
	// and does not make an endless difference afterwards.
	late := workspace()
	late.Health = &spec.Health{Test: []string{"CMD", "true"}, StartInterval: clock.Second}
	refused, err := convert.Refused(w.deployment(late), w.inputs(late), w.rules())
	if err != nil || len(refused) != 1 || refused[0].Field != "health/start-interval" || !strings.Contains(refused[0].Why, "API 1.44") {
		t.Errorf("refused are %v, %v", refused, err)
	}
	id = w.create(t, late)
	wantFields(t, w.compare(t, late, id, nil), classes{"health/start-interval": diff.Blocked})
	same(t, "settled", w.compare(t, late, id, w.record(t, late, id)))
}

func TestTrap04_MemoryAndSwap(t *testing.T) {
	w := newWorld(t)
	s := workspace()
	s.Limits.Memory = 64 << 20
	id := w.create(t, s)
	w.start(t, id)
	rec := w.record(t, s, id)
	apply := func(want classes) {
		t.Helper()
		ds := w.compare(t, s, id, rec)
		wantFields(t, ds, want)
		c := convert.Update(ds, w.deployment(s), w.inputs(s))
		testkit.Value(w.api.ContainerUpdate(t.Context(), id, client.ContainerUpdateOptions{Resources: c.Resources, RestartPolicy: c.Restart}))(t)
		same(t, "updated, no baseline", w.compare(t, s, id, nil))
		rec = w.record(t, s, id)
		same(t, "updated", w.compare(t, s, id, rec))
	}
	// Above the old bound of swap, which an update of the memory alone may not.
	s.Limits.Memory = 256 << 20
	apply(classes{"limit/memory": diff.InPlace, "limit/memory-swap": diff.InPlace})
	s.Limits.Memory = 32 << 20
	apply(classes{"limit/memory": diff.InPlace, "limit/memory-swap": diff.InPlace})
	s.Limits.MemorySwap = -1
	apply(classes{"limit/memory-swap": diff.InPlace})
	s.Limits.MemoryReservation, s.Limits.NanoCPUs, s.Limits.CPUShares, s.Limits.CPUSet, s.Limits.PIDs = 16<<20, 300_000_000, 300, "0", ptr(int64(77))
	s.Restart = spec.Restart{Policy: "on-failure", Max: 2}
	apply(classes{"limit/memory-reservation": diff.InPlace, "limit/cpus": diff.InPlace, "limit/cpu-shares": diff.InPlace, "limit/cpuset": diff.InPlace, "limit/pids": diff.InPlace, "restart": diff.InPlace})
	s.Restart, s.Limits.PIDs, s.Limits.NanoCPUs = spec.Restart{}, nil, 400_000_000
	apply(classes{"restart": diff.InPlace, "limit/pids": diff.InPlace, "limit/cpus": diff.InPlace})
	// What the engine cannot take away in place needs another container.
	s.Limits.Memory, s.Limits.MemorySwap, s.Limits.NanoCPUs = 0, 0, 0
	wantFields(t, w.compare(t, s, id, rec), classes{"limit/memory": diff.Replace, "limit/memory-swap": diff.Replace, "limit/cpus": diff.Replace})
}

func TestTrap04_UpdateFromOutside(t *testing.T) {
	w := newWorld(t)
	s := workspace()
	s.Limits.Memory, s.Limits.CPUShares = 64<<20, 100
	id := w.create(t, s)
	rec := w.record(t, s, id)
	_, err := w.api.ContainerUpdate(t.Context(), id, client.ContainerUpdateOptions{Resources: &container.Resources{Memory: 32 << 20, MemorySwap: 64 << 20, CPUShares: 900, PidsLimit: ptr(int64(9))}, RestartPolicy: &container.RestartPolicy{Name: "always"}})
	w.ok(err)
	for _, base := range []*convert.Record{rec, nil} {
		ds := w.compare(t, s, id, base)
		wantFields(t, ds, classes{"limit/memory": diff.InPlace, "limit/memory-swap": diff.InPlace, "limit/cpu-shares": diff.InPlace, "limit/pids": diff.InPlace, "restart": diff.InPlace})
		for _, d := range ds {
			if want := map[bool]diff.Cause{true: diff.Outside, false: diff.Unknown}[base != nil]; d.Cause != want {
				t.Errorf("%s: not %s", d.Show(), want)
			}
		}
	}
}

// TestTrap04_TwoWaysToBoundCPUs: an engine takes no change from one to the other,
// even if what is there is its default said aloud.
func TestTrap04_TwoWaysToBoundCPUs(t *testing.T) {
	w := newWorld(t)
	period, cpus := workspace(), workspace()
	period.Limits.CPUPeriod, cpus.Limits.NanoCPUs = 100_000, 500_000_000
	for _, c := range []struct {
		from, to spec.Workspace
		field    string
		change   container.Resources
	}{
		{period, cpus, "limit/cpus", container.Resources{NanoCPUs: 500_000_000}},
		{cpus, period, "limit/cpus", container.Resources{CPUPeriod: 100_000}},
	} {
		id := w.create(t, c.from)
		rec := w.record(t, c.from, id)
		if _, err := w.api.ContainerUpdate(t.Context(), id, client.ContainerUpdateOptions{Resources: &c.change}); err == nil {
			t.Errorf("the engine takes %+v", c.change)
		}
		found := false
		for _, d := range w.compare(t, c.to, id, rec) {
			found = found || d.Field == c.field
			if d.Class != diff.Replace && d.Field == c.field {
				t.Errorf("not made anew: %s", d.Show())
			}
		}
		if !found {
			t.Errorf("%s does not differ", c.field)
		}
		_, err := w.api.ContainerRemove(t.Context(), id, client.ContainerRemoveOptions{Force: true})
		w.ok(err)
	}
}

func TestTrap05_SharedMemoryIsSetOnce(t *testing.T) {
	w := newWorld(t)
	s := workspace()
	id := w.create(t, s)
	if got := w.inspect(t, id).HostConfig.ShmSize; got != 64<<20 {
		t.Fatalf("the engine's default is %d", got)
	}
	rec := w.record(t, s, id)
	s.ShmSize = 64 << 20
	same(t, "the default said aloud", w.compare(t, s, id, rec))
	s.ShmSize = 1 << 20
	wantFields(t, w.compare(t, s, id, rec), classes{"shm-size": diff.Replace})
	if c := convert.Update(w.compare(t, s, id, rec), w.deployment(s), w.inputs(s)); c.Resources != nil || c.Restart != nil {
		t.Errorf("an update is asked for: %+v", c)
	}
}

func TestTrap06_DefaultsOfTheEngine(t *testing.T) {
	w := newWorld(t)
	s := workspace()
	id := w.create(t, s)
	same(t, "no baseline", w.compare(t, s, id, nil))
	h := w.inspect(t, id).HostConfig
	said := workspace()
	said.Name = s.Name
	said.Runtime, said.Logging, said.Namespaces.IPC, said.Restart.Policy = h.Runtime, &spec.Logging{Driver: h.LogConfig.Type}, string(h.IpcMode), "no"
	said.Namespaces.Cgroup = string(h.CgroupnsMode)
	rec := w.record(t, s, id)
	for _, base := range []*convert.Record{nil, rec} {
		same(t, "said aloud", w.compare(t, said, id, base))
	}
	// And the other way round: no longer said.
	id = w.create(t, said, func(in *convert.CreateInputs) { in.As = w.n.Name("said") })
	rules := w.rules()
	rules.Cgroup = string(h.CgroupnsMode)
	s.Name = "said"
	ds, err := convert.Compare(w.deployment(s), w.inputs(s), w.inspect(t, id), w.record(t, said, id), rules)
	w.ok(err)
	same(t, "no longer said", ds)
}

func TestTrap07_NetworkNamesAndAliases(t *testing.T) {
	w := newWorld(t)
	s := workspace()
	id := w.create(t, s)
	rec := w.record(t, s, id)
	s.NetworkMode = "bridge"
	same(t, "default and bridge", w.compare(t, s, id, rec))

	s = workspace()
	s.Networks = []spec.Attachment{{Network: "front", Aliases: []string{"web"}}}
	id = w.create(t, s)
	w.start(t, id)
	rec = w.record(t, s, id)
	aliases := w.inspect(t, id).NetworkSettings.Networks[w.n.Name("front")].Aliases
	if !slices.Contains(aliases, id[:12]) {
		t.Logf("this engine adds no alias of its own: %v", aliases)
	}
	for f := range convert.Observed(w.inspect(t, id), w.inputs(s)) {
		if strings.HasSuffix(f, id[:12]) {
			t.Errorf("the engine's own alias is in the form: %s", f)
		}
	}
	same(t, "aliases", w.compare(t, s, id, rec))

	s.Networks[0].MAC = "02:42:0A:4D:01:63"
	wantFields(t, w.compare(t, s, id, rec), classes{"mac": diff.Replace}) // of the container, on this engine
	s.Networks = append(s.Networks, spec.Attachment{Network: "back", MAC: "02:42:0A:4D:01:64"})
	s.Networks[0].Priority = 1
	refused, err := convert.Refused(w.deployment(s), w.inputs(s), w.rules())
	if at := "network/" + w.n.Name("back"); err != nil || len(refused) != 1 || refused[0].Field != at+"/mac" {
		t.Errorf("refused are %v, %v", refused, err)
	}
}

func TestTrap08_OneEndpointAtCreation(t *testing.T) {
	w := newWorld(t)
	s := workspace()
	s.Networks = []spec.Attachment{{Network: "back"}, {Network: "far"}, {Network: "front", Priority: 1}}
	r, err := convert.Create(w.deployment(s), convert.CreateInputs{Inputs: w.inputs(s)})
	w.ok(err)
	if r.First.Network != w.n.Name("front") || len(r.Rest) != 2 || len(r.Networking().EndpointsConfig) != 1 || string(r.Host.NetworkMode) != r.First.Network {
		t.Errorf("the request is %+v", r)
	}
	id := w.create(t, s)
	w.start(t, id)
	same(t, "connected", w.compare(t, s, id, nil))
}

func TestTrap09_PortsFromTheRequest(t *testing.T) {
	w := newWorld(t)
	s := workspace()
	front(&s)
	s.Ports = []spec.Port{{Port: 80, Protocol: "tcp", HostIP: "127.0.0.1"}}
	id := w.create(t, s)
	rec := w.record(t, s, id)
	ports := map[string]bool{}
	for range 2 {
		w.start(t, id)
		for _, b := range w.inspect(t, id).NetworkSettings.Ports {
			ports[b[0].HostPort] = true
		}
		same(t, "any port", w.compare(t, s, id, rec))
		w.stop(t, id)
	}
	if len(ports) == 0 || ports[""] {
		t.Errorf("no port was chosen: %v", ports)
	}
	s.Ports[0].HostPort = 18099
	wantFields(t, w.compare(t, s, id, rec), classes{"port/80/tcp": diff.Replace})
}

func TestTrap10_AnonymousVolumesStay(t *testing.T) {
	w := newWorld(t)
	s := workspace()
	s.Image, s.Command = "rich", nil
	s.Mounts = []spec.Mount{{Type: spec.MountAnonymous, Target: "/scratch"}}
	old := w.create(t, s)
	kept := convert.AnonymousVolumes(w.inspect(t, old))
	if got := slices.Sorted(maps.Keys(kept)); !slices.Equal(got, []string{"/kept", "/other", "/scratch"}) {
		t.Fatalf("volumes without a name at %v", got)
	}
	id := w.create(t, s, func(in *convert.CreateInputs) { in.As, in.Anonymous = w.n.Name("new"), kept })
	if got := convert.AnonymousVolumes(w.inspect(t, id)); !maps.Equal(got, kept) {
		t.Errorf("the new container has %v and not %v", got, kept)
	}
	testkit.Value(w.api.ContainerRemove(t.Context(), old, client.ContainerRemoveOptions{Force: true}))(t)
	_, err := w.api.ContainerRename(t.Context(), id, client.ContainerRenameOptions{NewName: w.n.Name(s.Name)})
	w.ok(err)
	same(t, "replaced", w.compare(t, s, id, nil))
}

func TestTrap11_BindsByMountUnlessTheFolderIsMade(t *testing.T) {
	w := newWorld(t)
	s := workspace()
	s.Mounts = []spec.Mount{{Type: spec.MountBind, Source: w.folder + "/missing", Target: "/x"}}
	if _, err := w.try(t.Context(), s); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("a missing folder gives %v", err)
	}
	s.Mounts[0].CreateHost = true
	id := w.create(t, s)
	w.start(t, id)
	same(t, "made by the engine", w.compare(t, s, id, nil))

	// A folder that holds the engine's own, or lies within it, is mounted in another
	// way than asked for.
	s = workspace()
	s.Mounts = []spec.Mount{{Type: spec.MountBind, Source: "/", Target: "/host", ReadOnly: true}}
	id = w.create(t, s)
	if got := w.inspect(t, id).Mounts[0].Propagation; got != "rslave" {
		t.Errorf("the engine mounts its root's parent %s", got)
	}
	same(t, "around the engine's folder", w.compare(t, s, id, nil))
}

func TestTrap12_ImageByItsID(t *testing.T) {
	w := newWorld(t)
	s := workspace()
	s.Image = "moving"
	ref := w.d.Namespace(t).Name("moving") + ":1"
	w.images["moving"] = w.build(ref, "ENV V=1")
	id := w.create(t, s)
	rec := w.record(t, s, id)
	if c := w.inspect(t, id).Config; c.Image != ref {
		t.Errorf("people see the image %s, want %s", c.Image, ref)
	}
	same(t, "before", w.compare(t, s, id, rec))
	w.images["moving"] = w.build(ref, "ENV V=2")
	wantFields(t, w.compare(t, s, id, rec), classes{"image": diff.Replace, "env/V": diff.Replace})
}

func TestTrap15_FailedStart(t *testing.T) {
	w := newWorld(t)
	s := workspace()
	s.Command = []string{"/missing"}
	id := w.create(t, s)
	if r := convert.Run(w.inspect(t, id)); r.State != convert.Created || r.Error != "" {
		t.Errorf("made: %+v", r)
	}
	if _, err := w.api.ContainerStart(t.Context(), id, client.ContainerStartOptions{}); err == nil {
		t.Fatal("started")
	}
	r := convert.Run(w.inspect(t, id))
	if r.State != convert.FailedStart || r.ExitCode != 127 || !strings.Contains(r.Error, "missing") || !r.StartedAt.IsZero() {
		t.Errorf("could not be started: %+v", r)
	}
}

func TestTrap16_PausedAndKilled(t *testing.T) {
	w := newWorld(t)
	s := workspace()
	s.Restart.Policy = "always"
	id := w.create(t, s)
	w.start(t, id)
	if r := convert.Run(w.inspect(t, id)); r.State != convert.Running || !r.Up() || r.StartedAt.IsZero() {
		t.Errorf("started: %+v", r)
	}
	w.ok(dockertest.Pause(func() error {
		_, err := w.api.ContainerPause(t.Context(), id, client.ContainerPauseOptions{})
		return err
	}))
	if r := convert.Run(w.inspect(t, id)); r.State != convert.Paused || !r.Up() {
		t.Errorf("paused: %+v", r)
	}
	_, err := w.api.ContainerUnpause(t.Context(), id, client.ContainerUnpauseOptions{})
	w.ok(err)
	wait := w.api.ContainerWait(t.Context(), id, client.ContainerWaitOptions{})
	_, err = w.api.ContainerKill(t.Context(), id, client.ContainerKillOptions{})
	w.ok(err)
	select {
	case <-wait.Result:
	case err := <-wait.Error:
		t.Fatal(err)
	}
	if r := convert.Run(w.inspect(t, id)); r.State != convert.Exited || r.ExitCode != 137 || r.Restarts != 0 || r.FinishedAt.IsZero() {
		t.Errorf("killed: %+v", r)
	}
}
