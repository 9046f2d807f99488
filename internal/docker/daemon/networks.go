package daemon

import (
	"context"

	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
)

// NetworkList lists networks of that very name (empty: any) that carry all
// labels. Several may have one name: address them by ID.
func (e *Engine) NetworkList(ctx context.Context, name string, labels ...string) ([]network.Summary, error) {
	var all client.NetworkListResult
	err := e.do(ctx, e.timeout, "list networks", name, func(ctx context.Context) (err error) {
		f := labelled(labels)
		if name != "" {
			f.Add("name", name)
		}
		all, err = e.api.NetworkList(ctx, client.NetworkListOptions{Filters: f})
		return err
	})
	if name == "" {
		return all.Items, err
	}
	var out []network.Summary
	for _, n := range all.Items {
		if n.Name == name { // the engine matches any part of the name
			out = append(out, n)
		}
	}
	return out, err
}

// NetworkInspect reads a network with its endpoints.
func (e *Engine) NetworkInspect(ctx context.Context, id string) (network.Inspect, error) {
	var out client.NetworkInspectResult
	err := e.do(ctx, e.timeout, "inspect network", id, func(ctx context.Context) (err error) {
		out, err = e.api.NetworkInspect(ctx, id, client.NetworkInspectOptions{})
		return err
	})
	return out.Network, err
}

// NetworkCreate makes a network. Engines before API 1.44 make a second one of
// the same name: look first, and let nobody else of the host create meanwhile.
func (e *Engine) NetworkCreate(ctx context.Context, name string, o client.NetworkCreateOptions) (id string, warnings []string, err error) {
	var out client.NetworkCreateResult
	err = e.do(ctx, e.timeout, "create network", name, func(ctx context.Context) (err error) {
		out, err = e.api.NetworkCreate(ctx, name, o)
		return err
	})
	return out.ID, out.Warning, err
}

// NetworkRemove removes a network without running containers.
func (e *Engine) NetworkRemove(ctx context.Context, id string) error {
	return e.do(ctx, e.timeout, "remove network", id, func(ctx context.Context) error {
		_, err := e.api.NetworkRemove(ctx, id, client.NetworkRemoveOptions{})
		return err
	})
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
