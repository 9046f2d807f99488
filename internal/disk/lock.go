package disk

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// ErrLocked means that another process has the lock.
var ErrLocked = errors.New("locked by another process")

// A child that its parent just forked holds the parent's locks until it executes
// its command, so a lock whose holder is gone may be held for a moment more.
const (
	lockTimeout = time.Second
	lockPoll    = 10 * time.Millisecond
)

// Lock is a lock that was taken.
type Lock struct{ f *os.File }

// TryLock locks the file at path, which it makes if need be, or returns ErrLocked.
func TryLock(path string) (*Lock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	return take(f, err)
}

// TryLockFile is TryLock of a file that is there: else fs.ErrNotExist.
func TryLockFile(path string) (*Lock, error) {
	f, err := os.Open(path)
	return take(f, err)
}

// TryLockFolder locks a folder that is there, and leaves no file in it.
func TryLockFolder(path string) (*Lock, error) {
	f, err := os.Open(path)
	return take(f, err)
}

func take(f *os.File, err error) (*Lock, error) {
	if err != nil {
		return nil, fmt.Errorf("open the lock: %w", err)
	}
	if err := lock(f); err != nil {
		if !errors.Is(err, ErrLocked) {
			err = fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		return nil, errors.Join(err, f.Close())
	}
	return &Lock{f}, nil
}

func lock(f *os.File) error {
	for end := time.Now().Add(lockTimeout); ; time.Sleep(lockPoll) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return err
		}
		if time.Now().After(end) {
			return ErrLocked
		}
	}
}

// Release gives the lock back; the file stays.
func (l *Lock) Release() error { return l.f.Close() }
