package dockerapi_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"

	"github.com/steadyfleet/steady/internal/docker/dockerapi"
	"github.com/steadyfleet/steady/internal/docker/dockertest"
	"github.com/steadyfleet/steady/internal/testkit"
)

func TestEngineThatHangs(t *testing.T) {
	d := dockertest.Private(t)
	box := d.Busybox(t)
	known := open(t, d.Socket(), dockerapi.Options{Timeout: 300 * time.Millisecond, PullTimeout: 300 * time.Millisecond})
	for err := known.Alive(t.Context()); err != nil; err = known.Alive(t.Context()) {
		if !dockerapi.Unavailable(err) { // a busy engine answers later
			t.Fatal(err)
		}
	}
	fresh := open(t, d.Socket(), dockerapi.Options{Timeout: 300 * time.Millisecond, PullTimeout: 300 * time.Millisecond})
	d.Stop()
	for name, e := range map[string]*dockerapi.Engine{"known": known, "fresh": fresh} {
		// All at once: one that waits for an answer holds up no other one.
		var all sync.WaitGroup
		for call, f := range map[string]func() error{
			"alive": func() error { return e.Alive(t.Context()) },
			"list":  func() error { _, err := e.ContainerList(t.Context(), true); return err },
			"create": func() error {
				_, _, err := e.ContainerCreate(t.Context(), dockerapi.Creation{Name: name, Config: &container.Config{Image: box}})
				return err
			},
			"exec": func() error { _, err := e.Exec(t.Context(), "x", dockerapi.Exec{Cmd: []string{"true"}}); return err },
		} {
			all.Go(func() {
				err := f()
				if !dockerapi.Unknown(err) || !dockerapi.Unavailable(err) || !strings.Contains(err.Error(), d.Socket()+" gave no answer within 300ms") {
					t.Errorf("%s, %s: %v", name, call, err)
				}
			})
		}
		all.Wait()
	}
	if err := known.ImagePull(t.Context(), dockerapi.Pull{Ref: "127.0.0.1:1/x:1"}, nil); !dockerapi.Unknown(err) {
		t.Errorf("pull: %v", err)
	}
	d.Continue()
	patient := open(t, d.Socket(), dockerapi.Options{})
	testkit.Must(t, patient.Alive(t.Context()))
	testkit.Must(t, known.Close())
}

func TestEngineThatIsDown(t *testing.T) {
	d := dockertest.Private(t)
	known := open(t, d.Socket(), dockerapi.Options{})
	testkit.Must(t, known.Alive(t.Context()))
	d.Shutdown()
	for name, e := range map[string]*dockerapi.Engine{"known": known, "fresh": open(t, d.Socket(), dockerapi.Options{})} {
		err := e.ContainerStart(t.Context(), "x")
		if !dockerapi.Unknown(err) || !dockerapi.Unavailable(err) || !strings.Contains(err.Error(), "systemctl start docker") {
			t.Errorf("%s: %v", name, err)
		}
	}
	nowhere := open(t, "/run/no/such.sock", dockerapi.Options{})
	if err := nowhere.Alive(t.Context()); !dockerapi.Unavailable(err) {
		t.Errorf("no socket: %v", err)
	}
	d.Start()
	testkit.Must(t, known.Alive(t.Context()))
}

func TestAnswerThatIsLost(t *testing.T) {
	f := setup(t)
	p := f.d.Proxy()
	e := open(t, p.Socket(), dockerapi.Options{})
	p.After(func(r dockertest.Request) dockertest.Outcome {
		if r.Write > 0 {
			return dockertest.Drop
		}
		return dockertest.Pass
	})
	_, _, err := e.ContainerCreate(t.Context(), dockerapi.Creation{Name: f.n.Name("a"), Config: &container.Config{Image: f.d.Busybox(t), Cmd: []string{"true"}}})
	if !dockerapi.Unknown(err) {
		t.Errorf("got %v", err)
	}
	f.inspect(f.n.Name("a")) // the create did take effect
}

func TestCallThatIsGivenUp(t *testing.T) {
	f := setup(t)
	p := f.d.Proxy()
	e := open(t, p.Socket(), dockerapi.Options{})
	testkit.Must(t, e.Alive(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	p.Before(func(dockertest.Request) dockertest.Outcome { cancel(); return dockertest.Hang })
	err := e.ContainerStart(ctx, "x")
	if !dockerapi.Unknown(err) || dockerapi.Unavailable(err) || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestEngineThatComesUpLate: a failed negotiation must not make later calls use
// a version that the engine refuses.
func TestEngineThatComesUpLate(t *testing.T) {
	d := dockertest.Private(t)
	d.Shutdown()
	e := open(t, d.Socket(), dockerapi.Options{})
	if err := e.Alive(t.Context()); !dockerapi.Unavailable(err) {
		t.Errorf("got %v", err)
	}
	d.Start()
	testkit.Value(e.ContainerList(t.Context(), true))(t)
}
