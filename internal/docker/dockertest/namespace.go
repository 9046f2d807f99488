package dockertest

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"

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

// mine reports that one of the words belongs to the namespace.
func (n Namespace) mine(labels map[string]string, words ...string) bool {
	for _, w := range words {
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

func (n Namespace) clean(t testing.TB, api *client.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	failed := func(what string, err error) {
		if err != nil {
			t.Errorf("clean up %s: %v", what, err)
		}
	}
	containers, err := api.ContainerList(ctx, client.ContainerListOptions{All: true})
	failed("containers", err)
	for _, c := range containers.Items {
		if n.mine(c.Labels, append(c.Names, c.Image)...) {
			_, err := api.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
			failed("container "+c.ID, err)
		}
	}
	networks, err := api.NetworkList(ctx, client.NetworkListOptions{})
	failed("networks", err)
	for _, w := range networks.Items {
		if n.mine(w.Labels, w.Name) {
			_, err := api.NetworkRemove(ctx, w.ID, client.NetworkRemoveOptions{})
			failed("network "+w.Name, err)
		}
	}
	volumes, err := api.VolumeList(ctx, client.VolumeListOptions{})
	failed("volumes", err)
	for _, v := range volumes.Items {
		if n.mine(v.Labels, v.Name) {
			_, err := api.VolumeRemove(ctx, v.Name, client.VolumeRemoveOptions{Force: true})
			failed("volume "+v.Name, err)
		}
	}
	images, err := api.ImageList(ctx, client.ImageListOptions{})
	failed("images", err)
	for _, i := range images.Items {
		for _, ref := range append(i.RepoTags, i.RepoDigests...) {
			if n.mine(nil, ref) {
				_, err := api.ImageRemove(ctx, ref, client.ImageRemoveOptions{Force: true, PruneChildren: true})
				if err != nil && !strings.Contains(err.Error(), "No such image") { // the digest goes with the last tag
					failed("image "+ref, err)
				}
			}
		}
	}
	n.cleanUntagged(ctx, t, api)
}

// cleanUntagged removes images that only their labels place in the namespace.
func (n Namespace) cleanUntagged(ctx context.Context, t testing.TB, api *client.Client) {
	images, err := api.ImageList(ctx, client.ImageListOptions{})
	if err != nil {
		t.Errorf("clean up images: %v", err)
	}
	for _, i := range images.Items {
		if !n.mine(i.Labels) {
			continue
		}
		_, err := api.ImageRemove(ctx, i.ID, client.ImageRemoveOptions{Force: true, PruneChildren: true})
		if err != nil && !strings.Contains(err.Error(), "No such image") {
			t.Errorf("clean up image %s: %v", i.ID, err)
		}
	}
}
