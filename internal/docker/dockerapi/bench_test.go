package dockerapi_test

import (
	"fmt"
	"testing"

	"github.com/moby/moby/api/types/container"

	"github.com/steadyfleet/steady/internal/docker/dockerapi"
	"github.com/steadyfleet/steady/internal/docker/dockertest"
	"github.com/steadyfleet/steady/internal/testkit"
)

// BenchmarkObserve100 lists 100 containers and inspects each: a full look at a host.
func BenchmarkObserve100(b *testing.B) {
	d := dockertest.Engine(b)
	n := d.Namespace(b)
	e := testkit.Value(dockerapi.Open(dockerapi.Options{Socket: d.Socket()}))(b)
	defer e.Close()
	for i := range 100 {
		_, _, err := e.ContainerCreate(b.Context(), dockerapi.Creation{Name: n.Name(fmt.Sprint(i)),
			Config: &container.Config{Image: d.Busybox(b), Cmd: []string{"true"}}})
		testkit.Must(b, err)
	}
	for b.Loop() {
		all := testkit.Value(e.ContainerList(b.Context(), true))(b)
		for _, c := range all {
			testkit.Value(e.ContainerInspect(b.Context(), c.ID))(b)
		}
	}
}
