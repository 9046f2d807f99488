package dockertest

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"github.com/steadyfleet/steady/internal/testkit"
)

// TestNamespaceWaitsForARemovalOfTheEngine: a container that is being removed when
// its test ends is waited for.
func TestNamespaceWaitsForARemovalOfTheEngine(t *testing.T) {
	d := Engine(t)
	n := d.Namespace(t)
	made, err := d.Client().ContainerCreate(t.Context(), client.ContainerCreateOptions{Name: n.Name("c"),
		Config: &container.Config{Image: d.Busybox(t), Cmd: []string{"sleep", "1000"}}})
	testkit.Must(t, err)
	testkit.Value(d.Client().ContainerStart(t.Context(), made.ID, client.ContainerStartOptions{}))(t)
	c, err := d.Client().ContainerInspect(t.Context(), made.ID, client.ContainerInspectOptions{})
	testkit.Must(t, err)
	bury := undead(t, c.Container.State.Pid)
	removed := make(chan error, 2)
	for range cap(removed) {
		go func() {
			_, err := d.Client().ContainerRemove(t.Context(), made.ID, client.ContainerRemoveOptions{Force: true})
			removed <- err
		}()
	}
	if err := <-removed; err == nil || !strings.Contains(err.Error(), "already in progress") {
		t.Fatal("no removal is under way:", err)
	}
	p := d.Proxy()
	p.After(func(r Request) Outcome {
		if r.Method == http.MethodDelete {
			bury() // the clean-up was refused
		}
		return Pass
	})
	n.clean(t, through(t, p))
	if _, err := d.Client().ContainerInspect(t.Context(), made.ID, client.ContainerInspectOptions{}); err == nil {
		t.Error("the container is left")
	}
	if err := <-removed; err != nil {
		t.Error("the removal that was under way:", err)
	}
}

// undead keeps a process, once it is killed, from being seen as gone until bury is
// called: its tracer hears of the end before its parent.
func undead(t *testing.T, pid int) (bury func()) {
	t.Helper()
	seized, over, done := make(chan error), make(chan struct{}), make(chan struct{})
	go func() {
		runtime.LockOSThread() // for good: what the thread still traces goes on when it ends
		seized <- unix.PtraceSeize(pid)
		<-over
		_, _ = unix.Wait4(pid, nil, unix.WALL|unix.WNOHANG, nil) // nothing to bury when the test fails early
		close(done)
	}()
	bury = sync.OnceFunc(func() { close(over); <-done })
	t.Cleanup(bury)
	testkit.Must(t, <-seized)
	return bury
}

func through(t *testing.T, p *Proxy) *client.Client {
	t.Helper()
	api := testkit.Value(client.New(client.WithHost("unix://" + p.Socket())))(t)
	return api
}

// TestNamespaceFindsGoneWhatItRemoves: what goes between the list and the removal is
// as good as removed.
func TestNamespaceFindsGoneWhatItRemoves(t *testing.T) {
	d := Engine(t)
	n := d.Namespace(t)
	api, ctx := d.Client(), t.Context()
	testkit.Value(api.ContainerCreate(ctx, client.ContainerCreateOptions{Name: n.Name("c"), Config: &container.Config{Image: d.Busybox(t), Cmd: []string{"true"}}}))(t)
	testkit.Value(api.NetworkCreate(ctx, n.Name("n"), client.NetworkCreateOptions{}))(t)
	testkit.Value(api.VolumeCreate(ctx, client.VolumeCreateOptions{Name: n.Name("v")}))(t)
	built := testkit.Value(api.ImageBuild(ctx, BuildContext(t, map[string]string{"Dockerfile": "FROM " + d.Busybox(t) + "\nLABEL by=" + n.Prefix}), client.ImageBuildOptions{Tags: []string{n.Name("i")}}))(t)
	testkit.Value(io.Copy(io.Discard, built.Body))(t)
	built.Body.Close()
	gone := map[string]bool{}
	p := d.Proxy()
	p.Before(func(r Request) Outcome {
		if r.Method != http.MethodDelete {
			return Pass
		}
		var err error
		kind, name, _ := strings.Cut(strings.TrimPrefix(r.Path, "/"), "/")
		switch kind {
		case "containers":
			_, err = api.ContainerRemove(ctx, name, client.ContainerRemoveOptions{})
		case "networks":
			_, err = api.NetworkRemove(ctx, name, client.NetworkRemoveOptions{})
		case "volumes":
			_, err = api.VolumeRemove(ctx, name, client.VolumeRemoveOptions{})
		case "images":
			_, err = api.ImageRemove(ctx, name, client.ImageRemoveOptions{})
		default:
			err = fmt.Errorf("unknown to the test")
		}
		if err != nil {
			t.Error(r.Path, err)
		}
		gone[kind] = true
		return Pass
	})
	n.clean(t, through(t, p))
	if len(gone) != 4 {
		t.Errorf("removed only %v", gone)
	}
}
