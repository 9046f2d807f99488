package dockerapi

import (
	"context"
	"slices"

	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
)

// NetworkList lists networks of that very name (empty: any) that carry all
// labels. Several may have one name: address them by ID.
func (e *Engine) NetworkList(ctx context.Context, name string, labels ...string) ([]network.Summary, error) {
	f := labelled(labels)
	if name != "" {
		f.Add("name", name)
	}
	all, err := requestAll(ctx, e, e.timeout, "list networks", e.api.NetworkList, client.NetworkListOptions{Filters: f})
	// The engine matches any part of the name.
	return slices.DeleteFunc(all.Items, func(n network.Summary) bool { return name != "" && n.Name != name }), err
}

// NetworkCreate makes a network. Engines before API 1.44 make a second one of
// the same name: look first, and let nobody else of the host create meanwhile.
func (e *Engine) NetworkCreate(ctx context.Context, name string, o client.NetworkCreateOptions) (id string, warnings []string, err error) {
	out, err := request(ctx, e, e.timeout, "create network", name, e.api.NetworkCreate, o)
	return out.ID, out.Warning, err
}

// NetworkRemove removes a network without running containers.
func (e *Engine) NetworkRemove(ctx context.Context, id string) error {
	_, err := request(ctx, e, e.timeout, "remove network", id, e.api.NetworkRemove, client.NetworkRemoveOptions{})
	return err
}

// NetworkConnect connects a container, running or not. Aliases and addresses of
// an earlier connection are gone: endpoint has to name them all.
func (e *Engine) NetworkConnect(ctx context.Context, id, container string, endpoint *network.EndpointSettings) error {
	return e.do(ctx, e.timeout, "connect to network "+id+" container", container, func(ctx context.Context) error {
		_, err := e.api.NetworkConnect(ctx, id, client.NetworkConnectOptions{Container: container, EndpointConfig: endpoint})
		return err
	})
}

// NetworkDisconnect disconnects a container; force also from a network that is gone.
func (e *Engine) NetworkDisconnect(ctx context.Context, id, container string, force bool) error {
	return e.do(ctx, e.timeout, "disconnect from network "+id+" container", container, func(ctx context.Context) error {
		_, err := e.api.NetworkDisconnect(ctx, id, client.NetworkDisconnectOptions{Container: container, Force: force})
		return err
	})
}
