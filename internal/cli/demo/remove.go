package demo

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/steadyfleet/steady/internal/docker/daemon"
	"github.com/steadyfleet/steady/internal/docker/ownership"
)

// removeIn bounds the removal of all that the demonstration made.
const removeIn = 3 * time.Minute

// things counts what was removed from the engine.
type things struct {
	Containers int `json:"containers"`
	Networks   int `json:"networks"`
	Volumes    int `json:"volumes"`
	Images     int `json:"images"`
}

func (t things) String() string {
	return fmt.Sprintf("%d containers, %d networks, %d volumes and %d images", t.Containers, t.Networks, t.Volumes, t.Images)
}

// owned is the label that everything of a host on the engine has.
func (d *shop) owned(host string) string {
	return ownership.LabelOwner + "=" + ownership.Owner{Fleet: d.fleet, Host: host}.ID()
}

// removeAll removes from the engine what the agents made, which have ended. What
// belongs to others is not looked at.
func (d *shop) removeAll(ctx context.Context) (*things, error) {
	ctx, cancel := context.WithTimeout(ctx, removeIn)
	defer cancel()
	removed, left := &things{}, &things{}
	for _, host := range shopHosts {
		for _, remove := range []func(context.Context, string, *things) error{d.removeContainers, d.removeNetworks, d.removeVolumes, d.removeImages} {
			if err := remove(ctx, d.owned(host), removed); err != nil {
				return removed, fmt.Errorf("remove what %s has on the engine (label %s): %w", host, d.owned(host), err)
			}
		}
	}
	for _, host := range shopHosts {
		if err := d.count(ctx, d.owned(host), left); err != nil {
			return removed, err
		}
	}
	if *left != (things{}) {
		return removed, fmt.Errorf("%s of the demonstration are left on the engine: look for the label %s", left, ownership.LabelOwner)
	}
	return removed, nil
}

// count adds what is on the engine with a label.
func (d *shop) count(ctx context.Context, label string, n *things) error {
	containers, err := d.api.ContainerList(ctx, true, label)
	if err != nil {
		return err
	}
	networks, err := d.api.NetworkList(ctx, "", label)
	if err != nil {
		return err
	}
	volumes, err := d.api.VolumeList(ctx, label)
	if err != nil {
		return err
	}
	images, err := d.api.ImageList(ctx, label)
	if err != nil {
		return err
	}
	n.Containers += len(containers)
	n.Networks += len(networks)
	n.Volumes += len(volumes)
	n.Images += len(images)
	return nil
}

func (d *shop) removeContainers(ctx context.Context, label string, n *things) error {
	list, err := d.api.ContainerList(ctx, true, label)
	if err != nil {
		return err
	}
	for _, c := range list {
		if err := d.api.ContainerRemove(ctx, c.ID, daemon.Removal{Force: true, AnonymousVolumes: true}); err != nil && !daemon.NotFound(err) {
			return err
		}
		n.Containers++
	}
	return nil
}

func (d *shop) removeNetworks(ctx context.Context, label string, n *things) error {
	list, err := d.api.NetworkList(ctx, "", label)
	if err != nil {
		return err
	}
	for _, w := range list {
		if err := d.api.NetworkRemove(ctx, w.ID); err != nil && !daemon.NotFound(err) {
			return err
		}
		n.Networks++
	}
	return nil
}

func (d *shop) removeVolumes(ctx context.Context, label string, n *things) error {
	list, err := d.api.VolumeList(ctx, label)
	if err != nil {
		return err
	}
	for _, v := range list {
		if err := d.api.VolumeRemove(ctx, v.Name); err != nil && !daemon.NotFound(err) {
			return err
		}
		n.Volumes++
	}
	return nil
}

// removeImages removes every reference of an image, then what has none. One that
// both hosts built is one image.
func (d *shop) removeImages(ctx context.Context, label string, n *things) error {
	list, err := d.api.ImageList(ctx, label)
	if err != nil {
		return err
	}
	for _, image := range list {
		refs := slices.DeleteFunc(slices.Clone(image.RepoTags), func(ref string) bool { return strings.HasPrefix(ref, "<none>") })
		if len(refs) == 0 {
			refs = []string{image.ID}
		}
		for _, ref := range refs {
			if _, err := d.api.ImageRemove(ctx, ref); err != nil && !daemon.NotFound(err) {
				return err
			}
		}
		n.Images++
	}
	return nil
}
