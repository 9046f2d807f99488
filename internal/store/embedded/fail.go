package embedded

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/steadyfleet/steady/internal/disk"
	"github.com/steadyfleet/steady/internal/store"
)

// resultCode returns SQLite's result code without its extension, and with it.
func resultCode(err error) (primary, extended int, ok bool) {
	var e *driver.Error
	if !errors.As(err, &e) {
		return 0, 0, false
	}
	return e.Code() & 0xff, e.Code(), true
}

// fail turns an error of the engine into one of the contract. What may mean
// that the disk did not keep what it was given makes the handle unusable.
func (s *Store) fail(op string, err error) error {
	if err == nil || errors.Is(err, store.ErrBroken) {
		return err
	}
	if errors.Is(err, errStuck) {
		return s.kill(op, err)
	}
	if _, damaged := errors.AsType[*store.ChainError](err); damaged {
		return s.kill(op, fmt.Errorf("%s: %w", s.logFile(), err))
	}
	if disk.Full(err) {
		return fmt.Errorf("%s: %w: %w", op, store.ErrFull, err)
	}
	if disk.Failed(err) {
		return s.kill(op, err)
	}
	primary, extended, ok := resultCode(err)
	if !ok {
		return fmt.Errorf("%s: %w", op, err)
	}
	switch primary {
	case lib.SQLITE_FULL:
		return fmt.Errorf("%s: %w: %w", op, store.ErrFull, err)
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED:
		return fmt.Errorf("%s: %w: %w", op, store.ErrBusy, err)
	case lib.SQLITE_IOERR:
		// SQLite reports a full disk as such, but not where the index of its log finds no
		// room, and an exhausted quota as a failed write. Nothing was synced, and a rollback
		// forgets the frames.
		if extended == lib.SQLITE_IOERR_SHMSIZE {
			return fmt.Errorf("%s: %w: %w", op, store.ErrFull, err)
		}
		if extended == lib.SQLITE_IOERR_WRITE && s.quotaExceeded() {
			return fmt.Errorf("%s: %w: %w: %w", op, store.ErrFull, syscall.EDQUOT, err)
		}
		return s.kill(op, err)
	case lib.SQLITE_CORRUPT, lib.SQLITE_NOTADB:
		return s.kill(op, fmt.Errorf("%s: %w: %w; restore the store from a backup", s.logFile(), store.ErrCorrupt, err))
	case lib.SQLITE_PROTOCOL, lib.SQLITE_INTERNAL, lib.SQLITE_MISUSE, lib.SQLITE_READONLY:
		return s.kill(op, err)
	}
	return fmt.Errorf("%s: %w", op, err)
}

// kill makes every later call fail, and tells whoever waits on Broken. The first
// failure stays the reported one.
func (s *Store) kill(op string, err error) error {
	if s.broken.CompareAndSwap(nil, &store.FatalError{Op: op, Err: err}) {
		close(s.ended)
	}
	return s.broken.Load()
}

// Broken implements store.Store.
func (s *Store) Broken() <-chan struct{} { return s.ended }

// Err implements store.Store.
func (s *Store) Err() error { return s.alive() }

// alive returns why the handle refuses calls, if it does.
func (s *Store) alive() error {
	if f := s.broken.Load(); f != nil {
		return f
	}
	return nil
}

// quotaExceeded asks the file system, because SQLite's driver does not tell the
// error number of a failed write.
func (s *Store) quotaExceeded() bool {
	return disk.Full(disk.Probe(s.tmpDir()))
}

// Writable implements store.Store.
func (s *Store) Writable(ctx context.Context) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.calls.RUnlock()
	return s.fail("write to the store", disk.Probe(s.tmpDir()))
}

// Size implements store.Store.
func (s *Store) Size(ctx context.Context) (store.Size, error) {
	if err := s.enter(ctx); err != nil {
		return store.Size{}, err
	}
	defer s.calls.RUnlock()
	var pages int64
	if err := s.readers.QueryRowContext(ctx, "PRAGMA page_count").Scan(&pages); err != nil {
		return store.Size{}, s.fail("read the size of the log", err)
	}
	return store.Size{Log: pages * pageSize, Limit: s.limit}, nil
}
