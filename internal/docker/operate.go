package docker

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/moby/moby/api/types/system"

	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/dockerapi"
	"github.com/steadyfleet/steady/internal/docker/image"
	"github.com/steadyfleet/steady/internal/docker/workspace"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// Errors of people's requests.
var (
	ErrNoWorkspace = errors.New("there is no container of this workspace on the host")
	ErrNotRunning  = errors.New("the workspace does not run")
)

// Find is the container in a workspace's place, and whether it runs.
func (h *Host) Find(ctx context.Context, name string) (id string, running bool, err error) {
	c, err := h.workspaces.Find(ctx, name)
	switch {
	case err != nil:
		return "", false, err
	case c == nil:
		return "", false, fmt.Errorf("%w: %s", ErrNoWorkspace, name)
	}
	return c.ID, c.State == "running", nil
}

// FindRunning is the container in a workspace's place, which has to run.
func (h *Host) FindRunning(ctx context.Context, name string) (id string, err error) {
	id, running, err := h.Find(ctx, name)
	if err == nil && !running {
		err = fmt.Errorf("%w: %s", ErrNotRunning, name)
	}
	return id, err
}

// Engine is the engine that the containers run on.
func (h *Host) Engine() *dockerapi.Engine { return h.o.Engine }

// Output writes the lines of an image's pulls and builds, follows what is under
// way, and says on notes what is kept no longer. It returns the newest line's
// number.
func (h *Host) Output(ctx context.Context, name string, q image.Query, w, notes io.Writer) (last int64, err error) {
	return h.output.Copy(ctx, name, q, func() (bool, error) {
		row, err := h.row(ctx, spec.KindImage, name)
		return row != nil && row.Phase == engine.Acting, err
	}, w, notes)
}

// Targets lists the containers of workspaces that run, for measuring.
func (h *Host) Targets(ctx context.Context) ([]workspace.Process, error) {
	return h.workspaces.Processes(ctx)
}

// About is which engine this is, for people.
func (h *Host) About(ctx context.Context) (dockerapi.Version, system.Info, error) {
	v, err := h.o.Engine.Version(ctx)
	if err != nil {
		return v, system.Info{}, err
	}
	i, err := h.o.Engine.Info(ctx)
	return v, i, err
}
