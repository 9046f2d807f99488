//go:build unix

package sqlite

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"github.com/steadyfleet/steady/reconcile"
)

// lockFile takes the lock on a file, which it makes, and notes the process in it.
func lockFile(path string) (release func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, reconcile.ErrStoreInUse
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	if err := errors.Join(f.Truncate(0), write(f, fmt.Sprintln(os.Getpid()))); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("note the process in %s: %w", path, err)
	}
	return sync.OnceFunc(func() { _ = f.Close() }), nil // which frees the lock
}

func write(f *os.File, text string) error {
	_, err := f.WriteAt([]byte(text), 0)
	return err
}
