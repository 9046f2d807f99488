package dockerapi

import (
	"context"

	"github.com/moby/moby/api/types/volume"
	"github.com/moby/moby/client"
)

// VolumeList lists volumes that carry all labels.
func (e *Engine) VolumeList(ctx context.Context, labels ...string) ([]volume.Volume, error) {
	out, err := requestAll(ctx, e, e.timeout, "list volumes", e.api.VolumeList, client.VolumeListOptions{Filters: labelled(labels)})
	return out.Items, err
}

// VolumeInspect reads a volume.
func (e *Engine) VolumeInspect(ctx context.Context, name string) (volume.Volume, error) {
	out, err := request(ctx, e, e.timeout, "inspect volume", name, e.api.VolumeInspect, client.VolumeInspectOptions{})
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
	_, err := request(ctx, e, e.longest, "remove volume", name, e.api.VolumeRemove, client.VolumeRemoveOptions{})
	return err
}
