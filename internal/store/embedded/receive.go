package embedded

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/disk"
	"github.com/steadyfleet/steady/internal/store"
)

// arrivedName begins the names of files with the beginning of a blob. It has no dash: what an
// earlier process left may be gone on with.
const arrivedName = "arrived."

func (s *Store) arrivedPath(d digest.Digest) string {
	return filepath.Join(s.tmpDir(), arrivedName+d.Hex())
}

// OpenBlob implements store.Blobs.
func (s *Store) OpenBlob(ctx context.Context, d digest.Digest) (io.ReadSeekCloser, int64, error) {
	const op = "open blob"
	if err := s.enter(ctx); err != nil {
		return nil, 0, err
	}
	defer s.calls.RUnlock()
	path, err := s.blobPath(d)
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", op, err)
	}
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, 0, fmt.Errorf("%s %s: %w", op, d.Short(), store.ErrNotFound)
	}
	if err != nil {
		return nil, 0, s.fail(op, err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(s.fail(op, err), f.Close())
	}
	return f, info.Size(), nil
}

// TouchBlob implements store.Blobs.
func (s *Store) TouchBlob(ctx context.Context, d digest.Digest) (size int64, ok bool, err error) {
	const op = "touch blob"
	if err := s.enter(ctx); err != nil {
		return 0, false, err
	}
	defer s.calls.RUnlock()
	path, err := s.blobPath(d)
	if err != nil {
		return 0, false, err
	}
	s.blobMu.RLock()
	defer s.blobMu.RUnlock()
	now := time.Now()
	err = os.Chtimes(path, now, now)
	if errors.Is(err, os.ErrNotExist) {
		return 0, false, nil
	}
	if err == nil {
		var info os.FileInfo
		if info, err = os.Stat(path); err == nil {
			return info.Size(), true, nil
		}
	}
	return 0, false, s.fail(op, err)
}

// Arrived implements store.Blobs.
func (s *Store) Arrived(ctx context.Context, d digest.Digest) (int64, error) {
	if err := s.enter(ctx); err != nil {
		return 0, err
	}
	defer s.calls.RUnlock()
	if _, err := s.blobPath(d); err != nil {
		return 0, err
	}
	info, err := os.Stat(s.arrivedPath(d))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, s.fail("find what arrived", err)
	}
	return info.Size(), nil
}

// ReceiveBlob implements store.Blobs.
func (s *Store) ReceiveBlob(ctx context.Context, d digest.Digest, size, offset int64, from io.Reader) (err error) {
	const op = "receive blob"
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.calls.RUnlock()
	path, err := s.blobPath(d)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(s.arrivedPath(d), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return s.fail(op, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	at, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return s.fail(op, err)
	}
	if at != offset || offset > size {
		return fmt.Errorf("%s %s: %w: it goes on at %d of %d bytes, and %d arrived", op, d.Short(), store.ErrInvalid, offset, size, at)
	}
	w := &written{f: f}
	n, err := io.Copy(w, io.LimitReader(from, size-offset+1))
	switch {
	case w.err != nil:
		return s.fail(op, w.err)
	case err != nil:
		return fmt.Errorf("%s %s: %d of %d bytes arrived: %w", op, d.Short(), offset+n, size, err)
	case offset+n < size:
		return fmt.Errorf("%s %s: %d of %d bytes arrived: %w", op, d.Short(), offset+n, size, io.ErrUnexpectedEOF)
	}
	got, err := s.sumOf(f)
	if err != nil {
		return s.fail(op, err)
	}
	if got != d || offset+n > size {
		return errors.Join(fmt.Errorf("%s: %w: %d bytes with digest %s came for %s", op, store.ErrInvalid, offset+n, got.Short(), d.Short()), os.Remove(f.Name()))
	}
	if err := f.Sync(); err != nil && !disk.Full(err) {
		return s.kill(op, err)
	} else if err != nil {
		return s.fail(op, err)
	}
	return s.takeArrived(op, f.Name(), path)
}

// takeArrived makes a file that is whole and durable the blob at path.
func (s *Store) takeArrived(op, arrived, path string) error {
	s.blobMu.RLock()
	defer s.blobMu.RUnlock()
	dir := filepath.Dir(path)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return s.fail(op, err)
	}
	if err := s.syncDir(op, s.blobDir()); err != nil {
		return err
	}
	now := time.Now()
	if err := errors.Join(os.Chtimes(arrived, now, now), os.Rename(arrived, path)); err != nil {
		return s.fail(op, err)
	}
	return s.syncDir(op, dir)
}

func (s *Store) sumOf(f *os.File) (digest.Digest, error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	h := sha256.New()
	_, err := io.Copy(h, f)
	return digest.Digest(digest.Prefix + hex.EncodeToString(h.Sum(nil))), err
}

// written keeps the error of a write apart from those of what is read.
type written struct {
	f   *os.File
	err error
}

func (w *written) Write(p []byte) (int, error) {
	n, err := w.f.Write(p)
	w.err = errors.Join(w.err, err)
	return n, err
}

// DropArrived implements store.Blobs.
func (s *Store) DropArrived(ctx context.Context, before clock.Instant) error {
	names, err := s.list(ctx, s.tmpDir())
	if err != nil {
		return err
	}
	for _, name := range names {
		path := filepath.Join(s.tmpDir(), name)
		info, err := os.Stat(path)
		if !strings.HasPrefix(name, arrivedName) || err != nil || clock.FromTime(info.ModTime()) >= before {
			continue
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return s.fail("drop what arrived", err)
		}
	}
	return nil
}
