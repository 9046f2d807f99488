package workspace

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

	"github.com/moby/moby/api/types/container"

	spec "github.com/steadyfleet/steady/internal/core/container"
)

// contents writes configs and secrets to files of the host, and gives the file
// of each target. A file that is there is complete: it is named by what it is
// made from and put in place whole.
func (m *Manager) contents(ctx context.Context, name string, list []spec.Content, secrets map[string]string) (map[string]string, error) {
	out := map[string]string{}
	if len(list) == 0 {
		return out, nil
	}
	if m.o.Dir == "" {
		return nil, fmt.Errorf("workspace %s has configs or secrets as files, and the agent has no folder for them", name)
	}
	m.folders.Lock()
	defer m.folders.Unlock()
	folder := filepath.Join(m.o.Dir, name)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of configs: %w", err)
	}
	for _, c := range list {
		file := filepath.Join(folder, contentKey(c, secrets))
		if _, err := os.Lstat(file); errors.Is(err, fs.ErrNotExist) {
			if err := m.write(ctx, file, c); err != nil {
				return nil, fmt.Errorf("content of %s: %w", c.Target, err)
			}
		} else if err != nil {
			return nil, err
		}
		out[c.Target] = file
	}
	return out, nil
}

// contentKey names a file by what it is made from; a secret by its keyed digest.
func contentKey(c spec.Content, secrets map[string]string) string {
	from := "secret " + c.Secret + " " + secrets[c.Secret]
	if c.Blob != nil {
		from = "blob " + string(c.Blob.Digest)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d:%d %o", from, c.UID, c.GID, contentMode(c)))
	return hex.EncodeToString(sum[:])
}

func contentMode(c spec.Content) fs.FileMode {
	if c.Mode == 0 {
		return 0o444
	}
	return fs.FileMode(c.Mode & 0o777)
}

func (m *Manager) write(ctx context.Context, file string, c spec.Content) (err error) {
	tmp, err := os.CreateTemp(filepath.Dir(file), ".new-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(tmp.Name()))
		}
	}()
	if err = m.fill(ctx, tmp, c); err == nil {
		err = tmp.Chmod(contentMode(c))
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

func (m *Manager) fill(ctx context.Context, to io.Writer, c spec.Content) error {
	if c.Blob == nil {
		v, err := m.secret(c.Secret)
		if err == nil {
			_, err = to.Write(v)
		}
		return err
	}
	r, err := m.o.Content.Blob(ctx, c.Blob.Digest, c.Blob.Size)
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

// tidy removes a workspace's files that the container does not mount; all of
// them, and the folder, without one.
func (m *Manager) tidy(name string, c *container.InspectResponse) error {
	if m.o.Dir == "" {
		return nil
	}
	m.folders.Lock()
	defer m.folders.Unlock()
	folder := filepath.Join(m.o.Dir, name)
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
