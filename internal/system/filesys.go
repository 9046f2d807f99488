package system

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path"
	"strconv"
	"strings"
	"syscall"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/reconcile"
)

// write replaces whatever is at the path by a finished file, in one rename.
func (m *files) write(ctx context.Context, d FileDesired) error {
	f := d.File
	uid, gid, err := lookupOwner(f.Owner)
	if err != nil {
		return fmt.Errorf("%s: %w", CodeUnknownOwner, err)
	}
	if err := m.makeFolders(ctx, path.Dir(f.Path)); err != nil {
		return err
	}
	if err := m.clearWay(ctx, f); err != nil {
		return err
	}
	tmp := path.Join(path.Dir(f.Path), tempName(f.Path))
	if err := removed(m.root.Remove(tmp)); err != nil {
		return outside(err)
	}
	if err := m.fill(ctx, tmp, f, uid, gid); err != nil {
		return errors.Join(err, removed(m.root.Remove(tmp)))
	}
	if err := m.host.Ledger.WillWrite(context.WithoutCancel(ctx), f.Path, f.Blob); err != nil {
		return errors.Join(err, removed(m.root.Remove(tmp)))
	}
	if err := m.root.Rename(tmp, f.Path); err != nil {
		return errors.Join(outside(err), removed(m.root.Remove(tmp)))
	}
	return m.syncFolder(path.Dir(f.Path))
}

// tempName is the same for every try, so that a crash leaves at most one.
func tempName(p string) string {
	return ".steady-" + digest.Of([]byte(p)).Short() + ".tmp"
}

// removed is no error of what is gone already.
func removed(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// fill makes the finished file under another name.
func (m *files) fill(ctx context.Context, tmp string, f fleet.File, uid, gid int) (err error) {
	src, err := m.host.Content.Blob(ctx, f.Blob, f.Size)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	out, err := m.root.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return outside(err)
	}
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(out, h), contextReader{ctx, src})
	if err == nil {
		if got := digest.Digest(digest.Prefix + hex.EncodeToString(h.Sum(nil))); got != f.Blob || n != f.Size {
			err = errors.Join(fmt.Errorf("the stored content of %s is damaged; it is fetched again", f.Path), m.host.Content.Damaged(f.Blob))
		}
	}
	if err == nil && (uid >= 0 || gid >= 0) {
		err = out.Chown(uid, gid)
	}
	if err == nil {
		err = out.Chmod(fs.FileMode(f.Mode)) // after Chown, which clears bits
	}
	return errors.Join(err, out.Sync(), out.Close())
}

// clearWay keeps what somebody else wrote in the file's place, and removes an
// empty folder. A folder with something in it is not the agent's to remove.
func (m *files) clearWay(ctx context.Context, f fleet.File) error {
	info, err := m.root.Lstat(f.Path)
	switch {
	case absent(err):
		return nil
	case err != nil:
		return outside(err)
	case info.IsDir():
		if err := m.root.Remove(f.Path); err != nil {
			return reconcile.Terminal(CodeFolderInWay, fmt.Errorf("%s is a folder that is not empty; move it away: %w", f.Path, err))
		}
		return nil
	}
	return m.backup(ctx, f.Path, info, f.Blob)
}

// backup copies what is at the path unless it is the agent's own or next.
func (m *files) backup(ctx context.Context, p string, info fs.FileInfo, next digest.Digest) error {
	if info.Mode()&fs.ModeSymlink != 0 {
		target, err := m.root.Readlink(p)
		if err != nil {
			return outside(err)
		}
		text := "symlink to " + target + "\n"
		return m.host.Keeper.Keep(ctx, p, digest.Of([]byte(text)), strings.NewReader(text))
	}
	if !info.Mode().IsRegular() {
		return nil // a pipe, socket or device holds nothing to keep
	}
	src, err := m.openRegular(p)
	if err != nil {
		return err
	}
	d, err := hashFile(ctx, src)
	own := d == next
	if err == nil && !own {
		own, err = m.host.Ledger.Wrote(ctx, p, d)
	}
	if err == nil && !own {
		if _, err = src.Seek(0, io.SeekStart); err == nil {
			err = m.host.Keeper.Keep(ctx, p, d, contextReader{ctx, src})
		}
	}
	if err := errors.Join(err, src.Close()); err != nil {
		return fmt.Errorf("keep what is at %s: %w", p, err)
	}
	return nil
}

