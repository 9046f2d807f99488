package dockerapi_test

import (
	"reflect"
	"testing"

	"github.com/moby/moby/api/types/container"

	"github.com/steadyfleet/steady/internal/docker/dockerapi"
	"github.com/steadyfleet/steady/internal/testkit"
)

// TestInspectedAnew: nothing is decoded of a container that shows what it showed,
// what changed is, and both ways of reading one show the same.
func TestInspectedAnew(t *testing.T) {
	f := setup(t)
	ctx := t.Context()
	id := f.started("anew", nil)
	first, sum, err := f.ContainerInspectIfChanged(ctx, id, dockerapi.Sum{})
	testkit.Must(t, err)
	if first == nil || !reflect.DeepEqual(*first, f.inspect(id)) {
		t.Fatalf("read as bytes it is %+v", first)
	}
	again, same, err := f.ContainerInspectIfChanged(ctx, id, sum)
	if testkit.Must(t, err); again != nil || same != sum {
		t.Errorf("the same container was decoded again: %+v", again)
	}
	_, err = f.ContainerUpdate(ctx, id, &container.Resources{CPUShares: 99}, nil)
	testkit.Must(t, err)
	changed, other, err := f.ContainerInspectIfChanged(ctx, id, sum)
	if testkit.Must(t, err); changed == nil || other == sum || changed.HostConfig.CPUShares != 99 {
		t.Errorf("an update was not seen: %+v", changed)
	}
	if _, _, err := f.ContainerInspectIfChanged(ctx, f.n.Name("nobody"), sum); !dockerapi.NotFound(err) {
		t.Errorf("one that is not there: %v", err)
	}
	away := open(t, t.TempDir()+"/no.sock", dockerapi.Options{})
	if _, _, err := away.ContainerInspectIfChanged(ctx, id, sum); !dockerapi.Unavailable(err) {
		t.Errorf("an engine that is not there: %v", err)
	}
}
