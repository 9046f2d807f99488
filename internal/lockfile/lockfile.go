// Package lockfile gives a folder to one process at a time. The lock ends with
// the process, however that ends.
package lockfile

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// ErrHeld says that another process has the lock.
var ErrHeld = errors.New("locked by another process")

// A child that its parent just forked holds the parent's locks until it executes
// its command, so a lock whose holder is gone may be held for a moment more.
const (
	patience = time.Second
	pause    = 10 * time.Millisecond
)

// Lock is a lock that was taken.
type Lock struct{ f *os.File }

// Take locks the file at path, which it makes if need be, or returns ErrHeld.
func Take(path string) (*Lock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock: %w", err)
	}
	for end := time.Now().Add(patience); ; time.Sleep(pause) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return &Lock{f}, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
		}
		if time.Now().After(end) {
			return nil, errors.Join(ErrHeld, f.Close())
		}
	}
}

// Release gives the lock back; the file stays.
func (l *Lock) Release() error { return l.f.Close() }
