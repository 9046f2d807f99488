package dockertest

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"
)

// Namespace keeps the objects of one test apart from those of others.
type Namespace struct {
	// Prefix begins every name: lower case, letters and digits, ends with `-`.
	Prefix string
}

// Namespace gives the test a prefix and removes, when it ends, every container,
// network, volume and image whose name, reference or label value contains it.
func (d *Daemon) Namespace(t testing.TB) Namespace {
	t.Helper()
	n := Namespace{Prefix: "t" + strings.ToLower(rand.Text()[:8]) + "-"}
	t.Cleanup(func() {
		if d.PID() == 0 {
			return // nothing runs, and the folder goes with the process
		}
		n.clean(t, d.Client())
	})
	return n
}

// Name is a name in the namespace.
func (n Namespace) Name(s string) string { return n.Prefix + s }

// contains reports that one of the words belongs to the namespace.
func (n Namespace) contains(labels map[string]string, names ...string) bool {
	for _, w := range names {
		if strings.Contains(w, n.Prefix) {
			return true
		}
	}
	for k, v := range labels {
		if strings.Contains(k, n.Prefix) || strings.Contains(v, n.Prefix) {
			return true
		}
	}
	return false
}

// clean removes kind after kind until the engine lists no more of it. An error on
// the way is none of its own: the engine may be removing the same, as it does the
// containers of a build that ended, and what it still removes is in the way of others.
func (n Namespace) clean(t testing.TB, api *client.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	for _, kind := range []struct {
		name  string
		sweep func(context.Context, *client.Client) (int, error)
	}{{"containers", n.containers}, {"networks", n.networks}, {"volumes", n.volumes}, {"images", n.images}} {
		if err := sweep(ctx, func() (int, error) { return kind.sweep(ctx, api) }); err != nil {
			t.Errorf("clean up %s: %v", kind.name, err)
		}
	}
}

// sweep calls once until it finds nothing, or ctx ends.
func sweep(ctx context.Context, once func() (found int, err error)) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		found, err := once()
		if found == 0 && err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return errors.Join(ctx.Err(), last)
		}
		if last = err; err == nil {
			continue // all is removed: look
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// containers removes those of the namespace, and gives how many it found.
func (n Namespace) containers(ctx context.Context, api *client.Client) (found int, err error) {
	list, err := api.ContainerList(ctx, client.ContainerListOptions{All: true})
	for _, c := range list.Items {
		if n.contains(c.Labels, append(c.Names, c.Image)...) {
			found++
			_, failed := api.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
			err = errors.Join(err, failed)
		}
	}
	return found, err
}

func (n Namespace) networks(ctx context.Context, api *client.Client) (found int, err error) {
	list, err := api.NetworkList(ctx, client.NetworkListOptions{})
	for _, w := range list.Items {
		if n.contains(w.Labels, w.Name) {
			found++
			_, failed := api.NetworkRemove(ctx, w.ID, client.NetworkRemoveOptions{})
			err = errors.Join(err, failed)
		}
	}
	return found, err
}

func (n Namespace) volumes(ctx context.Context, api *client.Client) (found int, err error) {
	list, err := api.VolumeList(ctx, client.VolumeListOptions{})
	for _, v := range list.Items {
		if n.contains(v.Labels, v.Name) {
			found++
			_, failed := api.VolumeRemove(ctx, v.Name, client.VolumeRemoveOptions{Force: true})
			err = errors.Join(err, failed)
		}
	}
	return found, err
}

// images removes references of the namespace, and images that only their labels
// place in it.
func (n Namespace) images(ctx context.Context, api *client.Client) (found int, err error) {
	list, err := api.ImageList(ctx, client.ImageListOptions{})
	for _, i := range list.Items {
		refs := slices.DeleteFunc(append(i.RepoTags, i.RepoDigests...), func(ref string) bool { return !n.contains(nil, ref) })
		if len(refs) == 0 && n.contains(i.Labels) {
			refs = []string{i.ID}
		}
		for _, ref := range refs { // a digest goes with the last tag: the next list has neither
			found++
			_, failed := api.ImageRemove(ctx, ref, client.ImageRemoveOptions{Force: true, PruneChildren: true})
			err = errors.Join(err, failed)
		}
	}
	return found, err
}
