package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// lockData takes a server's data folder for this process, and makes the folder
// if need be. A second server on one folder would take the log over and leave the
// first one's agents with a server that decides nothing. The lock ends with the
// process, however that ends.
func lockData(dir string) (release func() error, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "server.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = fmt.Errorf("another server runs on the data folder %s; stop it first", dir)
		}
		return nil, errors.Join(err, f.Close())
	}
	return f.Close, nil
}
