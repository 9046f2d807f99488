package state

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/disk"
)

// ErrNoBlob says that the content is not here, or was and is damaged.
var ErrNoBlob = errors.New("the content is not on this host")

// ErrOtherContent says that bytes do not have the digest or size they should.
var ErrOtherContent = errors.New("other content than expected")

// ErrNoRoom says that the disk cannot take what is about to be written.
var ErrNoRoom = errors.New("not enough free disk space")

// Margin is what must stay free on the disk of the state folder.
const Margin = 16 << 20

func (s *Store) blobPath(d digest.Digest) string { return filepath.Join(s.dir, "blobs", d.Hex()) }

// HasBlob reports whether content of this name and size is here. A negative
// size is not compared. What is inside is checked when it is read.
func (s *Store) HasBlob(d digest.Digest, size int64) bool {
	info, err := os.Stat(s.blobPath(d))
	return err == nil && info.Mode().IsRegular() && (size < 0 || info.Size() == size)
}

// Blob reads content whole, at most limit bytes, and checks it. Damaged content
// is removed and reported as ErrNoBlob.
func (s *Store) Blob(d digest.Digest, limit int64) ([]byte, error) {
	f, err := s.OpenBlob(d)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err := s.note(errors.Join(err, f.Close())); err != nil {
		return nil, fmt.Errorf("read blob %s: %w", d.Short(), err)
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("blob %s is larger than %d bytes", d.Short(), limit)
	}
	if digest.Of(b) != d {
		return nil, errors.Join(fmt.Errorf("blob %s is damaged: %w", d.Short(), ErrNoBlob), s.RemoveBlob(d))
	}
	return b, nil
}

// OpenBlob opens content without checking it: whoever copies it compares the
// digest of the copy before it is used.
func (s *Store) OpenBlob(d digest.Digest) (*os.File, error) {
	f, err := os.Open(s.blobPath(d))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("blob %s: %w", d.Short(), ErrNoBlob)
	}
	return f, err
}

// RemoveBlob drops content, damaged or no longer needed.
func (s *Store) RemoveBlob(d digest.Digest) error {
	err := os.Remove(s.blobPath(d))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// WriteBlob stores what fill writes, if its digest is d and it has size bytes
// (any number if negative). The name appears only when the content is durable.
func (s *Store) WriteBlob(d digest.Digest, size int64, fill func(io.Writer) error) error {
	return s.writeContent(filepath.Join(s.dir, "blobs"), d, size, fill)
}

// Keep stores a copy of what an operator wrote, below kept, named by content.
// It returns the copy's path. Copies never take the disk's last Margin: what
// somebody writes over and over must not stop the agent.
func (s *Store) Keep(d digest.Digest, content io.Reader) (string, error) {
	dir := filepath.Join(s.dir, "kept")
	path := filepath.Join(dir, d.Hex())
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
		return path, nil
	}
	err := s.writeContent(dir, d, -1, func(w io.Writer) error {
		_, err := io.Copy(w, &sparing{s: s, r: content})
		return err
	})
	return path, err
}

// sparing is a reader that ends with ErrNoRoom when what was read of it has
// used up the disk.
type sparing struct {
	s    *Store
	r    io.Reader
	left int64 // bytes until the next look
}

func (s *sparing) Read(p []byte) (int, error) {
	if s.left <= 0 {
		if err := s.s.Room(0); err != nil {
			return 0, err
		}
		s.left = Margin / 4
	}
	n, err := s.r.Read(p)
	s.left -= int64(n)
	return n, err
}

func (s *Store) writeContent(dir string, d digest.Digest, size int64, fill func(io.Writer) error) (err error) {
	tmp, err := os.CreateTemp(dir, ".new-*")
	if err != nil {
		return s.note(fmt.Errorf("store %s: %w", d.Short(), err))
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(tmp.Name()))
		}
	}()
	h := sha256.New()
	n := &counter{}
	err = fill(io.MultiWriter(&noted{s, tmp}, h, n)) // what fill reads may fail for reasons of its own
	err = errors.Join(err, s.note(errors.Join(tmp.Sync(), tmp.Close())))
	if err != nil {
		return fmt.Errorf("store %s: %w", d.Short(), err)
	}
	if got := digest.Prefix + hex.EncodeToString(h.Sum(nil)); got != string(d) || (size >= 0 && n.n != size) {
		return fmt.Errorf("%w: %d bytes with digest %s instead of %s", ErrOtherContent, n.n, digest.Digest(got).Short(), d.Short())
	}
	if err = os.Rename(tmp.Name(), filepath.Join(dir, d.Hex())); err != nil {
		return s.note(fmt.Errorf("store %s: %w", d.Short(), err))
	}
	return s.note(disk.SyncDir(dir))
}

// noted is a writer whose errors are noted.
type noted struct {
	s *Store
	w io.Writer
}

func (n *noted) Write(p []byte) (int, error) {
	written, err := n.w.Write(p)
	return written, n.s.note(err)
}

type counter struct{ n int64 }

func (c *counter) Write(p []byte) (int, error) { c.n += int64(len(p)); return len(p), nil }

// Room returns ErrNoRoom unless need bytes and the margin are free.
func (s *Store) Room(need int64) error {
	space, err := disk.SpaceOf(s.dir)
	if err != nil {
		return err
	}
	if space.Free < need+s.margin {
		return fmt.Errorf("%w: %d bytes are needed and %d spared, %d are free on the disk of %s", ErrNoRoom, need, s.margin, space.Free, s.dir)
	}
	return nil
}

// Sweep removes every blob that keep does not name, and what a crash left half
// written an hour ago or earlier.
func (s *Store) Sweep(keep map[digest.Digest]bool) error {
	entries, err := os.ReadDir(filepath.Join(s.dir, "blobs"))
	if err != nil {
		return fmt.Errorf("list blobs: %w", err)
	}
	var errs []error
	for _, e := range entries {
		if info, err := e.Info(); strings.HasPrefix(e.Name(), ".new-") && (err != nil || time.Since(info.ModTime()) < time.Hour) {
			continue // may be on its way in
		}
		if !keep[digest.Digest(digest.Prefix+e.Name())] {
			errs = append(errs, os.Remove(filepath.Join(s.dir, "blobs", e.Name())))
		}
	}
	return errors.Join(errs...)
}
