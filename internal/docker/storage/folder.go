package storage

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
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/moby/moby/api/types/container"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/spec"
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

// NewFolder is the folder at a path, or none if that is empty.
func NewFolder(dir string, blobs Blobs, secret func(name string) ([]byte, error)) *Folder {
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
	for _, c := range list {
		file := f.whole(name, c, secrets)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			return nil, fmt.Errorf("make the folder of configs: %w", err)
		}
		lacks, err := f.Missing(file)
		if lacks {
			err = f.write(ctx, file, c)
		}
		if err != nil {
			return nil, fmt.Errorf("content of %s: %w", c.Target, err)
		}
		out[c.Target] = f.Path(name, c, secrets)
	}
	return out, nil
}

// Path is the file of one content of a workspace, whether or not it is there.
func (f *Folder) Path(name string, c spec.Content, secrets map[string]string) string {
	return filepath.Join(f.whole(name, c, secrets), c.Below)
}

// sharedFolder has the copies that several workspaces see; no workspace can have the name.
const sharedFolder = ".shared"

// whole is what is made for a content, of which it mounts a part.
func (f *Folder) whole(name string, c spec.Content, secrets map[string]string) string {
	if c.Shared != "" {
		name = sharedFolder
	}
	return filepath.Join(f.dir, name, nameOf(c, secrets))
}

// Missing reports that a file is not there.
func (f *Folder) Missing(file string) (bool, error) {
	_, err := os.Lstat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return false, err
}

// nameOf names a file or folder by what it is made from; a secret by its keyed
// digest. A copy that the container writes has its target in the name, for people.
func nameOf(c spec.Content, secrets map[string]string) string {
	from := "secret " + c.Secret + " " + secrets[c.Secret]
	if c.Blob != nil {
		from = "blob " + string(c.Blob.Digest)
	}
	if c.Tree {
		from += " tree"
	}
	switch {
	case c.Shared != "":
		from += " copy of " + c.Shared
	case c.Writable:
		from += " copy for " + c.Target
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d:%d %o", from, c.UID, c.GID, modeOf(c)))
	if c.Writable || c.Shared != "" {
		of := c.Target
		if c.Shared != "" {
			of = "/" + c.Shared
		}
		of = strings.ReplaceAll(of, "/", "-")
		return "copy" + of[:min(len(of), 100)] + "-" + hex.EncodeToString(sum[:6])
	}
	return hex.EncodeToString(sum[:])
}

func modeOf(c spec.Content) fs.FileMode {
	if c.Mode == 0 {
		return 0o444
	}
	return fs.FileMode(c.Mode & 0o777)
}

// write makes a file or folder beside its place and puts it there whole.
func (f *Folder) write(ctx context.Context, file string, c spec.Content) (err error) {
	tmp, err := os.MkdirTemp(filepath.Dir(file), ".new-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, removeAll(tmp)) }()
	made := filepath.Join(tmp, "made")
	own := c.UID != 0 || c.GID != 0 || os.Geteuid() == 0
	if c.Tree {
		err = f.tree(ctx, made, c, own)
	} else {
		err = f.file(ctx, made, c, own)
	}
	if err == nil && (c.Writable || c.Shared != "") {
		err = writeSeed(made, seedOf(file))
	}
	if err != nil {
		return err
	}
	return os.Rename(made, file)
}

func (f *Folder) file(ctx context.Context, file string, c spec.Content, own bool) error {
	to, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err = f.fill(ctx, to, c); err == nil {
		err = to.Chmod(modeOf(c))
	}
	if err == nil && own {
		err = to.Chown(c.UID, c.GID)
	}
	if err == nil {
		err = to.Sync()
	}
	return errors.Join(err, to.Close())
}

func (f *Folder) tree(ctx context.Context, dir string, c spec.Content, own bool) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	if own {
		if err := os.Chown(dir, c.UID, c.GID); err != nil {
			return err
		}
	}
	return f.checked(ctx, c.Blob, func(from io.Reader) error { return unpack(dir, from, c, own) })
}

func (f *Folder) fill(ctx context.Context, to io.Writer, c spec.Content) error {
	if c.Blob == nil {
		v, err := f.secret(c.Secret)
		if err == nil {
			_, err = to.Write(v)
		}
		return err
	}
	return f.checked(ctx, c.Blob, func(from io.Reader) error {
		_, err := io.Copy(to, from)
		return err
	})
}

// checked reads a blob to its end and fails if it is not what its digest says.
func (f *Folder) checked(ctx context.Context, b *spec.Blob, read func(io.Reader) error) error {
	r, err := f.blobs.Blob(ctx, b.Digest, b.Size)
	if err != nil {
		return err
	}
	sum := sha256.New()
	counted := &counter{r: io.TeeReader(io.LimitReader(r, b.Size+1), sum)}
	unread := read(counted)
	_, err = io.Copy(io.Discard, counted)
	if err := errors.Join(err, r.Close()); err != nil {
		return err
	}
	if got := "sha256:" + hex.EncodeToString(sum.Sum(nil)); counted.n != b.Size || got != string(b.Digest) {
		return fmt.Errorf("the blob has %d bytes and digest %s, not %d and %s", counted.n, got, b.Size, b.Digest)
	}
	return unread
}

type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// removeAll removes a folder, whatever its files forbid.
func removeAll(dir string) error {
	err := os.RemoveAll(dir)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	_ = filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			err = os.Chmod(p, 0o700)
		}
		return err
	})
	return os.RemoveAll(dir)
}

