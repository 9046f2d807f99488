package preparation

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/steadyfleet/steady/internal/agent/state"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/disk"
)

// errSystem is of a Nix system that this host cannot get.
var errSystem = errors.New("prepare the system")

// system brings a Nix system into the store before anything is claimed.
func (p *Preparer) system(ctx context.Context, bundle digest.Digest, n *fleet.Nix) error {
	if err := roomInStore(n); err != nil {
		return err
	}
	if err := p.paths(ctx, bundle, n); err != nil {
		return err
	}
	if err := p.System.PrepareNix(ctx, bundle, n); err != nil {
		return fmt.Errorf("%w %s: %w", errSystem, n.Name, err)
	}
	return nil
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

// roomInStore asks for what the closure takes at least: an export holds its paths
// as they are, with little around them.
func roomInStore(n *fleet.Nix) error {
	if _, err := os.Lstat(n.Path); err == nil || n.Closure == nil {
		return nil
	}
	dir := filepath.Dir(n.Path)
	space, err := disk.SpaceOf(dir)
	if err != nil {
		return fmt.Errorf("%w: %w", errSystem, err)
	}
	if space.Free < n.Closure.Size+state.Margin {
		return fmt.Errorf("%w: %d bytes are needed in %s, %d are free", state.ErrNoRoom, n.Closure.Size, dir, space.Free)
	}
	return nil
}
