package dockerapi_test

import (
	"context"
	"errors"
	"testing"

	"github.com/moby/moby/client"
	"go.uber.org/goleak"

	"github.com/steadyfleet/steady/internal/docker/dockerapi"
	"github.com/steadyfleet/steady/internal/docker/dockertest"
	"github.com/steadyfleet/steady/internal/testkit"
)

// watch listens in the background until the test ends.
func watch(t *testing.T, e *dockerapi.Engine) <-chan dockerapi.Event {
	t.Helper()
	heard := make(chan dockerapi.Event, 1000)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Watch(ctx, func(ev dockerapi.Event) { heard <- ev }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
	})
	return heard
}

// until takes events until one fits, and gives it.
func until(heard <-chan dockerapi.Event, fits func(dockerapi.Event) bool) dockerapi.Event {
	for ev := range heard {
		if fits(ev) {
			return ev
		}
	}
	return dockerapi.Event{}
}

func resync(ev dockerapi.Event) bool { return ev.Subject == dockerapi.Resync }

func TestWatchHearsEverySubject(t *testing.T) {
	f := setup(t)
	ctx := t.Context()
	heard := watch(t, f.Engine)
	until(heard, resync)
	net := f.network("net")
	id := f.create("a", nil)
	testkit.Must(t, f.NetworkConnect(ctx, net, id, nil))
	testkit.Must(t, f.ContainerStart(ctx, id))
	testkit.Value(f.VolumeCreate(ctx, client.VolumeCreateOptions{Name: f.n.Name("v")}))(t)
	testkit.Must(t, f.ImageTag(ctx, f.d.Busybox(t), f.n.Name("i")))
	for _, want := range []dockerapi.Event{
		{Subject: dockerapi.Network, Action: "create", ID: net},
		{Subject: dockerapi.Container, Action: "create", ID: id, Name: f.n.Name("a")},
		{Subject: dockerapi.Network, Action: "connect", ID: net, Container: id},
		{Subject: dockerapi.Container, Action: "start", ID: id},
		{Subject: dockerapi.Volume, Action: "create", ID: f.n.Name("v")},
		{Subject: dockerapi.Image, Action: "tag"},
	} {
		ev := until(heard, func(ev dockerapi.Event) bool {
			return ev.Subject == want.Subject && ev.Action == want.Action && (want.ID == "" || ev.ID == want.ID)
		})
		if want.Name != "" && ev.Name != want.Name || want.Container != "" && ev.Container != want.Container || ev.Time.IsZero() {
			t.Errorf("got %+v, want %+v", ev, want)
		}
	}
}

func TestWatchLeavesNothingRunning(t *testing.T) {
	d := dockertest.Engine(t)
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	e := testkit.Value(dockerapi.Open(dockerapi.Options{Socket: d.Socket()}))(t)
	ctx, cancel := context.WithCancel(t.Context())
	if err := e.Watch(ctx, func(dockerapi.Event) { cancel() }); !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
	testkit.Must(t, e.Close())
}

// TestTrap20RenamesAndConnectionsAreHeard: a filter by name misses one of two
// renames, and connections carry no labels of their container. Watch filters by
// neither.
func TestTrap20RenamesAndConnectionsAreHeard(t *testing.T) {
	f := setup(t)
	ctx := t.Context()
	heard := watch(t, f.Engine)
	until(heard, resync)
	net := f.network("net")
	id := f.started("a", nil)
	testkit.Must(t, f.ContainerRename(ctx, id, f.n.Name("b")))
	testkit.Must(t, f.ContainerRename(ctx, id, f.n.Name("a")))
	testkit.Must(t, f.NetworkConnect(ctx, net, id, nil))
	testkit.Must(t, f.NetworkDisconnect(ctx, net, id, false))
	for range 2 {
		// Those of before, of other containers, come first: the engine has kept them.
		until(heard, func(ev dockerapi.Event) bool {
			return ev.Subject == dockerapi.Container && ev.Action == "rename" && ev.ID == id
		})
	}
	// The first connection is the one of the default network at the start.
	ev := until(heard, func(ev dockerapi.Event) bool { return ev.Action == "connect" && ev.ID == net })
	if ev.Container != id || ev.Attributes["test"] != "" {
		t.Errorf("connect %+v", ev)
	}
	until(heard, func(ev dockerapi.Event) bool { return ev.Action == "disconnect" && ev.ID == net && ev.Container == id })
}

func TestWatchConnectsAgain(t *testing.T) {
	d := dockertest.Private(t)
	e := open(t, d.Socket(), dockerapi.Options{})
	heard := watch(t, e)
	until(heard, resync)
	d.Restart()
	until(heard, resync)
	v := testkit.Value(e.VolumeCreate(t.Context(), client.VolumeCreateOptions{Name: "after"}))(t)
	until(heard, func(ev dockerapi.Event) bool { return ev.Subject == dockerapi.Volume && ev.ID == v.Name })
	d.Kill()
	d.Start()
	until(heard, resync)
}

func TestWatchWaitsForTheEngine(t *testing.T) {
	d := dockertest.Private(t)
	d.Shutdown()
	e := open(t, d.Socket(), dockerapi.Options{})
	heard := watch(t, e)
	d.Start()
	until(heard, resync)
}
