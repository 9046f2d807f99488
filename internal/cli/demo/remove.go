package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/image"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/api/types/volume"

	"github.com/steadyfleet/steady/internal/docker/convert"
	"github.com/steadyfleet/steady/internal/docker/dockerapi"
)

// removeIn bounds the removal of all that the demonstration made.
const removeIn = 3 * time.Minute

// things counts what was removed from the engine, by class.
type things map[string]int

func (t things) String() string {
	return fmt.Sprintf("%d containers, %d networks, %d volumes and %d images", t["containers"], t["networks"], t["volumes"], t["images"])
}

// class is one class of what agents make on an engine. list returns what has a label,
// each as what removes it.
type class struct {
	name string
	list func(ctx context.Context, label string) ([]removal, error)
}

type removal func(context.Context) error

// classes are all, in the order in which they can be removed.
func (d *shop) classes() []class {
	return []class{
		{"containers", func(ctx context.Context, label string) ([]removal, error) {
			list, err := d.api.ContainerList(ctx, true, label)
			return removals(list, func(ctx context.Context, c container.Summary) error {
				return d.api.ContainerRemove(ctx, c.ID, dockerapi.Removal{Force: true, AnonymousVolumes: true})
			}), err
		}},
		{"networks", func(ctx context.Context, label string) ([]removal, error) {
			list, err := d.api.NetworkList(ctx, "", label)
			return removals(list, func(ctx context.Context, n network.Summary) error { return d.api.NetworkRemove(ctx, n.ID) }), err
		}},
		{"volumes", func(ctx context.Context, label string) ([]removal, error) {
			list, err := d.api.VolumeList(ctx, label)
			return removals(list, func(ctx context.Context, v volume.Volume) error { return d.api.VolumeRemove(ctx, v.Name) }), err
		}},
		{"images", func(ctx context.Context, label string) ([]removal, error) {
			list, err := d.api.ImageList(ctx, label)
			return removals(list, d.removeImage), err
		}},
	}
}

func removals[T any](list []T, remove func(context.Context, T) error) (out []removal) {
	for _, item := range list {
		out = append(out, func(ctx context.Context) error { return remove(ctx, item) })
	}
	return out
}

// removeImage removes every reference of an image, or what has none. One that both
// hosts built is one image.
func (d *shop) removeImage(ctx context.Context, i image.Summary) error {
	refs := slices.DeleteFunc(slices.Clone(i.RepoTags), func(ref string) bool { return strings.HasPrefix(ref, "<none>") })
	if len(refs) == 0 {
		refs = []string{i.ID}
	}
	for _, ref := range refs {
		if _, err := d.api.ImageRemove(ctx, ref); err != nil && !dockerapi.NotFound(err) {
			return err
		}
	}
	return nil
}

// owned is the label that everything of a host on the engine has.
func (d *shop) owned(host string) string {
	return convert.LabelOwner + "=" + convert.Owner{Fleet: d.fleet, Host: host}.ID()
}

// remove ends what was started, and removes from the engine what the agents made:
// nothing of others.
func (d *shop) remove(ctx context.Context) error {
	if err := d.Report.step("Everything is removed again"); err != nil {
		return err
	}
	d.end()
	for _, v := range d.visitors {
		v.close()
	}
	if d.api == nil {
		return nil
	}
	return errors.Join(d.removeAll(ctx), d.api.Close())
}

func (d *shop) removeAll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, removeIn)
	defer cancel()
	d.result.Removed = things{}
	for _, host := range shopHosts {
		for _, c := range d.classes() {
			list, err := c.list(ctx, d.owned(host))
			for _, remove := range list {
				if rerr := remove(ctx); rerr != nil && !dockerapi.NotFound(rerr) {
					err = errors.Join(err, rerr)
				}
			}
			if err != nil {
				return fmt.Errorf("remove the %s of %s from the engine (label %s): %w", c.name, host, d.owned(host), err)
			}
			d.result.Removed[c.name] += len(list)
		}
	}
	for _, host := range shopHosts {
		for _, c := range d.classes() {
			if left, err := c.list(ctx, d.owned(host)); err != nil || len(left) > 0 {
				return errors.Join(err, fmt.Errorf("%d %s of %s are left on the engine (label %s)", len(left), c.name, host, d.owned(host)))
			}
		}
	}
	return nil
}
