package daemon_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"

	"github.com/steadyfleet/steady/internal/docker/daemon"
	"github.com/steadyfleet/steady/internal/docker/dockertest"
)

func TestEngineThatHangs(t *testing.T) {
	d := dockertest.Private(t)
	box := d.Busybox(t)
	known := open(t, d.Socket(), daemon.Options{Timeout: 300 * time.Millisecond, PullTimeout: 300 * time.Millisecond})
	for err := known.Ping(t.Context()); err != nil; err = known.Ping(t.Context()) {
		if !daemon.Unavailable(err) { // a busy engine answers later
			t.Fatal(err)
		}
	}
	fresh := open(t, d.Socket(), daemon.Options{Timeout: 300 * time.Millisecond, PullTimeout: 300 * time.Millisecond})
	d.Stop()
	for name, e := range map[string]*daemon.Engine{"known": known, "fresh": fresh} {
		// All at once: one that waits for an answer holds up no other one.
		var all sync.WaitGroup
		for call, f := range map[string]func() error{
			"ping":  func() error { return e.Ping(t.Context()) },
			"alive": func() error { return e.Alive(t.Context()) },
			"list":  func() error { _, err := e.ContainerList(t.Context(), true); return err },
			"create": func() error {
				_, _, err := e.ContainerCreate(t.Context(), daemon.Creation{Name: name, Config: &container.Config{Image: box}})
				return err
			},
			"exec": func() error { _, err := e.Exec(t.Context(), "x", daemon.Exec{Cmd: []string{"true"}}); return err },
		} {
			all.Go(func() {
				err := f()
				if !daemon.Unknown(err) || !daemon.Unavailable(err) || !strings.Contains(err.Error(), d.Socket()+" gave no answer within 300ms") {
					t.Errorf("%s, %s: %v", name, call, err)
				}
			})
		}
		all.Wait()
	}
	if err := known.ImagePull(t.Context(), daemon.Pull{Ref: "127.0.0.1:1/x:1"}, nil); !daemon.Unknown(err) {
		t.Errorf("pull: %v", err)
	}
	d.Continue()
	patient := open(t, d.Socket(), daemon.Options{})
	must(t, patient.Ping(t.Context()))
	must(t, known.Close())
}

func TestEngineThatIsDown(t *testing.T) {
	d := dockertest.Private(t)
	known := open(t, d.Socket(), daemon.Options{})
	must(t, known.Ping(t.Context()))
	d.Shutdown()
	for name, e := range map[string]*daemon.Engine{"known": known, "fresh": open(t, d.Socket(), daemon.Options{})} {
		err := e.ContainerStart(t.Context(), "x")
		if !daemon.Unknown(err) || !daemon.Unavailable(err) || !strings.Contains(err.Error(), "systemctl start docker") {
			t.Errorf("%s: %v", name, err)
		}
	}
	nowhere := open(t, "/run/no/such.sock", daemon.Options{})
	if err := nowhere.Ping(t.Context()); !daemon.Unavailable(err) {
		t.Errorf("no socket: %v", err)
	}
	d.Start()
	must(t, known.Ping(t.Context()))
}

func TestAnswerThatIsLost(t *testing.T) {
	f := setup(t)
	p := f.d.Proxy()
	e := open(t, p.Socket(), daemon.Options{})
	p.After(func(r dockertest.Request) dockertest.Fate {
		if r.Write > 0 {
			return dockertest.Drop
		}
		return dockertest.Pass
	})
	_, _, err := e.ContainerCreate(t.Context(), daemon.Creation{Name: f.n.Name("a"), Config: &container.Config{Image: f.d.Busybox(t), Cmd: []string{"true"}}})
	if !daemon.Unknown(err) {
		t.Errorf("got %v", err)
	}
	f.inspect(f.n.Name("a")) // the create did take effect
}

func TestCallThatIsGivenUp(t *testing.T) {
	f := setup(t)
	p := f.d.Proxy()
	e := open(t, p.Socket(), daemon.Options{})
	must(t, e.Ping(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	p.Before(func(dockertest.Request) dockertest.Fate { cancel(); return dockertest.Hang })
	err := e.ContainerStart(ctx, "x")
	if !daemon.Unknown(err) || daemon.Unavailable(err) || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestEngineThatComesUpLate: a failed negotiation must not make later calls use
// a version that the engine refuses.
func TestEngineThatComesUpLate(t *testing.T) {
	d := dockertest.Private(t)
	d.Shutdown()
	e := open(t, d.Socket(), daemon.Options{})
	if err := e.Ping(t.Context()); !daemon.Unavailable(err) {
		t.Errorf("got %v", err)
	}
	d.Start()
	_, err := e.ContainerList(t.Context(), true)
	must(t, err)
}
