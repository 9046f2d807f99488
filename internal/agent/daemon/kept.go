package daemon

import (
	"context"
	"errors"

	"github.com/steadyfleet/steady/internal/agent/hosting"
	"github.com/steadyfleet/steady/internal/agent/state"
	"github.com/steadyfleet/steady/internal/agent/uplink"
)

// ServeRoutes serves the host's routes as its state folder last had them, until ctx ends. It is for
// the time in which the agent cannot run because the disk of that folder is full. Nothing is written.
func ServeRoutes(ctx context.Context, cfg Config) error {
	kept, err := readKept(ctx, cfg)
	if err != nil || kept == nil {
		return err
	}
	return kept.Serve(ctx)
}

func readKept(ctx context.Context, cfg Config) (kept *hosting.Kept, err error) {
	peek, err := state.OpenPeek(cfg.StateDir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, peek.Close()) }()
	var id uplink.Identity
	if ok, err := peek.Get(ctx, keyIdentity, &id); err != nil || !ok {
		return nil, err
	}
	return hosting.ReadKept(ctx, hosting.Options{Config: cfg.Hosting, Fleet: id.Fleet, Host: id.EngineName(), StateDir: cfg.StateDir, Log: cfg.Log}, peek.DB)
}
