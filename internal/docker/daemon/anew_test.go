package daemon_test

import (
	"reflect"
	"testing"

	"github.com/moby/moby/api/types/container"

	"github.com/steadyfleet/steady/internal/docker/daemon"
)

// TestInspectedAnew: nothing is decoded of a container that shows what it showed,
// what changed is, and both ways of reading one show the same.
func TestInspectedAnew(t *testing.T) {
	f := setup(t)
	ctx := t.Context()
	id := f.started("anew", nil)
	first, sum, err := f.ContainerInspectAnew(ctx, id, daemon.Sum{})
	must(t, err)
	if first == nil || !reflect.DeepEqual(*first, f.inspect(id)) {
		t.Fatalf("read as bytes it is %+v", first)
	}
	again, same, err := f.ContainerInspectAnew(ctx, id, sum)
	if must(t, err); again != nil || same != sum {
		t.Errorf("the same container was decoded again: %+v", again)
	}
	_, err = f.ContainerUpdate(ctx, id, &container.Resources{CPUShares: 99}, nil)
	must(t, err)
	changed, other, err := f.ContainerInspectAnew(ctx, id, sum)
	if must(t, err); changed == nil || other == sum || changed.HostConfig.CPUShares != 99 {
		t.Errorf("an update was not seen: %+v", changed)
	}
	if _, _, err := f.ContainerInspectAnew(ctx, f.n.Name("nobody"), sum); !daemon.NotFound(err) {
		t.Errorf("one that is not there: %v", err)
	}
	away := open(t, t.TempDir()+"/no.sock", daemon.Options{})
	if _, _, err := away.ContainerInspectAnew(ctx, id, sum); !daemon.Unavailable(err) {
		t.Errorf("an engine that is not there: %v", err)
	}
}
