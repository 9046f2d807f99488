package storage

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/steadyfleet/steady/internal/core/spec"
)

// MaxEntries bounds the files of one folder.
const MaxEntries = 20_000

// unpack writes the files of a tar into an empty folder and nothing outside it.
func unpack(dir string, from io.Reader, c spec.Content, own bool) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	type folder struct {
		name string
		mode fs.FileMode
	}
	folders := []folder{}
	count := 0
	for r := tar.NewReader(from); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("the folder cannot be unpacked: %w", err)
		}
		if count++; count > MaxEntries {
			return fmt.Errorf("the folder has more than %d files", MaxEntries)
		}
		name, mode := filepath.Clean(h.Name), fs.FileMode(h.Mode)&0o777
		switch h.Typeflag {
		case tar.TypeDir:
			folders = append(folders, folder{name, mode})
			if name != "." {
				err = root.Mkdir(name, 0o700)
			}
		case tar.TypeSymlink:
			err = root.Symlink(h.Linkname, name)
		case tar.TypeReg:
			err = writeFile(root, name, mode, r)
		default:
			err = errors.New("is neither a file, a folder nor a link")
		}
		if err == nil && own {
			err = root.Lchown(name, c.UID, c.GID)
		}
		if err != nil {
			return fmt.Errorf("%q of the folder: %w", name, err)
		}
	}
	slices.Reverse(folders) // what is in a folder is written before the folder may forbid it
	for _, f := range folders {
		if err := root.Chmod(f.name, f.mode); err != nil {
			return err
		}
	}
	return nil
}

func writeFile(root *os.Root, name string, mode fs.FileMode, from io.Reader) error {
	f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// state is what tells that a file was written.
type state struct {
	Size int64  `json:"size"`
	Time int64  `json:"time"` // ns
	Link string `json:"link,omitempty"`
}

// seedOf is where the states of a copy are kept, as it was made.
func seedOf(file string) string {
	return filepath.Join(filepath.Dir(file), ".seed-"+filepath.Base(file))
}

// isCopy reports the name of one that containers may write.
func isCopy(name string) bool { return strings.HasPrefix(name, "copy-") }

// states lists the files and links of a copy, by path.
func states(file string) (map[string]state, error) {
	out := map[string]state{}
	err := filepath.WalkDir(file, func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		s := state{Size: info.Size(), Time: info.ModTime().UnixNano()}
		if e.Type()&fs.ModeSymlink != 0 {
			if s.Link, err = os.Readlink(p); err != nil {
				return err
			}
		}
		rel, err := filepath.Rel(file, p)
		out[rel] = s
		return err
	})
	return out, err
}

// writeSeed keeps how a copy is now.
func writeSeed(file, seed string) error {
	s, err := states(file)
	if err != nil {
		return err
	}
	raw, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return os.WriteFile(seed, raw, 0o600)
}

// changed reports whether a copy is no longer as it was made: one that cannot be
// compared was.
func changed(file string) (bool, error) {
	raw, err := os.ReadFile(seedOf(file))
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return true, err
	}
	var seed map[string]state
	if err := json.Unmarshal(raw, &seed); err != nil {
		return true, nil
	}
	now, err := states(file)
	if err != nil {
		return true, err
	}
	if len(now) != len(seed) {
		return true, nil
	}
	for p, s := range now {
		if seed[p] != s {
			return true, nil
		}
	}
	return false, nil
}
