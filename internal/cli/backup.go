package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/steadyfleet/steady/internal/cli/command"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/control"
	"github.com/steadyfleet/steady/internal/disk"
)

type backedUp struct {
	Dir  string `json:"dir"`
	Head uint64 `json:"head"` // the last record
	Term uint64 `json:"term"`
}

func (a *app) backupCmd() *cobra.Command {
	var data string
	cmd := &cobra.Command{
		Use: "backup DIR", Short: "Copy a server's data folder, beside the server that runs on it",
		Long: `Writes a copy of a server's data folder to DIR, which must not be there yet: the log as
it is at one moment, the documents that it names, the authorities of pki/ and the
tokens of the owner. The server goes on meanwhile. The copy is opened and checked, and
the time of the backup is marked in the data folder.

Keep it as secret as the folder itself. To restore, stop the server and put the copy
in the place of its data folder.`,
		Example: "  steady server backup --data /var/lib/steady /backup/steady-2031-05-01\n  steady server backup --data data copy -o json",
	}
	cmd.Flags().StringVar(&data, "data", "", "data folder of the server (required)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		b, err := copyData(cmd.Context(), data, args[0])
		if err != nil {
			return err
		}
		return a.Print(b, func() error {
			a.Printf("Backed up %d records, term %d, to %s\nNext: bring it to another machine\n", b.Head, b.Term, b.Dir)
			return nil
		})
	}
	return a.PrintsData(cmd)
}

// copyData makes a copy that is whole, or none.
func copyData(ctx context.Context, data, out string) (b backedUp, err error) {
	dir, err := command.StoreFolder(data)
	if err != nil {
		return b, err
	}
	partial := strings.TrimSuffix(out, "/") + ".partial"
	if err := placeOfBackup(data, out, partial); err != nil {
		return b, err
	}
	s, err := openToRead(ctx, data, dir)
	if err != nil {
		return b, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := os.Mkdir(partial, 0o700); err != nil {
		return b, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(partial))
		}
	}()
	head, err := s.Backup(ctx, filepath.Join(partial, filepath.Base(dir)))
	if err != nil {
		return b, err
	}
	skip := []string{filepath.Base(dir), lockFile, control.BackupMark}
	if err := copyFolder(partial, data, skip...); err != nil {
		return b, err
	}
	if err := disk.Unversioned(partial, "*"); err != nil {
		return b, err
	}
	if err := giveToOwnerOf(data, partial); err != nil {
		return b, err
	}
	if err := os.Rename(partial, out); err != nil {
		return b, err
	}
	if err := disk.SyncDir(filepath.Dir(out)); err != nil {
		return b, err
	}
	return backedUp{out, head.Seq, head.Term}, disk.ReplaceWith(filepath.Join(data, control.BackupMark), nil, 0o600, control.GiveToOwner)
}

// placeOfBackup refuses a place that no copy of data fits in.
func placeOfBackup(data, out, partial string) error {
	if _, err := os.Lstat(out); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(err, fmt.Errorf("%s is there already; give the name of a new folder", out))
	}
	if _, err := os.Lstat(partial); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(err, fmt.Errorf("%s is there: a backup is on its way, or was cut off; then remove it", partial))
	}
	original, err := filepath.EvalSymlinks(data)
	if err != nil {
		return err
	}
	parent, err := filepath.EvalSymlinks(filepath.Dir(partial))
	if err != nil {
		return fmt.Errorf("%w; make the folder that the backup goes into", err)
	}
	original, parent = absolute(original), absolute(parent)
	if inside, err := filepath.Rel(original, parent); err == nil && filepath.IsLocal(inside) {
		return exit.Badf("%s is in the data folder, and would be copied into itself; name a place outside of it, best on another disk", out)
	}
	room, err := disk.SpaceOf(parent)
	if err != nil {
		return err
	}
	if size, err := sizeOf(original); err != nil || size > room.Free {
		return errors.Join(err, fmt.Errorf("the data folder has %d MiB, and the disk of %s room for %d MiB; name a place with more", size>>20, parent, room.Free>>20))
	}
	return nil
}

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// sizeOf adds up the files of a folder.
func sizeOf(dir string) (size int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		var info fs.FileInfo
		if err == nil {
			info, err = d.Info()
		}
		if errors.Is(err, fs.ErrNotExist) { // it went away, as files of a running server do
			return nil
		}
		if err == nil && info.Mode().IsRegular() {
			size += info.Size()
		}
		return err
	})
	return size, err
}

// giveToOwnerOf gives a copy that root made to whom the original belongs: a server that starts
// from it runs as that user.
func giveToOwnerOf(original, dir string) error {
	info, err := os.Stat(original)
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || os.Geteuid() != 0 {
		return nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	var names []string
	err = fs.WalkDir(root.FS(), ".", func(name string, _ fs.DirEntry, err error) error {
		names = append(names, name)
		return err
	})
	// The folder itself comes last: until then that user cannot put anything in the way of root.
	for _, name := range slices.Backward(names) {
		err = errors.Join(err, root.Lchown(name, int(owner.Uid), int(owner.Gid)))
	}
	return errors.Join(err, root.Close())
}

// copyFolder copies what is in a folder with its modes, without links and what is on its way.
func copyFolder(to, from string, skip ...string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		info, err := e.Info()
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return err
		case slices.Contains(skip, name) || strings.HasPrefix(name, ".new-") || strings.HasPrefix(name, control.PushPrefix):
			continue
		case e.IsDir():
			err = os.Mkdir(filepath.Join(to, name), info.Mode().Perm())
			if err == nil {
				err = copyFolder(filepath.Join(to, name), filepath.Join(from, name))
			}
		case info.Mode().IsRegular():
			if err = disk.CopyFile(filepath.Join(to, name), filepath.Join(from, name)); errors.Is(err, fs.ErrNotExist) {
				continue
			}
		}
		if err != nil {
			return err
		}
	}
	return disk.SyncDir(to)
}
