package disk

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// CheckoutOptions choose what of a checkout is read.
type CheckoutOptions struct {
	// Main is the file that git tracks where it tracks the folder.
	Main string
	// Also are files and folders that are read although git does not track them; "." is all.
	Also []string
}

// Folder is a folder that a release is built from, read so that one commit gives one release,
// whatever else lies in the checkout. Where git tracks the main file of the top folder only
// what git tracks is there, with the permissions that git keeps; elsewhere everything on the
// disk is but folders without a file. Names are relative to it, with slashes.
type Folder struct {
	root *os.Root
	at   string // its own path from the top folder, without links
	dir  string // its own path on the disk
	top  *index
}

// OpenCheckout opens the top folder of a fleet.
func OpenCheckout(dir string, o CheckoutOptions) (*Folder, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	top, err := readIndex(dir, o)
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return &Folder{root: root, dir: dir, top: top}, nil
}

// PlainFolder is a folder that git has no part in. It shares the root.
func PlainFolder(root *os.Root) *Folder { return &Folder{root: root, dir: root.Name(), top: &index{}} }

// Close closes the folder.
func (f *Folder) Close() error { return f.root.Close() }

// OpenFolder opens a folder below.
func (f *Folder) OpenFolder(name string) (*Folder, error) {
	if err := f.has(name); err != nil {
		return nil, err
	}
	root, err := f.root.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	at, err := f.resolve(name)
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return &Folder{root: root, at: at, dir: f.Path(name), top: f.top}, nil
}

// Stat describes what a name leads to.
func (f *Folder) Stat(name string) (fs.FileInfo, error) {
	if err := f.has(name); err != nil {
		return nil, err
	}
	info, err := f.root.Stat(name)
	if err != nil {
		return nil, err
	}
	at, err := f.resolve(name)
	return f.top.info(at, info), err
}

// Lstat describes a name, which may be a link.
func (f *Folder) Lstat(name string) (fs.FileInfo, error) {
	if err := f.has(name); err != nil {
		return nil, err
	}
	info, err := f.root.Lstat(name)
	if err != nil {
		return nil, err
	}
	return f.top.info(path.Join(f.at, name), info), nil
}

// Readlink returns where a link leads.
func (f *Folder) Readlink(name string) (string, error) { return f.root.Readlink(name) }

// ReadFile returns the content of a regular file of at most limit bytes.
func (f *Folder) ReadFile(name string, limit int64) ([]byte, error) {
	if err := f.has(name); err != nil {
		return nil, fmt.Errorf("%q cannot be read: %w", name, Cause(err))
	}
	data, err := ReadFile(f.root, name, limit)
	if err == nil && f.top.tracks() && bytes.HasPrefix(data, []byte(lfsPointer)) {
		return nil, fmt.Errorf("%q is a pointer of Git LFS, and its content is not checked out: git lfs pull", name)
	}
	return data, err
}

// OpenFile opens a regular file, to be read as it comes.
func (f *Folder) OpenFile(name string) (*os.File, error) {
	info, err := f.Stat(name)
	if err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%q is not a regular file", name)
	}
	if err != nil {
		return nil, fmt.Errorf("%q cannot be read: %w", name, Cause(err))
	}
	return f.root.Open(name)
}

// Path is where a file of the folder is on the disk.
func (f *Folder) Path(name string) string { return filepath.Join(f.dir, filepath.FromSlash(name)) }

const lfsPointer = "version https://git-lfs.github.com/spec/"

// Hides reports whether a name is on the disk and not read.
func (f *Folder) Hides(name string) bool {
	_, err := f.root.Lstat(name)
	return err == nil && errors.Is(f.has(name), fs.ErrNotExist)
}

// Untracked lists files of the folder that are left out because they are not in git's index,
// sorted: those that git ignores on purpose are not among them.
func (f *Folder) Untracked() []string { return f.top.below(f.at, f.top.untracked) }

// Tracked reports whether git tracks the folder.
func (f *Folder) Tracked() bool { return f.top.tracks() }

// Commit is the commit of which nothing in these paths differs; empty where something
// does, or git does not track the folder.
func (f *Folder) Commit(paths ...string) string {
	for _, p := range paths {
		if len(f.top.below(path.Join(f.at, p), f.top.changed)) > 0 {
			return ""
		}
	}
	return f.top.commit
}

// Walk is fs.WalkDir over the folder.
func (f *Folder) Walk(visit fs.WalkDirFunc) error {
	for _, s := range []struct {
		set map[string]bool
		err error
	}{{f.top.sparse, errSparse}, {f.top.converted, errConverted}} {
		if found := f.top.below(f.at, s.set); len(found) > 0 {
			return fmt.Errorf("%q: %w", found[0], s.err)
		}
	}
	return fs.WalkDir(walked{f}, ".", visit)
}

