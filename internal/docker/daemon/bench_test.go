package daemon_test

import (
	"fmt"
	"testing"

	"github.com/moby/moby/api/types/container"

	"github.com/steadyfleet/steady/internal/docker/daemon"
	"github.com/steadyfleet/steady/internal/docker/dockertest"
)

// BenchmarkObserve100 lists 100 containers and inspects each: a full look at a host.
func BenchmarkObserve100(b *testing.B) {
	d := dockertest.Engine(b)
	n := d.Namespace(b)
	e, err := daemon.Open(daemon.Options{Socket: d.Socket()})
	must(b, err)
	defer e.Close()
	for i := range 100 {
		_, _, err := e.ContainerCreate(b.Context(), daemon.Creation{Name: n.Name(fmt.Sprint(i)),
			Config: &container.Config{Image: d.Busybox(b), Cmd: []string{"true"}}})
		must(b, err)
	}
	for b.Loop() {
		all, err := e.ContainerList(b.Context(), true)
		must(b, err)
		for _, c := range all {
			_, err := e.ContainerInspect(b.Context(), c.ID)
			must(b, err)
		}
	}
}
