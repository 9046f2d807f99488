package embedded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/steadyfleet/steady/internal/disk"
)

// OpenCopy opens the store in dir, which no process may have open for writing, to read it: with a copy
// of log.db and its WAL in a folder of its own below os.TempDir, since SQLite recovers a WAL by
// writing, and with the anchor, blobs and snapshots as they are. Nothing in dir changes. Close removes the copy.
func OpenCopy(ctx context.Context, dir string, o Options) (_ *Store, err error) {
	s := newStore(dir, o)
	if s.dbDir, err = os.MkdirTemp("", "steady-log-*"); err != nil {
		return nil, fmt.Errorf("copy the log to read it: %w", err)
	}
	for _, name := range []string{dbFile, dbFile + "-wal"} {
		if err := disk.CopyFile(filepath.Join(s.dbDir, name), filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, errors.Join(fmt.Errorf("copy the log to read it (TMPDIR names another folder for it): %w", err), s.removeCopy())
		}
	}
	opened, err := s.open(ctx, o)
	if err != nil {
		return nil, errors.Join(err, s.removeCopy())
	}
	return opened, nil
}

func (s *Store) removeCopy() error {
	if s.dbDir == s.dir {
		return nil
	}
	return os.RemoveAll(s.dbDir)
}