var (
	errUntracked = errors.New("git does not track it, so that another checkout of this commit lacks it; git add it, or name it with --untracked")
	errConverted = errors.New("this checkout has it in another form than git keeps it (core.autocrlf, core.eol or core.symlinks), so that another one gives another release; set these to false, lf and true, remove the file and git checkout it")
	errSparse    = errors.New("git keeps it out of this checkout (git sparse-checkout disable brings it)")
)

// missing is an error of a name that is not there, with a reason of its own.
type missing struct{ reason error }

func (m missing) Error() string        { return m.reason.Error() }
func (m missing) Unwrap() error        { return m.reason }
func (m missing) Is(target error) bool { return target == fs.ErrNotExist }

// has returns why a name is not read, or nil. What leads out of the folder is left to the
// root, which refuses it.
func (f *Folder) has(name string) error {
	at, err := f.resolve(name)
	if err != nil || at == "" {
		return nil // the error is reported for the root
	}
	refuse := func(err error) error { return &fs.PathError{Op: "open", Path: name, Err: err} }
	if !f.top.tracks() {
		if info, err := f.root.Stat(name); err == nil && info.IsDir() && path.Clean(name) != "." && !f.filled(name) {
			return refuse(fs.ErrNotExist)
		}
		return nil
	}
	switch {
	case f.top.sparse[at]:
		return refuse(errSparse)
	case f.top.converted[at]:
		return refuse(errConverted)
	case f.top.folders[at]:
		return nil
	}
	if _, is := f.top.files[at]; is {
		return nil
	}
	if _, err := f.root.Lstat(name); err == nil {
		return refuse(missing{errUntracked})
	}
	return nil // nor is it on the disk
}

// filled reports whether a folder has a file at any depth.
func (f *Folder) filled(name string) bool {
	found := errors.New("found")
	return errors.Is(fs.WalkDir(f.root.FS(), path.Clean(name), func(_ string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			return found
		}
		return err
	}), found)
}

// maxLinks bounds the links in one path.
const maxLinks = 40

// resolve returns a path from the top folder without links. It is empty for one that leads
// out of it, and for what is not there the path that it would have.
func (f *Folder) resolve(name string) (string, error) {
	if path.IsAbs(name) {
		return "", nil
	}
	rest := strings.Split(path.Clean(name), "/")
	done, links := "", 0
	for len(rest) > 0 {
		part := rest[0]
		rest = rest[1:]
		switch part {
		case ".":
			continue
		case "..":
			if done == "" {
				return "", nil
			}
			if done = path.Dir(done); done == "." {
				done = ""
			}
			continue
		}
		next := path.Join(done, part)
		to, err := f.root.Readlink(next)
		if err != nil {
			done = next // no link
			continue
		}
		if _, is := f.top.files[path.Join(f.at, next)]; f.top.tracks() && !is {
			return path.Join(f.at, next), nil // a link that git does not track
		}
		if links++; links > maxLinks || path.IsAbs(to) {
			return "", nil
		}
		rest = append(strings.Split(path.Clean(to), "/"), rest...)
	}
	return path.Join(f.at, done), nil
}

// walked is the folder as fs.WalkDir reads it.
type walked struct{ f *Folder }

func (w walked) Open(name string) (fs.File, error)     { return w.f.root.FS().Open(name) }
func (w walked) Stat(name string) (fs.FileInfo, error) { return w.f.root.Stat(name) }
func (w walked) ReadDir(name string) ([]fs.DirEntry, error) {
	all, err := fs.ReadDir(w.f.root.FS(), name)
	all = slices.DeleteFunc(all, func(e fs.DirEntry) bool { return w.f.hasEntry(path.Join(name, e.Name()), e) != nil })
	for i := range all {
		all[i] = folderEntry{all[i], w.f, path.Join(w.f.at, name, all[i].Name())}
	}
	return all, err
}

// hasEntry is has for what a folder lists: a link is one, wherever it leads.
func (f *Folder) hasEntry(name string, e fs.DirEntry) error {
	if e.Type()&fs.ModeSymlink == 0 {
		return f.has(name)
	}
	if _, is := f.top.files[path.Join(f.at, name)]; f.top.tracks() && !is {
		return fs.ErrNotExist
	}
	return nil
}

type folderEntry struct {
	fs.DirEntry
	f  *Folder
	at string
}

func (e folderEntry) Info() (fs.FileInfo, error) {
	info, err := e.DirEntry.Info()
	if err != nil {
		return nil, err
	}
	return e.f.top.info(e.at, info), nil
}
