package daemon

import (
	"context"

	"github.com/moby/moby/api/types/volume"
	"github.com/moby/moby/client"
)

// VolumeList lists volumes that carry all labels.
func (e *Engine) VolumeList(ctx context.Context, labels ...string) ([]volume.Volume, error) {
	var out client.VolumeListResult
	err := e.do(ctx, e.timeout, "list volumes", "", func(ctx context.Context) (err error) {
		out, err = e.api.VolumeList(ctx, client.VolumeListOptions{Filters: labelled(labels)})
		return err
	})
	return out.Items, err
}

// VolumeInspect reads a volume.
func (e *Engine) VolumeInspect(ctx context.Context, name string) (volume.Volume, error) {
	var out client.VolumeInspectResult
	err := e.do(ctx, e.timeout, "inspect volume", name, func(ctx context.Context) (err error) {
		out, err = e.api.VolumeInspect(ctx, name, client.VolumeInspectOptions{})
		return err
	})
	return out.Volume, err
}

// VolumeCreate makes a volume. One that exists is given back as it is, with the
// labels and options that it was made with: compare them.
func (e *Engine) VolumeCreate(ctx context.Context, o client.VolumeCreateOptions) (volume.Volume, error) {
	var out client.VolumeCreateResult
	err := e.do(ctx, e.timeout, "create volume", o.Name, func(ctx context.Context) (err error) {
		out, err = e.api.VolumeCreate(ctx, o)
		return err
	})
	return out.Volume, err
}

// VolumeRemove removes a volume and its data. It never forces.
func (e *Engine) VolumeRemove(ctx context.Context, name string) error {
	return e.do(ctx, e.longest, "remove volume", name, func(ctx context.Context) error {
		_, err := e.api.VolumeRemove(ctx, name, client.VolumeRemoveOptions{})
		return err
	})
}
