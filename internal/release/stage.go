package release

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/steadyfleet/steady/internal/disk"
	"github.com/steadyfleet/steady/internal/release/fleetdir"
)

// staging is how a release folder gets its next content: whole or not at all.
type staging struct {
	dir string
	// keep is where the folder of before goes; empty removes it.
	keep string
	// fill writes the files into a new sibling of the folder.
	fill func(next string) error
	// change, if set, goes on from there and verifies the result.
	change func(next string) (*Verified, error)
}

// run fills a sibling of the folder, changes it, and puts it into the folder's place.
// When any of it fails the folder is as it was.
func (s staging) run() (v *Verified, err error) {
	dir, mode := filepath.Clean(s.dir), fs.FileMode(0o755)
	if link, err := filepath.EvalSymlinks(dir); err == nil {
		dir = link // what the name leads to is replaced, and not the name
	}
	if info, err := os.Stat(dir); err == nil {
		mode = info.Mode().Perm()
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, err
	}
	next, err := os.MkdirTemp(filepath.Dir(dir), "."+filepath.Base(dir)+".new-")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(next)
		}
	}()
	if err := os.Chmod(next, mode); err != nil {
		return nil, err
	}
	if err := s.fill(next); err != nil {
		return nil, err
	}
	if s.change != nil {
		if v, err = s.change(next); err != nil {
			return nil, err
		}
		v.fsys, v.dir = os.DirFS(dir), dir
	}
	return v, swap(next, dir, s.keep)
}

// swap puts the folder next into the place of dir, in one step where the system can:
// whoever opens the folder finds the one or the other.
func swap(next, dir, keep string) error {
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return os.Rename(next, dir)
	}
	old, err := exchange(next, dir)
	if err != nil {
		return fmt.Errorf("put the release into %s: %w", dir, err)
	}
	if keep == "" {
		return os.RemoveAll(old)
	}
	if err := os.RemoveAll(keep); err != nil {
		return err
	}
	return os.Rename(old, keep)
}

// exchange swaps two folders in one step; old is where the first one is then.
func exchange(next, dir string) (old string, err error) {
	if unix.Renameat2(unix.AT_FDCWD, next, unix.AT_FDCWD, dir, unix.RENAME_EXCHANGE) == nil {
		return next, nil
	}
	return renameOver(next, dir) // a file system that cannot
}

// renameOver exchanges two folders by two renames; old is where the first one is then.
func renameOver(next, dir string) (old string, err error) {
	old = next + ".old"
	if err := os.Rename(dir, old); err != nil {
		return "", err
	}
	if err := os.Rename(next, dir); err != nil {
		return "", errors.Join(err, os.Rename(old, dir))
	}
	return old, nil
}

func writing(files map[string][]byte, nars []fleetdir.Nar) func(next string) error {
	return func(next string) error {
		for i := range nars {
			if err := writeNar(next, &nars[i]); err != nil {
				return err
			}
		}
		for _, name := range slices.Sorted(maps.Keys(files)) {
			if _, ok := FileCap(name); !ok {
				return fmt.Errorf("%q has no place in a release", name)
			}
			at, err := placeOf(next, name)
			if err != nil {
				return err
			}
			if err := os.WriteFile(at, files[name], 0o644); err != nil {
				return err
			}
		}
		return nil
	}
}

// copying fills a folder with the files of another one, by links where that is
// possible: files of a release are replaced and never written to.
func copying(from string) func(next string) error {
	return func(next string) error {
		names, err := namesIn(from)
		if err != nil {
			return err
		}
		for _, name := range names {
			at, err := placeOf(next, name)
			if err != nil {
				return err
			}
			if os.Link(filepath.Join(from, filepath.FromSlash(name)), at) == nil {
				continue
			}
			if isNar(name) {
				if err := disk.CopyFile(at, filepath.Join(from, filepath.FromSlash(name))); err != nil {
					return fmt.Errorf("copy %s: %w", name, err)
				}
				continue
			}
			raw, err := readIn(from, name)
			if err != nil {
				return fmt.Errorf("copy: %w", err)
			}
			if err := os.WriteFile(at, raw, 0o644); err != nil {
				return err
			}
		}
		return nil
	}
}

// placeOf is where a file of a release goes, in a folder that is there.
func placeOf(dir, name string) (string, error) {
	at := filepath.Join(dir, filepath.FromSlash(name))
	return at, os.MkdirAll(filepath.Dir(at), 0o755)
}
