// Package contents keeps, in files of the host, the configs and secrets that
// containers mount.
package contents

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/moby/moby/api/types/container"

	spec "github.com/steadyfleet/steady/internal/core/container"
	"github.com/steadyfleet/steady/internal/core/digest"
)

// Blobs gives blobs by digest; the folder checks the digest.
type Blobs interface {
	Blob(ctx context.Context, d digest.Digest, size int64) (io.ReadCloser, error)
}

// Folder has a folder for each workspace with files. It outlives the agent.
type Folder struct {
	dir    string // empty: there is none
	blobs  Blobs
	secret func(name string) ([]byte, error)
	mu     sync.Mutex
}

// In is the folder at a path, or none if that is empty.
func In(dir string, blobs Blobs, secret func(name string) ([]byte, error)) *Folder {
	return &Folder{dir: dir, blobs: blobs, secret: secret}
}

// Files writes the configs and secrets of a workspace, and gives the file of each
// target; secrets are keyed digests by name. A file that is there is complete: it is
// named by what it is made from and put in place whole.
func (f *Folder) Files(ctx context.Context, name string, list []spec.Content, secrets map[string]string) (map[string]string, error) {
	out := map[string]string{}
	if len(list) == 0 {
		return out, nil
	}
	if f.dir == "" {
		return nil, fmt.Errorf("workspace %s has configs or secrets as files, and the agent has no folder for them", name)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	folder := filepath.Join(f.dir, name)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of configs: %w", err)
	}
	for _, c := range list {
		file := f.Path(name, c, secrets)
		lacks, err := f.Lacks(file)
		if lacks {
			err = f.write(ctx, file, c)
		}
		if err != nil {
			return nil, fmt.Errorf("content of %s: %w", c.Target, err)
		}
		out[c.Target] = file
	}
	return out, nil
}

// Path is the file of one content of a workspace, whether or not it is there.
func (f *Folder) Path(name string, c spec.Content, secrets map[string]string) string {
	return filepath.Join(f.dir, name, nameOf(c, secrets))
}

// Lacks reports that a file is not there.
func (f *Folder) Lacks(file string) (bool, error) {
	_, err := os.Lstat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return false, err
}

// nameOf names a file by what it is made from; a secret by its keyed digest.
func nameOf(c spec.Content, secrets map[string]string) string {
	from := "secret " + c.Secret + " " + secrets[c.Secret]
	if c.Blob != nil {
		from = "blob " + string(c.Blob.Digest)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d:%d %o", from, c.UID, c.GID, modeOf(c)))
	return hex.EncodeToString(sum[:])
}

func modeOf(c spec.Content) fs.FileMode {
	if c.Mode == 0 {
		return 0o444
	}
	return fs.FileMode(c.Mode & 0o777)
}

func (f *Folder) write(ctx context.Context, file string, c spec.Content) (err error) {
	tmp, err := os.CreateTemp(filepath.Dir(file), ".new-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(tmp.Name()))
		}
	}()
	if err = f.fill(ctx, tmp, c); err == nil {
		err = tmp.Chmod(modeOf(c))
	}
	if err == nil && (c.UID != 0 || c.GID != 0 || os.Geteuid() == 0) {
		err = tmp.Chown(c.UID, c.GID)
	}
	if err == nil {
		err = tmp.Sync()
	}
	if err = errors.Join(err, tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), file)
}

func (f *Folder) fill(ctx context.Context, to io.Writer, c spec.Content) error {
	if c.Blob == nil {
		v, err := f.secret(c.Secret)
		if err == nil {
			_, err = to.Write(v)
		}
		return err
	}
	r, err := f.blobs.Blob(ctx, c.Blob.Digest, c.Blob.Size)
	if err != nil {
		return err
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(to, sum), io.LimitReader(r, c.Blob.Size+1))
	if err := errors.Join(err, r.Close()); err != nil {
		return err
	}
	if got := "sha256:" + hex.EncodeToString(sum.Sum(nil)); n != c.Blob.Size || got != string(c.Blob.Digest) {
		return fmt.Errorf("the blob has %d bytes and digest %s, not %d and %s", n, got, c.Blob.Size, c.Blob.Digest)
	}
	return nil
}

// Tidy removes a workspace's files that the container does not mount; all of
// them, and the folder, without one.
func (f *Folder) Tidy(name string, c *container.InspectResponse) error {
	if f.dir == "" {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	folder := filepath.Join(f.dir, name)
	if c == nil {
		return os.RemoveAll(folder)
	}
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	used := map[string]bool{}
	if c.HostConfig != nil {
		for _, x := range c.HostConfig.Mounts {
			if dir, file := filepath.Split(x.Source); strings.TrimSuffix(dir, "/") == folder {
				used[file] = true
			}
		}
	}
	var errs []error
	for _, e := range entries {
		if !used[e.Name()] {
			errs = append(errs, os.Remove(filepath.Join(folder, e.Name())))
		}
	}
	return errors.Join(errs...)
}
