package system

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// Codes of files.
const (
	CodeMissing      engine.Code = "file-missing"
	CodeContent      engine.Code = "content-differs"
	CodeMode         engine.Code = "mode-differs"
	CodeOwner        engine.Code = "owner-differs"
	CodeNotRegular   engine.Code = "not-a-regular-file"
	CodeUndeclared   engine.Code = "not-declared"
	CodeFolderInWay  engine.Code = "folder-in-the-way"
	CodeUnknownOwner engine.Code = "unknown-owner"
	CodeOutside      engine.Code = "outside-the-root"
)

// Write puts the declared content in place; Adjust sets mode and owner; Remove
// takes the file away.
type (
	Write  struct{ Blob digest.Digest }
	Adjust struct {
		Mode  uint32
		Owner string
	}
	Remove struct{}
)

// ActionName names the actions.
func (Write) ActionName() string  { return "write" }
func (Adjust) ActionName() string { return "adjust" }
func (Remove) ActionName() string { return "remove" }

// FileObserved is what is at a file's path. Symlinks in the last place are not
// followed.
type FileObserved struct {
	Exists  bool
	Regular bool
	What    string // folder, symlink or other, when not regular
	Digest  digest.Digest
	Size    int64
	Mode    uint32
	UID     int
	GID     int
	// WantUID and WantGID are the declared owner's numbers, -1 for any;
	// OwnerError reports why there are none.
	WantUID    int
	WantGID    int
	OwnerError string
}

type files struct {
	host Host
	root *os.Root
	// acting serializes changes, so that making and removing folders do not race.
	acting sync.Mutex

	mu   sync.Mutex
	sums map[string]sum
}

// sum remembers the digest of a file that has not changed since.
type sum struct {
	ino   uint64
	size  int64
	ctime syscall.Timespec
	d     digest.Digest
}

func newFiles(h Host) (*files, error) {
	root, err := os.OpenRoot(h.Root)
	if err != nil {
		return nil, fmt.Errorf("open the root folder: %w", err)
	}
	return &files{host: h, root: root, sums: map[string]sum{}}, nil
}

// Observe reads type, content, mode and owner without following a symlink out
// of the root folder.
func (m *files) Observe(ctx context.Context, r engine.Resource[FileDesired]) (FileObserved, error) {
	o := FileObserved{WantUID: -1, WantGID: -1}
	path := r.Ref.ID
	info, err := m.root.Lstat(path)
	switch {
	case absent(err):
		return o, m.wantOwner(r, &o)
	case err != nil:
		return o, outside(err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return o, fmt.Errorf("%s: this system has no file owners", path)
	}
	o.Exists, o.Regular = true, info.Mode().IsRegular()
	o.Mode, o.UID, o.GID, o.Size = modeBits(info), int(st.Uid), int(st.Gid), info.Size()
	switch {
	case info.IsDir():
		o.What = "folder"
	case info.Mode()&fs.ModeSymlink != 0:
		o.What = "symlink"
	case !o.Regular:
		o.What = "other"
	}
	// A file of another size differs whatever is in it, and is hashed only
	// before it is replaced.
	if o.Regular && !r.Delete && o.Size == r.Desired.File.Size {
		if o.Digest, err = m.digestOf(ctx, path, st); err != nil {
			return o, err
		}
	}
	return o, m.wantOwner(r, &o)
}

func (m *files) wantOwner(r engine.Resource[FileDesired], o *FileObserved) error {
	if r.Delete {
		return nil
	}
	uid, gid, err := lookupOwner(r.Desired.File.Owner)
	if err != nil {
		o.OwnerError = err.Error()
		return nil
	}
	o.WantUID, o.WantGID = uid, gid
	return nil
}

// racyWindow is how old a change must be before "same inode, size and change time"
// means "same content": a write within one tick of the clock may not show.
const racyWindow = 2 * time.Second

func (m *files) digestOf(ctx context.Context, path string, st *syscall.Stat_t) (digest.Digest, error) {
	key := sum{ino: st.Ino, size: st.Size, ctime: st.Ctim}
	m.mu.Lock()
	have, ok := m.sums[path]
	m.mu.Unlock()
	if d := have.d; ok && d != "" {
		have.d = ""
		if have == key {
			return d, nil
		}
	}
	f, err := m.openRegular(path)
	if err != nil {
		return "", err
	}
	d, err := hashFile(ctx, io.LimitReader(f, st.Size+1)) // one that grows meanwhile differs already
	if err := errors.Join(err, f.Close()); err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.sums, path)
	if time.Since(time.Unix(st.Ctim.Unix())) > racyWindow {
		key.d = d
		m.sums[path] = key
	}
	return d, nil
}

// Decide compares every declared field.
func (m *files) Decide(v engine.View[FileDesired, FileObserved]) engine.Decision {
	o, f := v.Observed, v.Resource.Desired.File
	converged := engine.IsConverged(engine.Reason{})
	write := func(code engine.Code, message string) engine.Decision {
		return engine.Do(Write{Blob: f.Blob}, engine.NewReason(code, message))
	}
	if v.Resource.Delete {
		if !o.Exists || !o.Regular {
			return converged // what is there is not what the agent wrote
		}
		return engine.Do(Remove{}, engine.NewReason(CodeUndeclared, ""))
	}
	switch {
	case o.OwnerError != "":
		return write(CodeUnknownOwner, o.OwnerError)
	case !o.Exists:
		return write(CodeMissing, "")
	case !o.Regular:
		return write(CodeNotRegular, o.What)
	case o.Size != f.Size || o.Digest != f.Blob:
		return write(CodeContent, "")
	case o.Mode != f.Mode:
		return engine.Do(Adjust{f.Mode, f.Owner}, engine.NewReason(CodeMode, fmt.Sprintf("%04o instead of %04o", o.Mode, f.Mode)))
	case o.WantUID >= 0 && o.UID != o.WantUID || o.WantGID >= 0 && o.GID != o.WantGID:
		return engine.Do(Adjust{f.Mode, f.Owner}, engine.NewReason(CodeOwner, fmt.Sprintf("%d:%d instead of %s", o.UID, o.GID, f.Owner)))
	}
	return converged
}

// Act changes the file system. Content that the agent did not write is kept
// first.
func (m *files) Act(ctx context.Context, r engine.Resource[FileDesired], a engine.Action) error {
	m.acting.Lock()
	defer m.acting.Unlock()
	switch a.(type) {
	case Write:
		return m.write(ctx, r.Desired)
	case Adjust:
		return m.adjust(r.Desired)
	case Remove:
		return m.remove(ctx, r.Ref.ID)
	}
	return reconcile.Terminal(engine.CodeBadIntent, fmt.Errorf("a file has no action %s", a.ActionName()))
}

func modeBits(info fs.FileInfo) uint32 {
	mode := uint32(info.Mode().Perm())
	// Bits that no declaration can ask for must show as a difference.
	for _, b := range []struct {
		is  fs.FileMode
		bit uint32
	}{{fs.ModeSetuid, 0o4000}, {fs.ModeSetgid, 0o2000}, {fs.ModeSticky, 0o1000}} {
		if info.Mode()&b.is != 0 {
			mode |= b.bit
		}
	}
	return mode
}

// absent reports that nothing is at a path, also because a part of it is a file.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// outside makes the refusal of os.Root final: no retry brings a path back in.
func outside(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) && pe.Err != nil && pe.Err.Error() == "path escapes from parent" {
		return reconcile.Terminal(CodeOutside, fmt.Errorf("%s leads out of the root folder through a symlink; remove the link: %w", pe.Path, err))
	}
	return err
}
