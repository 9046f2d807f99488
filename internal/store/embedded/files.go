package embedded

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/disk"
	"github.com/steadyfleet/steady/internal/store"
)

// writeFile puts body at path, whole and durable, or not at all. A failed sync
// ends the handle.
func (s *Store) writeFile(op, path string, body []byte) error {
	f, err := os.CreateTemp(s.tmpDir(), "put-*")
	if err != nil {
		return s.fail(op, err)
	}
	_, err = f.Write(body)
	if err == nil {
		if err = f.Sync(); err != nil && !disk.Full(err) {
			err = s.kill(op, err)
		}
	}
	err = errors.Join(err, f.Close())
	if now := time.Now(); err == nil { // the clock of a test is not that of the machine
		err = os.Chtimes(f.Name(), now, now)
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		if rerr := os.Remove(f.Name()); rerr != nil && !errors.Is(rerr, os.ErrNotExist) {
			err = errors.Join(err, rerr)
		}
		return s.fail(op, err)
	}
	return s.syncDir(op, filepath.Dir(path))
}

func (s *Store) syncDir(op, dir string) error {
	if err := disk.SyncDir(dir); err != nil {
		return s.kill(op, err)
	}
	return nil
}

func (s *Store) blobPath(d digest.Digest) (string, error) {
	if _, err := digest.Parse(string(d)); err != nil {
		return "", fmt.Errorf("%w: %w", store.ErrInvalid, err)
	}
	h := d.Hex()
	return filepath.Join(s.blobDir(), h[:2], h), nil
}

// PutBlob implements store.Blobs.
func (s *Store) PutBlob(ctx context.Context, b []byte) (digest.Digest, error) {
	const op = "put blob"
	if err := s.enter(ctx); err != nil {
		return "", err
	}
	defer s.calls.RUnlock()
	d := digest.Of(b)
	path, err := s.blobPath(d)
	if err != nil {
		return "", err
	}
	dir := filepath.Dir(path)
	s.blobMu.RLock()
	defer s.blobMu.RUnlock()
	if got, err := os.ReadFile(path); err == nil && digest.Of(got) == d {
		now := time.Now()
		if err := os.Chtimes(path, now, now); err != nil {
			return "", s.fail(op, err)
		}
		return d, s.syncDir(op, dir) // whoever renamed it may not have synced yet
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return "", s.fail(op, err)
	}
	if err := s.syncDir(op, s.blobDir()); err != nil {
		return "", err
	}
	if err := s.writeFile(op, path, b); err != nil {
		return "", err
	}
	return d, nil
}

// Blob implements store.Blobs.
func (s *Store) Blob(ctx context.Context, d digest.Digest) ([]byte, error) {
	const op = "read blob"
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.calls.RUnlock()
	path, err := s.blobPath(d)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s %s: %w", op, d.Short(), store.ErrNotFound)
	}
	if err != nil {
		return nil, s.fail(op, err)
	}
	if got := digest.Of(b); got != d {
		return nil, fmt.Errorf("%s %s: %w: its bytes have digest %s; put it again", op, d.Short(), store.ErrCorrupt, got.Short())
	}
	return b, nil
}

// HasBlob implements store.Blobs.
func (s *Store) HasBlob(ctx context.Context, d digest.Digest) (bool, error) {
	if err := s.enter(ctx); err != nil {
		return false, err
	}
	defer s.calls.RUnlock()
	path, err := s.blobPath(d)
	if err != nil {
		return false, err
	}
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, s.fail("find blob", err)
	}
	return true, nil
}

// RemoveBlob implements store.Blobs. Nothing is synced: a file that comes back after a
// crash is removed again.
func (s *Store) RemoveBlob(ctx context.Context, d digest.Digest, before clock.Instant) (size int64, ok bool, err error) {
	const op = "remove blob"
	if err := s.enter(ctx); err != nil {
		return 0, false, err
	}
	defer s.calls.RUnlock()
	path, err := s.blobPath(d)
	if err != nil {
		return 0, false, err
	}
	s.blobMu.Lock()
	defer s.blobMu.Unlock()
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, false, nil
	}
	if err == nil {
		if clock.FromTime(info.ModTime()) >= before {
			return 0, false, nil
		}
		err = os.Remove(path)
	}
	if err != nil {
		return 0, false, s.fail(op, err)
	}
	return info.Size(), true, nil
}

// Blobs implements store.Blobs. No lock is held while the caller works.
func (s *Store) Blobs(ctx context.Context) iter.Seq2[digest.Digest, error] {
	return func(yield func(digest.Digest, error) bool) {
		dirs, err := s.list(ctx, s.blobDir())
		if err != nil {
			yield("", err)
			return
		}
		for _, dir := range dirs {
			files, err := s.list(ctx, filepath.Join(s.blobDir(), dir))
			if err != nil {
				yield("", err)
				return
			}
			for _, name := range files {
				d, err := digest.Parse(digest.Prefix + name)
				if err != nil {
					err = fmt.Errorf("list blobs: %w: a foreign file blobs/%s/%s; remove it", store.ErrCorrupt, dir, name)
				}
				if !yield(d, err) || err != nil {
					return
				}
			}
		}
	}
}

// list returns the names in a directory, in order.
func (s *Store) list(ctx context.Context, dir string) ([]string, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.calls.RUnlock()
	entries, err := os.ReadDir(dir) // sorted
	if err != nil {
		return nil, s.fail("list blobs", err)
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}
