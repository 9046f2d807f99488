package router

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
)

// Addresses returns where the requests for key go now; none unless it is Ready.
// It is what the exports of a table take.
func (r *Router) Addresses(key string) []netip.AddrPort {
	r.mu.Lock()
	u := r.upstreams[key]
	r.mu.Unlock()
	if u == nil {
		return nil
	}
	return u.current().Addrs
}

// WriteExport puts data in the file at once: a reader sees the old or the new
// text. It reports whether the text changed; the same text is not written, so
// that a proxy which watches the file does not load it again.
func WriteExport(path string, data []byte) (changed bool, err error) {
	old, err := os.ReadFile(path)
	if err == nil && bytes.Equal(old, data) {
		return false, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("read the exported routes: %w", err)
	}
	if err = replaceFile(path, data); err == nil {
		err = syncFolder(filepath.Dir(path))
	}
	if err != nil {
		return false, fmt.Errorf("write the exported routes to %s: %w", path, err)
	}
	return true, nil
}

func replaceFile(path string, data []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	// Headers of a route may be secret: the file is for its owner and group.
	if err == nil {
		err = f.Chmod(0o640)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

func syncFolder(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
