// Package preparation brings to a host all that an offer needs: the verified plan
// and bundle, room on its disks, content, images, and the closure of a Nix system.
// Content comes from the host's store or else its server, and never without its digest.
// It changes nothing that runs, claims nothing, and tries once: the agent decides
// whether to try again.
package preparation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"golang.org/x/sys/unix"

	"github.com/steadyfleet/steady/internal/agent/state"
	"github.com/steadyfleet/steady/internal/agent/uplink"
	"github.com/steadyfleet/steady/internal/agent/verify"
	"github.com/steadyfleet/steady/internal/core/agent"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/disk"
	"github.com/steadyfleet/steady/internal/docker"
	"github.com/steadyfleet/steady/internal/system"
	"github.com/steadyfleet/steady/internal/trust"
	"github.com/steadyfleet/steady/internal/wire"
)

// Words that open the detail of a declined preparation.
const (
	Refused  = "refused"
	DiskFull = "disk-full"
	Missing  = "content-missing"
	// Prerequisite is of what the host lacks and a bundle cannot bring, such as a driver.
	Prerequisite = "prerequisite-missing"
	Failed       = "failed"
)

// Final is the word for an error that another attempt does not cure; empty for one
// that it may.
func Final(err error) string {
	switch {
	case errors.As(err, new(*trust.Error)):
		return Refused
	case state.Full(err):
		return DiskFull
	case uplink.StatusOf(err) == http.StatusNotFound:
		return Missing
	case errors.Is(err, docker.ErrPrerequisite):
		return Prerequisite
	case errors.As(err, new(*ContentError)), errors.Is(err, docker.ErrCannotPrepare), errors.Is(err, errSystem):
		return Failed
	}
	return ""
}

// Detail is what a host reports of an error with its word. Failed goes without: the
// code of the answer says that already.
func Detail(final string, err error) string {
	if final == Failed {
		return err.Error()
	}
	return final + ": " + err.Error()
}

// Server is where bundles come from.
type Server interface {
	Bundle(ctx context.Context, d digest.Digest) ([]byte, error)
}

// Containers readies the containers of a bundle.
type Containers interface {
	Prepare(ctx context.Context, s *spec.Set) error
}

// System readies the Nix system of a bundle.
type System interface {
	// RoomInStore is nil where nothing is known to be brought.
	RoomInStore(ctx context.Context, bundle digest.Digest, n *fleet.Nix) (*system.Room, error)
	KeepWayBack(ctx context.Context, bundle digest.Digest, n *fleet.Nix, back string) error
	PrepareNix(ctx context.Context, bundle digest.Digest, n *fleet.Nix) error
	// LacksNix lists the paths of a system that comes path by path and that the host's store
	// does not have.
	LacksNix(ctx context.Context, bundle digest.Digest, n *fleet.Nix) ([]fleet.StorePath, error)
}

// Preparer prepares one host.
type Preparer struct {
	Root, StateDir string
	Store          *state.Store
	Server         Server
	Follower       *verify.Follower
	Content        *Cache
	Containers     Containers
	System         System
	Nars           *Nars
	// Back is the bundle that the host would go back to from what it prepares.
	Back func() digest.Digest
}

// Prepare fetches and checks what an offer needs. What a former attempt brought is
// not fetched again.
func (p *Preparer) Prepare(ctx context.Context, o agent.Offer) error {
	plan, err := p.Plan(ctx, o)
	if err != nil {
		return err
	}
	target := plan.Value().Target
	raw, err := p.Store.Blob(target, wire.MaxDocument)
	cached := err == nil
	if !cached {
		if raw, err = p.Server.Bundle(ctx, target); err != nil {
			return err
		}
	}
	bundle, err := p.Follower.Bundle(plan, raw)
	if err != nil {
		return err
	}
	missing, err := p.Content.Missing(ctx, bundle.Value())
	if err != nil {
		return err
	}
	if err := p.room(bundle.Value(), missing); err != nil {
		return err
	}
	if !cached {
		if err := p.Content.Put(bundle.Digest(), raw); err != nil {
			return err
		}
	}
	for _, f := range missing {
		if err := p.Content.Fetch(ctx, f.Digest, f.Size); err != nil {
			return err
		}
	}
	if n := bundle.Value().Nix; n != nil {
		if err := p.system(ctx, bundle.Digest(), n); err != nil {
			return err
		}
	}
	return p.Containers.Prepare(ctx, bundle.Value().Containers)
}

// Plan verifies an offer's plan again: the process may have restarted, and the
// fleet's documents moved on.
func (p *Preparer) Plan(ctx context.Context, o agent.Offer) (trust.Verified[fleet.HostPlan], error) {
	plan, err := p.Follower.Plan(ctx, o.Plan.Rollout, o.Plan.Manifest)
	if err != nil {
		return trust.Verified[fleet.HostPlan]{}, err
	}
	now, err := json.Marshal(plan.Host.Value())
	if err != nil {
		return trust.Verified[fleet.HostPlan]{}, err
	}
	then, err := json.Marshal(o.Plan)
	if err != nil {
		return trust.Verified[fleet.HostPlan]{}, err
	}
	if !bytes.Equal(now, then) {
		return trust.Verified[fleet.HostPlan]{}, &trust.Error{Code: trust.ManifestMismatch, Message: "the plan is not the one that was offered"}
	}
	return plan.Host, nil
}

// room checks that the disks take what is missing, and every file of the bundle
// once more below the root folder.
func (p *Preparer) room(b fleet.Bundle, missing []spec.Blob) error {
	var fetch, place int64
	for _, f := range missing {
		fetch += f.Size
	}
	for _, f := range b.Files {
		place += f.Size
	}
	var root, dir unix.Stat_t
	if err := errors.Join(unix.Stat(p.Root, &root), unix.Stat(p.StateDir, &dir)); err != nil {
		return fmt.Errorf("check the free disk space: %w", err)
	}
	if root.Dev == dir.Dev {
		return p.Store.Room(fetch + place)
	}
	space, err := disk.SpaceOf(p.Root)
	if err != nil {
		return err
	}
	if space.Free < place+state.Margin {
		return fmt.Errorf("%w: %d bytes are needed below %s, %d are free", state.ErrNoRoom, place, p.Root, space.Free)
	}
	return p.Store.Room(fetch)
}
