package dockerapi_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	"github.com/steadyfleet/steady/internal/docker/dockerapi"
	"github.com/steadyfleet/steady/internal/testkit"
)

// The tests of this file hold what engines before API 1.44 do. The code above
// this package is written around it: when one of them fails, an engine has
// changed, and the work-around is due for a look.

func endpoints(names ...string) *network.NetworkingConfig {
	out := &network.NetworkingConfig{EndpointsConfig: map[string]*network.EndpointSettings{}}
	for _, n := range names {
		out.EndpointsConfig[n] = &network.EndpointSettings{}
	}
	return out
}

func TestTrap04LimitOfZeroChangesNothing(t *testing.T) {
	f := setup(t)
	id := f.create("a", func(c *dockerapi.Creation) { c.Host.Memory = 64 << 20 })
	if h := f.inspect(id).HostConfig; h.MemorySwap != 128<<20 {
		t.Errorf("swap %d", h.MemorySwap)
	}
	testkit.Value(f.ContainerUpdate(t.Context(), id, &container.Resources{Memory: 0}, nil))(t)
	if h := f.inspect(id).HostConfig; h.Memory != 64<<20 {
		t.Errorf("memory %d", h.Memory)
	}
}

func TestTrap08TwoEndpointsAreRefused(t *testing.T) {
	f := setup(t)
	ctx := t.Context()
	f.network("n1")
	n2 := f.network("n2")
	both := dockerapi.Creation{Name: f.n.Name("a"), Config: &container.Config{Image: f.d.Busybox(t), Cmd: []string{"sleep", "1000"}},
		Network: endpoints(f.n.Name("n1"), f.n.Name("n2"))}
	_, _, err := f.ContainerCreate(ctx, both)
	if !dockerapi.Refused(err) || !strings.Contains(err.Error(), "cannot be connected to network endpoints") {
		t.Errorf("got %v", err)
	}
	id := f.create("a", func(c *dockerapi.Creation) {
		c.Network = endpoints(f.n.Name("n1"))
		c.Host.NetworkMode = container.NetworkMode(f.n.Name("n1"))
	})
	testkit.Must(t, f.NetworkConnect(ctx, n2, id, &network.EndpointSettings{Aliases: []string{"b"}}))
	testkit.Must(t, f.ContainerStart(ctx, id))
	if got := f.inspect(id).NetworkSettings.Networks; len(got) != 2 {
		t.Errorf("networks %v", got)
	}
}

func TestTrap13TagOfAnImageInUseGoes(t *testing.T) {
	f := setup(t)
	ctx := t.Context()
	testkit.Must(t, f.ImageTag(ctx, f.d.Busybox(t), f.n.Name("img")+":1"))
	f.create("a", func(c *dockerapi.Creation) { c.Config.Image = f.n.Name("img") + ":1" })
	if _, err := f.ImageRemove(ctx, f.n.Name("img")+":1"); err != nil {
		t.Errorf("refused: %v", err)
	}
}

func TestTrap13NetworkOfAStoppedContainerGoes(t *testing.T) {
	f := setup(t)
	ctx := t.Context()
	old := f.network("net")
	id := f.create("a", func(c *dockerapi.Creation) { c.Network = endpoints(f.n.Name("net")) })
	testkit.Must(t, f.ContainerStart(ctx, id))
	testkit.Must(t, f.ContainerStop(ctx, id, 0, ""))
	testkit.Must(t, f.NetworkRemove(ctx, old))
	made := f.network("net")
	if err := f.ContainerStart(ctx, id); err == nil || !strings.Contains(err.Error(), old) {
		t.Errorf("start without its network: %v", err)
	}
	testkit.Must(t, f.NetworkDisconnect(ctx, f.n.Name("net"), id, true))
	testkit.Must(t, f.NetworkConnect(ctx, made, id, nil))
	testkit.Must(t, f.ContainerStart(ctx, id))
	if got := f.inspect(id).NetworkSettings.Networks[f.n.Name("net")]; got == nil || got.NetworkID != made {
		t.Errorf("repaired: %+v", got)
	}
}

func TestTrap14AliasesAreGoneAfterAReconnect(t *testing.T) {
	f := setup(t)
	ctx := t.Context()
	net := f.network("net")
	id := f.started("a", nil)
	testkit.Must(t, f.NetworkConnect(ctx, net, id, &network.EndpointSettings{Aliases: []string{"web"}}))
	testkit.Must(t, f.NetworkDisconnect(ctx, net, id, false))
	testkit.Must(t, f.NetworkConnect(ctx, net, id, nil))
	if got := f.inspect(id).NetworkSettings.Networks[f.n.Name("net")]; slices.Contains(got.Aliases, "web") {
		t.Errorf("aliases %v", got.Aliases)
	}
}

func TestTrap15FailedStartLeavesItCreated(t *testing.T) {
	f := setup(t)
	id := f.create("a", func(c *dockerapi.Creation) { c.Config.Cmd = []string{"/no/such"} })
	err := f.ContainerStart(t.Context(), id)
	if err == nil || dockerapi.Unknown(err) {
		t.Errorf("started: %v", err)
	}
	if s := f.inspect(id).State; s.Status != "created" || s.ExitCode != 127 || s.Error == "" {
		t.Errorf("state %+v", s)
	}
}

func TestTrap17NetworkNamesAreNotUnique(t *testing.T) {
	f := setup(t)
	first, second := f.network("net"), f.network("net")
	got := testkit.Value(f.NetworkList(t.Context(), f.n.Name("net")))(t)
	if len(got) != 2 || first == second {
		t.Errorf("networks %v", got)
	}
}

func TestTrap18VolumeKeepsItsFirstLabels(t *testing.T) {
	f := setup(t)
	ctx := t.Context()
	for _, label := range []string{"one", "two"} {
		v := testkit.Value(f.VolumeCreate(ctx, client.VolumeCreateOptions{Name: f.n.Name("v"), Labels: map[string]string{"l": label}}))(t)
		if v.Labels["l"] != "one" {
			t.Errorf("label %s", v.Labels["l"])
		}
	}
}

func TestTrap19CommitKeepsLabelsAndSecrets(t *testing.T) {
	f := setup(t)
	id := f.create("a", func(c *dockerapi.Creation) { c.Config.Env = []string{"SECRET=s"} })
	testkit.Value(f.ContainerCommit(t.Context(), id, dockerapi.Commit{Ref: f.n.Name("snap")}))(t)
	got := testkit.Value(f.ImageInspect(t.Context(), f.n.Name("snap")))(t)
	if got.Config.Labels["test"] != f.n.Prefix || !slices.Contains(got.Config.Env, "SECRET=s") {
		t.Errorf("%+v", got.Config)
	}
}

func TestPublishedPortIsTakenAtStart(t *testing.T) {
	f := setup(t)
	ctx := t.Context()
	f.network("net")
	port := network.MustParsePort("80/tcp")
	publish := func(c *dockerapi.Creation) {
		c.Config.ExposedPorts = network.PortSet{port: {}}
		c.Host.PortBindings = network.PortMap{port: {{HostIP: netip.MustParseAddr("127.0.0.1"), HostPort: "18080"}}}
	}
	f.started("a", publish)
	second := f.create("b", publish)
	if err := f.ContainerStart(ctx, second); err == nil || !strings.Contains(err.Error(), "port is already allocated") {
		t.Errorf("got %v", err)
	}
}
