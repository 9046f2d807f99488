package embedded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/steadyfleet/steady/internal/disk"
	"github.com/steadyfleet/steady/internal/store"
)

// Backup writes the store as it is at one moment into dir, which must not be there yet, while
// others go on with it: the log first, then the blobs, of which all that this log names are
// there. Its anchor is that of before, so that the copy lacks nothing that was acknowledged
// then. All of it is durable when it returns the head of the copy.
func (s *Store) Backup(ctx context.Context, dir string) (head store.Head, err error) {
	const op = "back up"
	if err := s.enter(ctx); err != nil {
		return head, err
	}
	defer s.calls.RUnlock()
	if b := s.SetBack(); b != nil {
		return head, fmt.Errorf("%s: the log lacks what was acknowledged: %s", op, b.Reason)
	}
	to := newStore(dir, Options{})
	for _, d := range []string{dir, to.blobDir(), to.snapshotDir(), to.tmpDir()} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return head, fmt.Errorf("%s: %w", op, err)
		}
	}
	if err := s.backUpLog(to); err != nil {
		return head, fmt.Errorf("%s: %w", op, err)
	}
	if err := s.backUpBlobs(ctx, to); err != nil {
		return head, fmt.Errorf("%s: %w", op, err)
	}
	made, err := Open(ctx, dir, Options{})
	if err != nil {
		return head, fmt.Errorf("%s: the copy: %w", op, err)
	}
	head, err = made.Head(ctx)
	if err == nil {
		err = s.backUpSnapshots(to, head.Seq)
	}
	err = errors.Join(err, made.Close())
	for _, d := range []string{to.blobDir(), to.snapshotDir(), dir, filepath.Dir(dir)} {
		err = errors.Join(err, disk.SyncDir(d))
	}
	return head, err
}

// backUpLog copies the log in one read, which keeps no writer waiting.
func (s *Store) backUpLog(to *Store) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	path := filepath.Join(to.dir, dbFile)
	if _, err := s.w.exec(`VACUUM INTO ?`, path); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Chmod(0o600), f.Sync(), f.Close()); err != nil || s.anchor.last.Seq == 0 {
		return err
	}
	anchor, err := disk.OpenAnchor(to.anchorFile())
	if err != nil {
		return err
	}
	return errors.Join(anchor.Write(encodeHead(s.anchor.last)), anchor.Close())
}

func (s *Store) backUpBlobs(ctx context.Context, to *Store) error {
	last := ""
	for d, err := range s.Blobs(ctx) {
		if err != nil {
			return err
		}
		from, err := s.blobPath(d)
		if err != nil {
			return err
		}
		path, err := to.blobPath(d)
		if err != nil {
			return err
		}
		folder := filepath.Dir(path)
		if folder != last {
			if err := os.Mkdir(folder, 0o700); err != nil {
				return err
			}
			if last != "" {
				err = disk.SyncDir(last)
			}
			last = folder
		}
		if err == nil {
			err = disk.CopyFile(path, from)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // what was collected meanwhile is named by nothing
			return err
		}
	}
	if last == "" {
		return nil
	}
	return disk.SyncDir(last)
}

// backUpSnapshots copies those of records that the copy has.
func (s *Store) backUpSnapshots(to *Store, head uint64) error {
	bodies, err := s.bodies()
	if err != nil {
		return err
	}
	for _, b := range bodies {
		if b.seq > head {
			continue
		}
		if err := disk.CopyFile(filepath.Join(to.snapshotDir(), filepath.Base(b.path)), b.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
