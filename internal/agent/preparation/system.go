package preparation

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/steadyfleet/steady/internal/agent/state"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/warning"
	"github.com/steadyfleet/steady/internal/disk"
	"github.com/steadyfleet/steady/internal/system"
)

// errSystem is of a Nix system that this host cannot get.
var errSystem = errors.New("prepare the system")

// bootMargin stays free beside kernels, for entries of the boot loader.
const bootMargin = 1 << 20

// system brings a Nix system into the store before anything is claimed, once what the host may go
// back to is kept there, and asks for the room that it and its boot take.
func (p *Preparer) system(ctx context.Context, bundle digest.Digest, n *fleet.Nix) error {
	r, err := p.System.RoomInStore(ctx, bundle, n)
	if err != nil {
		return fmt.Errorf("%w: %w", errSystem, err)
	}
	if err := enough(r, state.Margin); err != nil {
		return err
	}
	back, err := p.wayBack(ctx)
	if err != nil {
		return err
	}
	if err := p.System.KeepWayBack(ctx, bundle, n, back); err != nil {
		return fmt.Errorf("%w %s: %w", errSystem, n.Name, err)
	}
	if err := p.paths(ctx, bundle, n); err != nil {
		return err
	}
	if err := p.System.PrepareNix(ctx, bundle, n); err != nil {
		return fmt.Errorf("%w %s: %w", errSystem, n.Name, err)
	}
	if r, err = system.RoomToBoot(n); err != nil {
		return fmt.Errorf("%w %s: %w", errSystem, n.Name, err)
	}
	return enough(r, bootMargin)
}

// paths fetches what the host's store lacks of a system, once both disks are known to have the
// room. What a former attempt brought stays.
func (p *Preparer) paths(ctx context.Context, bundle digest.Digest, n *fleet.Nix) error {
	lacks, err := p.System.LacksNix(ctx, bundle, n)
	if err != nil {
		return fmt.Errorf("%w %s: %w", errSystem, n.Name, err)
	}
	if len(lacks) == 0 {
		return nil
	}
	list := fleet.Closure{Paths: lacks}
	nars, unpacked := list.Nars(), int64(0)
	for i := range lacks {
		unpacked += lacks[i].NarSize
	}
	if err := p.roomForPaths(filepath.Dir(n.Path), p.Nars.Lacks(nars), unpacked); err != nil {
		return err
	}
	return p.Nars.Bring(ctx, nars)
}

// roomForPaths checks that the disk of the state folder takes the archives and that of the
// store what is in them, which may be one disk.
func (p *Preparer) roomForPaths(store string, fetch, unpacked int64) error {
	var of, dir unix.Stat_t
	if err := errors.Join(unix.Stat(store, &of), unix.Stat(p.StateDir, &dir)); err != nil {
		return fmt.Errorf("%w: check the free disk space: %w", errSystem, err)
	}
	needs := []struct {
		dir   string
		bytes int64
	}{{p.StateDir, fetch}, {store, unpacked}}
	if of.Dev == dir.Dev {
		needs = needs[1:]
		needs[0].bytes += fetch
	}
	for _, need := range needs {
		space, err := disk.SpaceOf(need.dir)
		if err != nil {
			return fmt.Errorf("%w: %w", errSystem, err)
		}
		if lacks := need.bytes + state.Margin - space.Free; lacks > 0 {
			return fmt.Errorf("%w: store paths need %d bytes on the disk of %s and %d are spared, %d are free: %d are lacking; nothing was fetched", state.ErrNoRoom, need.bytes, need.dir, int64(state.Margin), space.Free, lacks)
		}
	}
	return nil
}

// wayBack is the store path of the system of the bundle that the host would go back to; empty
// where there is none.
func (p *Preparer) wayBack(ctx context.Context) (string, error) {
	d := p.Back()
	if d == "" {
		return "", nil
	}
	b, err := p.Content.Bundle(ctx, d)
	if err != nil || b.Nix == nil {
		return "", err
	}
	return b.Nix.Path, nil
}

// enough says what a file system lacks.
func enough(r *system.Room, margin int64) error {
	if r == nil || r.Lacks(margin) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s lacks %s: %s takes %s, %s stays free beside it, and %s is free there; nothing was changed",
		state.ErrNoRoom, r.Dir, warning.Bytes(r.Lacks(margin)), r.What, warning.Bytes(r.Need), warning.Bytes(margin), warning.Bytes(r.Free))
}
