package workspace_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/dockerapi"
	"github.com/steadyfleet/steady/internal/docker/workspace"
)

// inspecting notes when each container was inspected.
type inspecting struct {
	workspace.Engine
	now func() time.Time

	mu    sync.Mutex
	at    map[string]time.Time
	count int
}

func (e *inspecting) ContainerInspectIfChanged(ctx context.Context, id string, known dockerapi.Sum) (*container.InspectResponse, dockerapi.Sum, error) {
	e.mu.Lock()
	e.at[id] = e.now()
	e.count++
	e.mu.Unlock()
	return e.Engine.ContainerInspectIfChanged(ctx, id, known)
}

// TestSweepIsSpread: with events heard and nothing new, each container is read
// again within a minute, and no look reads more than its share of them.
func TestSweepIsSpread(t *testing.T) {
	w := newWorld(t)
	const many, every = 6, 5 * clock.Second
	e := &inspecting{Engine: w.o.Engine, now: w.clock, at: map[string]time.Time{}}
	for i := range many {
		w.want(func(d *workspace.Desired) {
			d.Spec.Workspace.Name = fmt.Sprint("w", i)
			d.Spec.Workspace.State = spec.Stopped
		})
		w.r.Ref.ID, w.r.Generation = fmt.Sprint("w", i), 1
		w.converge("create")
		if i == 0 { // the rest is made by the one that counts
			w.o.Engine = e
			w.anew()
			w.manager().OnEvent(dockerapi.Event{Subject: dockerapi.Resync})
			w.observe()
		}
	}
	look := func() int {
		t.Helper()
		e.mu.Lock()
		before := e.count
		e.mu.Unlock()
		all, err := w.m.ObserveAll(t.Context())
		w.ok(err)
		if len(all) != many {
			t.Fatalf("%d of %d were seen", len(all), many)
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.count - before
	}
	w.hear(func(dockerapi.Event) {}) // what the last one made is no news to any look
	w.mu.Lock()
	w.still = time.Now() // however long a look takes
	w.mu.Unlock()
	look()
	read := 0
	for i := range 48 {
		w.pass(every)
		n := look()
		read += n
		if n > 1 {
			t.Errorf("look %d read %d of %d containers", i, n, many)
		}
		for id, at := range e.at {
			if age := w.clock().Sub(at); age > time.Minute {
				t.Errorf("look %d: container %s was read %s ago", i, id[:12], age)
			}
		}
	}
	if read < 4*many-1 {
		t.Errorf("%d reads of %d containers in four minutes", read, many)
	}
}
