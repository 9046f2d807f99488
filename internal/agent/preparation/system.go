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
	var st unix.Statfs_t
	dir := filepath.Dir(n.Path)
	if err := unix.Statfs(dir, &st); err != nil {
		return fmt.Errorf("%w: check the free disk space of %s: %w", errSystem, dir, err)
	}
	if free := int64(st.Bavail) * st.Bsize; free < n.Closure.Size+state.Margin {
		return fmt.Errorf("%w: %d bytes are needed in %s, %d are free", state.ErrNoRoom, n.Closure.Size, dir, free)
	}
	return nil
}