// openRegular opens a regular file for reading. What was one when it was looked
// at may be a pipe by now: opening or reading that must not wait for a writer.
func (m *files) openRegular(p string) (*os.File, error) {
	f, err := m.root.OpenFile(p, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, outside(err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s was replaced by something that is no file while it was read", p)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (m *files) adjust(d FileDesired) error {
	f := d.File
	uid, gid, err := lookupOwner(f.Owner)
	if err != nil {
		return fmt.Errorf("%s: %w", CodeUnknownOwner, err)
	}
	file, err := m.openRegular(f.Path)
	if errors.Is(err, fs.ErrPermission) { // a mode that keeps even us out
		if err := m.root.Chmod(f.Path, fs.FileMode(f.Mode)); err != nil {
			return outside(err)
		}
		file, err = m.openRegular(f.Path)
	}
	if err != nil {
		return err
	}
	if uid >= 0 || gid >= 0 {
		err = file.Chown(uid, gid)
	}
	if err == nil {
		err = file.Chmod(fs.FileMode(f.Mode))
	}
	return errors.Join(err, file.Close())
}

// remove takes the file away, and the folders that were made for it once they
// are empty.
func (m *files) remove(ctx context.Context, p string) error {
	info, err := m.root.Lstat(p)
	switch {
	case absent(err):
		return nil
	case err != nil:
		return outside(err)
	case !info.Mode().IsRegular():
		return nil
	}
	if err := m.backup(ctx, p, info, ""); err != nil {
		return err
	}
	if err := m.root.Remove(p); err != nil && !absent(err) {
		return outside(err)
	}
	record := context.WithoutCancel(ctx)
	if err := errors.Join(m.syncFolder(path.Dir(p)), m.host.Ledger.Forget(record, p)); err != nil {
		return err
	}
	m.mu.Lock()
	delete(m.sums, p)
	m.mu.Unlock()
	return m.removeFolders(record, path.Dir(p))
}

// makeFolders makes what is missing of a folder's path, mode 0755.
func (m *files) makeFolders(ctx context.Context, dir string) error {
	if dir == "." {
		return nil
	}
	info, err := m.root.Stat(dir)
	switch {
	case err == nil && info.IsDir():
		return nil
	case err == nil:
		return fmt.Errorf("%s is in the way of a folder of this name", dir)
	case !absent(err):
		return outside(err)
	}
	if err := m.makeFolders(ctx, path.Dir(dir)); err != nil {
		return err
	}
	if err := m.host.Ledger.WillMake(context.WithoutCancel(ctx), dir); err != nil {
		return err
	}
	if err := m.root.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return outside(err)
	}
	if err := m.root.Chmod(dir, 0o755); err != nil { // whatever the umask
		return outside(err)
	}
	return m.syncFolder(path.Dir(dir))
}

func (m *files) removeFolders(ctx context.Context, dir string) error {
	for ; dir != "."; dir = path.Dir(dir) {
		made, err := m.host.Ledger.Made(ctx, dir)
		if err != nil || !made {
			return err
		}
		err = m.root.Remove(dir)
		if err != nil && !absent(err) {
			return nil // something is in it
		}
		if err := m.host.Ledger.Unmake(ctx, dir); err != nil {
			return err
		}
	}
	return nil
}

func (m *files) syncFolder(dir string) error {
	d, err := m.root.Open(dir)
	if err != nil {
		return outside(err)
	}
	return errors.Join(d.Sync(), d.Close())
}

// lookupOwner turns "user", "user:group" or numbers into numbers; -1 leaves what
// is. A user without a group takes the user's own.
func lookupOwner(owner string) (uid, gid int, err error) {
	if owner == "" {
		return -1, -1, nil
	}
	if uid, gid, err = numbersOf(owner); err != nil {
		return -1, -1, fmt.Errorf("owner %q: %w", owner, err)
	}
	return uid, gid, nil
}

func numbersOf(owner string) (uid, gid int, err error) {
	gid = -1
	name, group, hasGroup := strings.Cut(owner, ":")
	if uid, err = strconv.Atoi(name); err != nil {
		u, err := user.Lookup(name)
		if err != nil {
			return -1, -1, err
		}
		if uid, err = strconv.Atoi(u.Uid); err != nil {
			return -1, -1, err
		}
		if gid, err = strconv.Atoi(u.Gid); err != nil {
			return -1, -1, err
		}
	}
	if !hasGroup {
		return uid, gid, nil
	}
	if gid, err = strconv.Atoi(group); err == nil {
		return uid, gid, nil
	}
	g, err := user.LookupGroup(group)
	if err != nil {
		return -1, -1, err
	}
	gid, err = strconv.Atoi(g.Gid)
	return uid, gid, err
}

// hashFile reads a file to its end.
func hashFile(ctx context.Context, f io.Reader) (digest.Digest, error) {
	h := sha256.New()
	if _, err := io.Copy(h, contextReader{ctx, f}); err != nil {
		return "", err
	}
	return digest.Digest(digest.Prefix + hex.EncodeToString(h.Sum(nil))), nil
}

// contextReader ends a long copy when the act is called off.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.r.Read(p)
}
