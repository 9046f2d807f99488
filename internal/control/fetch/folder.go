package fetch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/steadyfleet/steady/internal/release"
)

// folder is a release folder on this machine, which others may write at any time.
type folder struct {
	dir  string
	o    Options
	seen string // when it was looked at last
}

// How a folder that changed is awaited: it must look the same twice, a settling
// apart.
const (
	settling  = 500 * time.Millisecond
	mostLooks = 20
)

func (f *folder) Name() string { return "dir:" + f.dir }

// Fetch copies the folder once it has stopped changing. The validator is a digest
// over names, sizes, times and the two documents that all others hang on.
func (f *folder) Fetch(ctx context.Context, into, last string) (string, bool, error) {
	now, err := f.settled(ctx)
	if err != nil || now == last {
		return now, false, err
	}
	root, fsys, err := release.Open(f.dir)
	if err != nil {
		return "", false, failf(Unreachable, "%w", err)
	}
	defer root.Close()
	packed := release.Pack(fsys)
	defer packed.Close()
	err = release.Unpack(packed, into, f.o.Caps)
	after, looked := f.look()
	switch {
	case looked == nil && after != now:
		f.seen = after
		return "", false, failf(Unsettled, "the folder changed while it was copied")
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return "", false, failf(Unreachable, "%w", err)
	}
	return now, err == nil, unpacked(err)
}

func (f *folder) settled(ctx context.Context) (string, error) {
	for range mostLooks {
		now, err := f.look()
		if err != nil || now == f.seen {
			return now, err
		}
		f.seen = now
		wait := time.NewTimer(settling)
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
		}
		if err := ended(ctx, ctx.Err()); err != nil { // also when both came
			return "", err
		}
	}
	return "", failf(Unsettled, "the folder does not stop changing")
}

// look returns a digest of how the folder looks now.
func (f *folder) look() (string, error) {
	root, fsys, err := release.Open(f.dir)
	if err != nil {
		return "", failf(Unreachable, "%w", err)
	}
	defer root.Close()
	h, n := sha256.New(), 0
	err = fs.WalkDir(fsys, ".", func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if n++; n > f.o.Caps.Files+16 {
			return &Error{Content, fmt.Errorf("more than %d files", f.o.Caps.Files)}
		}
		if e.IsDir() {
			if p != "." && !release.IsFolder(p) {
				return &Error{Content, fmt.Errorf("folder %q has no place in a release", p)}
			}
			return nil
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(h, "%q %d %d %s\n", p, info.Size(), info.ModTime().UnixNano(), info.Mode())
		return nil
	})
	for _, name := range []string{release.TimestampPath, release.ResolvedPath} {
		if err == nil {
			err = into(h, fsys, name)
		}
	}
	switch {
	case errors.As(err, new(*Error)):
		return "", err
	case errors.Is(err, fs.ErrNotExist):
		// Somebody removes files while we look.
		return "", failf(Unsettled, "%w", err)
	case err != nil:
		return "", failf(Unreachable, "%w", err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// into adds a file to a digest if it is there and regular.
func into(w io.Writer, fsys fs.FS, name string) error {
	info, err := fs.Lstat(fsys, name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
		return nil
	}
	if err != nil {
		return err
	}
	f, err := fsys.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	limit, _ := release.FileCap(name)
	_, err = io.Copy(w, io.LimitReader(f, limit+1))
	return err
}
