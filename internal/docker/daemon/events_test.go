package daemon_test

import (
	"context"
	"errors"
	"testing"

	"github.com/moby/moby/client"
	"go.uber.org/goleak"

	"github.com/steadyfleet/steady/internal/docker/daemon"
	"github.com/steadyfleet/steady/internal/docker/dockertest"
)

// watch listens in the background until the test ends.
func watch(t *testing.T, e *daemon.Engine) <-chan daemon.Event {
	t.Helper()
	heard := make(chan daemon.Event, 1000)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Watch(ctx, func(ev daemon.Event) { heard <- ev }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
	})
	return heard
}

// until takes events until one fits, and gives it.
func until(heard <-chan daemon.Event, fits func(daemon.Event) bool) daemon.Event {
	for ev := range heard {
		if fits(ev) {
			return ev
		}
	}
	return daemon.Event{}
}

func resync(ev daemon.Event) bool { return ev.Subject == daemon.Resync }

func TestWatchHearsEverySubject(t *testing.T) {
	f := setup(t)
	ctx := t.Context()
	heard := watch(t, f.Engine)
	until(heard, resync)
	net := f.network("net")
	id := f.create("a", nil)
	must(t, f.NetworkConnect(ctx, net, id, nil))
	must(t, f.ContainerStart(ctx, id))
	_, err := f.VolumeCreate(ctx, client.VolumeCreateOptions{Name: f.n.Name("v")})
	must(t, err)
	must(t, f.ImageTag(ctx, f.d.Busybox(t), f.n.Name("i")))
	for _, want := range []daemon.Event{
		{Subject: daemon.Network, Action: "create", ID: net},
		{Subject: daemon.Container, Action: "create", ID: id, Name: f.n.Name("a")},
		{Subject: daemon.Network, Action: "connect", ID: net, Container: id},
		{Subject: daemon.Container, Action: "start", ID: id},
		{Subject: daemon.Volume, Action: "create", ID: f.n.Name("v")},
		{Subject: daemon.Image, Action: "tag"},
	} {
		ev := until(heard, func(ev daemon.Event) bool {
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
	e, err := daemon.Open(daemon.Options{Socket: d.Socket()})
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	if err := e.Watch(ctx, func(daemon.Event) { cancel() }); !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
	must(t, e.Close())
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
	must(t, f.ContainerRename(ctx, id, f.n.Name("b")))
	must(t, f.ContainerRename(ctx, id, f.n.Name("a")))
	must(t, f.NetworkConnect(ctx, net, id, nil))
	must(t, f.NetworkDisconnect(ctx, net, id, false))
	for range 2 {
		ev := until(heard, func(ev daemon.Event) bool { return ev.Subject == daemon.Container && ev.Action == "rename" })
		if ev.ID != id {
			t.Errorf("rename of %s", ev.ID)
		}
	}
	// The first connection is the one of the default network at the start.
	ev := until(heard, func(ev daemon.Event) bool { return ev.Action == "connect" && ev.ID == net })
	if ev.Container != id || ev.Attributes["test"] != "" {
		t.Errorf("connect %+v", ev)
	}
	until(heard, func(ev daemon.Event) bool { return ev.Action == "disconnect" && ev.ID == net && ev.Container == id })
}

func TestWatchConnectsAgain(t *testing.T) {
	d := dockertest.Private(t)
	e := open(t, d.Socket(), daemon.Options{})
	heard := watch(t, e)
	until(heard, resync)
	d.Restart()
	until(heard, resync)
	v, err := e.VolumeCreate(t.Context(), client.VolumeCreateOptions{Name: "after"})
	must(t, err)
	until(heard, func(ev daemon.Event) bool { return ev.Subject == daemon.Volume && ev.ID == v.Name })
	d.Kill()
	d.Start()
	until(heard, resync)
}

func TestWatchWaitsForTheEngine(t *testing.T) {
	d := dockertest.Private(t)
	d.Shutdown()
	e := open(t, d.Socket(), daemon.Options{})
	heard := watch(t, e)
	d.Start()
	until(heard, resync)
}
