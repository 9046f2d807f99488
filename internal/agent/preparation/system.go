package preparation

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

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
	if err := p.System.PrepareNix(ctx, bundle, n); err != nil {
		return fmt.Errorf("%w %s: %w", errSystem, n.Name, err)
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