// Changed lists the targets of copies that are no longer as they were made.
func (f *Folder) Changed(name string, list []spec.Content) ([]string, error) {
	if f.dir == "" {
		return nil, nil
	}
	var out []string
	for _, c := range list {
		if !c.Writable {
			continue
		}
		file := f.whole(name, c, nil)
		if lacks, err := f.Missing(file); lacks || err != nil {
			continue // made with the next container, or told where it is mounted
		}
		w, err := changed(file)
		if err != nil {
			return out, err
		}
		if w {
			out = append(out, c.Target)
		}
	}
	slices.Sort(out)
	return out, nil
}

// PruneShared removes shared copies of before an instant that no container mounts and that are as they were made.
// Mounted are the sources of all mounts on the engine.
func (f *Folder) PruneShared(mounted []string, before time.Time) error {
	if f.dir == "" {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	folder := filepath.Join(f.dir, sharedFolder)
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, e := range entries {
		file := filepath.Join(folder, e.Name())
		if !isCopy(e.Name()) || slices.ContainsFunc(mounted, func(m string) bool { return m == file || strings.HasPrefix(m, file+"/") }) {
			continue
		}
		made, err := os.Stat(seedOf(file))
		if err != nil || made.ModTime().After(before) {
			continue
		}
		if written, err := changed(file); written || err != nil {
			continue // kept, as what containers wrote is
		}
		errs = append(errs, removeAll(file), removeAll(seedOf(file)))
	}
	return errors.Join(errs...)
}

// Prune removes a workspace's files that the container does not mount; all of
// them, and the folder, without one. Copies that a container wrote stay: they are
// listed, and used again by a container that is to have the same.
func (f *Folder) Prune(name string, c *container.InspectResponse) (kept []string, err error) {
	if f.dir == "" {
		return nil, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	folder := filepath.Join(f.dir, name)
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	used := map[string]bool{}
	if c != nil && c.HostConfig != nil {
		for _, x := range c.HostConfig.Mounts {
			if dir, file := filepath.Split(x.Source); strings.TrimSuffix(dir, "/") == folder {
				used[file], used[filepath.Base(seedOf(x.Source))] = true, true
			}
		}
	}
	for _, e := range entries {
		file := filepath.Join(folder, e.Name())
		if used[e.Name()] || !isCopy(e.Name()) {
			continue
		}
		if w, err := changed(file); w || err != nil {
			kept = append(kept, file)
			used[e.Name()], used[filepath.Base(seedOf(file))] = true, true
		}
	}
	var errs []error
	for _, e := range entries {
		if !used[e.Name()] {
			errs = append(errs, removeAll(filepath.Join(folder, e.Name())))
		}
	}
	if c == nil && len(kept) == 0 {
		errs = append(errs, removeAll(folder))
	}
	return kept, errors.Join(errs...)
}
