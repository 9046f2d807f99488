package state

import (
	"errors"
	"fmt"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/steadyfleet/steady/internal/disk"
)

// ErrBroken says that the disk below the state folder failed: nobody knows what of
// the last writes is on it, and only a new process may go on.
var ErrBroken = errors.New("the disk of the state folder failed")

// Full reports whether an error says that the disk is full. Nothing of what
// failed was kept, and the folder can be opened again once there is room.
func Full(err error) bool {
	return disk.Full(err) || resultCode(err) == lib.SQLITE_FULL || noIndex(err) || errors.Is(err, ErrNoRoom)
}

// noIndex reports whether SQLite found no room for the index of its log, which it says as a fault of the disk.
func noIndex(err error) bool {
	db, ok := errors.AsType[*sqlite.Error](err)
	return ok && db.Code() == lib.SQLITE_IOERR_SHMSIZE
}

// resultCode is SQLite's result code without its extension; 0 when err is none.
func resultCode(err error) int {
	if db, ok := errors.AsType[*sqlite.Error](err); ok {
		return db.Code() & 0xff
	}
	return 0
}

// Broken is closed when the disk failed, whichever call saw it and whatever it
// wrote; Err says why from then on.
func (s *Store) Broken() <-chan struct{} { return s.ended }

// Err is why the folder is of no use to this process any more, or nil.
func (s *Store) Err() error {
	if f := s.broken.Load(); f != nil {
		return *f
	}
	return nil
}

// note passes an error on, and marks the store as broken if it says so.
func (s *Store) note(err error) error {
	if noIndex(err) {
		return err
	}
	switch resultCode(err) {
	case lib.SQLITE_IOERR, lib.SQLITE_CORRUPT, lib.SQLITE_NOTADB, lib.SQLITE_READONLY:
	default:
		if !disk.Failed(err) {
			return err
		}
	}
	why := fmt.Errorf("%w: %w; check the disk of %s (the kernel's log says what failed), then start the agent again", ErrBroken, err, s.dir)
	if s.broken.CompareAndSwap(nil, &why) {
		close(s.ended)
	}
	return err
}
