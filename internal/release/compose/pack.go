package compose

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"time"

	"github.com/steadyfleet/steady/internal/disk"
)

// Bounds of a folder.
const (
	maxPacked      = 64 << 20 // bytes
	maxPackedFiles = 20_000

	maxIgnore = 1 << 20 // bytes of a .dockerignore file
)

// packContext makes a tar of a build context that depends on its files alone: in
// order of name, with no times and no owners. What .dockerignore leaves out is
// left out; the Dockerfile always is in it.
func packContext(root *disk.Folder, folder, dockerfile string) ([]byte, error) {
	sub, err := root.OpenFolder(folder)
	if err != nil {
		return nil, fmt.Errorf("the build context %q cannot be opened: %w", folder, disk.Cause(err))
	}
	defer sub.Close()
	ignore, ignoreFile, err := readIgnore(sub, dockerfile)
	if err != nil {
		return nil, err
	}
	p := packer{root: sub, keep: []string{dockerfile, ignoreFile}, ignore: ignore, tooLarge: errors.New(tooLarge + "; leave out what is not needed in .dockerignore")}
	if err := p.pack(); err != nil {
		return nil, fmt.Errorf("the build context %q: %w", folder, err)
	}
	if dockerfile != "" && !p.found {
		return nil, fmt.Errorf("the build context %q has no %q", folder, dockerfile)
	}
	return p.out.Bytes(), nil
}

// packTree makes such a tar of a whole folder. permissions are those of permissions.
func packTree(root *disk.Folder, folder string) ([]byte, error) {
	sub, err := root.OpenFolder(folder)
	if err != nil {
		return nil, fmt.Errorf("the folder %q cannot be opened: %w", folder, disk.Cause(err))
	}
	defer sub.Close()
	p := packer{root: sub, ignore: &ignoreList{}, mode: permissions, tooLarge: errors.New(tooLarge)}
	if err := p.pack(); err != nil {
		return nil, fmt.Errorf("the folder %q: %w", folder, err)
	}
	return p.out.Bytes(), nil
}

// permissions are those of a file without what the umask of whoever checked it out
// decides: its group may write only where all may.
func permissions(mode fs.FileMode) fs.FileMode {
	if mode&0o002 == 0 {
		mode &^= 0o020
	}
	return mode.Perm()
}

type packer struct {
	root   *disk.Folder
	keep   []string
	ignore *ignoreList
	out    bytes.Buffer
	tar    *tar.Writer
	mode   func(fs.FileMode) fs.FileMode // nil keeps permissions as they are
	files  int
	found  bool

	tooLarge error
}

var tooLarge = fmt.Sprintf("it has more than %d files or %d bytes", maxPackedFiles, maxPacked)

func (p *packer) pack() error {
	p.tar = tar.NewWriter(&p.out)
	if err := p.root.Walk(p.visit); err != nil {
		return err
	}
	return p.tar.Close()
}

func (p *packer) visit(name string, e fs.DirEntry, err error) error {
	switch {
	case err != nil:
		return fmt.Errorf("%q cannot be read: %w", name, disk.Cause(err))
	case name == ".":
		return nil
	}
	kept := slices.Contains(p.keep, name)
	if p.ignore.matches(name) && !kept {
		if e.IsDir() && !p.ignore.exceptions && !p.leadsToKept(name) {
			return fs.SkipDir
		}
		return nil
	}
	if p.files++; p.files > maxPackedFiles {
		return p.tooLarge
	}
	info, err := e.Info()
	if err != nil {
		return fmt.Errorf("%q cannot be read: %w", name, disk.Cause(err))
	}
	mode := info.Mode().Perm()
	if p.mode != nil {
		mode = p.mode(mode)
	}
	h := &tar.Header{Name: name, Mode: int64(mode), ModTime: time.Unix(0, 0), Format: tar.FormatPAX}
	switch {
	case e.IsDir():
		h.Typeflag, h.Name = tar.TypeDir, name+"/"
		return p.tar.WriteHeader(h)
	case e.Type()&fs.ModeSymlink != 0:
		h.Typeflag = tar.TypeSymlink
		h.Mode = 0o777
		if h.Linkname, err = p.root.Readlink(name); err != nil {
			return fmt.Errorf("link %q cannot be read: %w", name, disk.Cause(err))
		}
		return p.tar.WriteHeader(h)
	case e.Type()&fs.ModeSocket != 0:
		return nil // as docker build does: nothing could read it
	case !e.Type().IsRegular():
		return fmt.Errorf("%q is neither a file, a folder nor a link", name)
	}
	p.found = p.found || len(p.keep) > 0 && name == p.keep[0]
	if info.Size() > maxPacked-int64(p.out.Len()) {
		return p.tooLarge
	}
	data, err := p.root.ReadFile(name, maxPacked)
	if err != nil {
		return err
	}
	h.Typeflag, h.Size = tar.TypeReg, int64(len(data))
	if err := p.tar.WriteHeader(h); err != nil {
		return err
	}
	if _, err = p.tar.Write(data); err == nil && p.out.Len() > maxPacked {
		err = p.tooLarge
	}
	return err
}

func (p *packer) leadsToKept(dir string) bool {
	return slices.ContainsFunc(p.keep, func(k string) bool {
		for d := path.Dir(k); d != "." && d != "/"; d = path.Dir(d) {
			if d == dir {
				return true
			}
		}
		return false
	})
}

// readIgnore reads the list next to the Dockerfile, else that of the context.
func readIgnore(root *disk.Folder, dockerfile string) (*ignoreList, string, error) {
	names := []string{".dockerignore"}
	if dockerfile != "" {
		names = []string{dockerfile + ".dockerignore", ".dockerignore"}
	}
	for _, name := range names {
		if _, err := root.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		data, err := root.ReadFile(name, maxIgnore)
		if err != nil {
			return nil, "", err
		}
		list, err := parseIgnore(data)
		if err != nil {
			return nil, "", fmt.Errorf("%s: %w", name, err)
		}
		return list, name, nil
	}
	return &ignoreList{}, "", nil
}
