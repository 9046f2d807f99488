package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/steadyfleet/steady/internal/disk"
)

// lockData takes a server's data folder for this process, and makes the folder
// if need be. A second server on one folder would take the log over and leave the
// first one's agents with a server that decides nothing. The lock ends with the
// process, however that ends.
func lockData(dir string) (release func() error, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	lock, err := disk.TryLock(filepath.Join(dir, "server.lock"))
	if errors.Is(err, disk.ErrLocked) {
		return nil, fmt.Errorf("another server runs on the data folder %s; stop it first: %w", dir, err)
	}
	if err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	return lock.Release, nil
}
