package disk

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Replace writes a file whole or not at all: content and name are durable when it
// returns, and what was there before stays until then. A process that is killed
// meanwhile leaves a file .new-NAME beside it, which the next Replace of it removes.
func Replace(path string, content []byte, perm fs.FileMode) error {
	return ReplaceWith(path, content, perm, nil)
}

// ReplaceWith is Replace of a file that ready, which may be nil, prepares under the name
// that it is given, before it takes its place.
func ReplaceWith(path string, content []byte, perm fs.FileMode, ready func(name string) error) error {
	return write(path, content, perm, ready, os.Rename)
}

// ErrChanged means that a file is not the one any more that was to be replaced.
var ErrChanged = errors.New("the file changed meanwhile")

// ReplaceOnly is ReplaceWith of a file whose content is was. What somebody else puts in its
// place meanwhile, up to the last moment, stays there, with ErrChanged. Where the file system
// cannot exchange names, the last moment is between a comparison and a rename. Two processes
// may not replace one file so: the second may take what the first exchanged for a leftover. Nor
// is an edit kept that came in that moment if the process is killed before it went back.
func ReplaceOnly(path string, was, content []byte, perm fs.FileMode, ready func(name string) error) error {
	return write(path, content, perm, ready, func(from, to string) error { return exchange(from, to, was, content) })
}

// exchange has a file take the place of another, and undoes that where what came out of the
// place is not what was to be replaced. Of two edits by others within that time the later stays.
func exchange(from, to string, was, content []byte) error {
	if now, err := os.ReadFile(to); err != nil || !bytes.Equal(now, was) {
		return errors.Join(ErrChanged, err)
	}
	exchanged := func() error {
		return unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_EXCHANGE)
	}
	switch err := exchanged(); {
	case errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS):
		return os.Rename(from, to)
	case err != nil:
		return err
	}
	out, err := os.ReadFile(from)
	if err == nil && bytes.Equal(out, was) {
		return os.Remove(from)
	}
	if err = errors.Join(err, exchanged()); err != nil {
		return err
	}
	if out, err = os.ReadFile(from); err != nil || !bytes.Equal(out, content) {
		err = errors.Join(err, exchanged())
	}
	return errors.Join(ErrChanged, err)
}

// Create is Replace of a file that must not be there yet: fs.ErrExist means that it is.
func Create(path string, content []byte, perm fs.FileMode) error {
	// A link, unlike a rename, refuses to replace what is there.
	return write(path, content, perm, nil, func(from, to string) error {
		return errors.Join(os.Link(from, to), os.Remove(from))
	})
}

func write(path string, content []byte, perm fs.FileMode, ready func(string) error, move func(from, to string) error) error {
	f, err := createNew(path)
	if err != nil {
		return err
	}
	defer f.Close() // the lock is held until the name is gone
	_, err = f.Write(content)
	if err = errors.Join(err, f.Chmod(perm), f.Sync()); err == nil && ready != nil {
		err = ready(f.Name())
	}
	if err == nil {
		err = move(f.Name(), path)
	}
	if err != nil {
		if rerr := os.Remove(f.Name()); !errors.Is(rerr, fs.ErrNotExist) {
			err = errors.Join(err, rerr)
		}
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// createNew makes the file beside path that takes its place when it is whole, and locks it
// while this process writes. It is always a new one: where others may write into the
// folder, one that is there may be theirs, or a link.
func createNew(path string) (*os.File, error) {
	name := filepath.Join(filepath.Dir(path), ".new-"+filepath.Base(path))
	for {
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			err = removeStale(name)
			if err == nil {
				continue
			}
		}
		if err != nil {
			return nil, err
		}
		if err := lock(f); err != nil {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", name, err), f.Close())
		}
		if ours, err := isSame(f, name); ours || err != nil {
			return f, err
		}
		_ = f.Close() // another writer took it for a left one before it was locked
	}
}

// removeStale removes a file that a killed writer left; one that is being written it waits for.
func removeStale(name string) error {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // it took its place
	case errors.Is(err, unix.ELOOP):
		return os.Remove(name) // the link, and nothing behind it
	case err != nil:
		return err
	}
	defer f.Close()
	if err := lock(f); err != nil {
		return fmt.Errorf("%s is being written by another process: %w", name, err)
	}
	if left, err := isSame(f, name); !left || err != nil {
		return err
	}
	return os.Remove(name)
}

// isSame reports whether a name is still that of an open file.
func isSame(f *os.File, name string) (bool, error) {
	mine, err := f.Stat()
	if err != nil {
		return false, err
	}
	there, err := os.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(mine, there), err
}

// SyncDir makes the names in a folder durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
