package docker

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/docker/convert"
	"github.com/steadyfleet/steady/internal/docker/dockerapi"
	"github.com/steadyfleet/steady/internal/docker/workspace"
	"github.com/steadyfleet/steady/internal/router"
)

// drainFor bounds the wait for requests to a container that is about to stop.
const drainFor = 10 * time.Second

// upstreams leads the router's requests to good containers.
func (h *Host) upstreams() workspace.Upstreams {
	if h.o.Router == nil {
		return nil
	}
	return upstreams{h}
}

type upstreams struct{ h *Host }

func (u upstreams) Pause(name string) {
	u.h.o.Router.SetUpstream(name, router.Upstream{State: router.Holding})
}

// Serving is where the router finds a workspace by what is on the engine alone.
func Serving(ctx context.Context, engine *dockerapi.Engine, o convert.Owner, w *spec.Workspace) router.Upstream {
	to, _ := workspace.Serving(ctx, engine, o, w)
	return upstreamOf(to)
}

func upstreamOf(to workspace.Target) router.Upstream {
	if a := addrs(to); len(a) > 0 {
		return router.Upstream{State: router.Ready, Addrs: a, ID: to.ID}
	}
	return router.Upstream{State: router.Gone}
}

// Set is asked to the exports as well: they hold addresses.
func (u upstreams) Set(name string, to workspace.Target) {
	u.h.o.Router.SetUpstream(name, upstreamOf(to))
	if u.h.o.RouteChanged == nil {
		return
	}
	if err := u.h.o.RouteChanged(u.h.o.Router.Table()); err != nil {
		u.h.o.Log.Warn("routes were not exported", "error", err)
	}
}

// Drain waits for the requests of the one in place. What is still open after
// that ends with the container.
func (u upstreams) Drain(ctx context.Context, name string, from workspace.Target) {
	ctx, cancel := context.WithTimeout(ctx, drainFor)
	defer cancel()
	for _, a := range addrs(from) {
		err := u.h.o.Router.Drain(ctx, name, a)
		var left *router.Undrained
		if errors.As(err, &left) {
			u.h.o.Log.Info("requests end with their container", "workspace", name, "requests", left.InFlight, "upgraded", left.Upgraded)
		}
	}
}

// addrs are a container's addresses: one is enough, and the same one every time.
// Port 0 takes the route's.
func addrs(t workspace.Target) []netip.AddrPort {
	for _, network := range slices.Sorted(maps.Keys(t.Addresses)) {
		if a := t.Addresses[network]; a.IsValid() {
			return []netip.AddrPort{netip.AddrPortFrom(a, 0)}
		}
	}
	return nil
}
