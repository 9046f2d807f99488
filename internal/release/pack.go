package release

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Caps bound what Unpack takes.
type Caps struct {
	Files int   // at most
	Bytes int64 // of all files but archives of store paths
	Nars  int64 // bytes of those
}

// DefaultCaps are those of a release folder.
func DefaultCaps() Caps { return Caps{Files: MaxFiles, Bytes: MaxTotal, Nars: MaxNars} }

// Pack streams a release as a plain tar: regular files in order of name, with
// no times, owners or folders. Reading ends with the error that stopped it; the
// caller closes the reader.
func Pack(fsys fs.FS) io.ReadCloser {
	r, w := io.Pipe()
	go func() { w.CloseWithError(pack(fsys, w)) }()
	return r
}

func pack(fsys fs.FS, w io.Writer) error {
	names, err := fileNames(fsys)
	if err != nil {
		return err
	}
	tw := tar.NewWriter(w)
	for _, name := range names {
		if isNar(name) {
			err = packNar(tw, fsys, name)
		} else {
			var raw []byte
			if raw, err = readFile(fsys, name); err == nil {
				err = packFile(tw, name, raw)
			}
		}
		if err != nil {
			return err
		}
	}
	return tw.Close()
}

// PackWithoutNars is Pack without the archives of store paths, which are sent apart.
func PackWithoutNars(fsys fs.FS) io.ReadCloser {
	r, w := io.Pipe()
	go func() {
		names, err := fileNames(fsys)
		if err == nil {
			names = slices.DeleteFunc(names, isNar)
			err = PackFiles(w, names, func(name string) ([]byte, error) { return readFile(fsys, name) })
		}
		w.CloseWithError(err)
	}()
	return r
}

// PackFiles writes a packed release, as Pack does, of files that get gives.
func PackFiles(w io.Writer, names []string, get func(name string) ([]byte, error)) error {
	tw := tar.NewWriter(w)
	for _, name := range names {
		raw, err := get(name)
		if err != nil {
			return err
		}
		if err := packFile(tw, name, raw); err != nil {
			return err
		}
	}
	return tw.Close()
}

func packFile(tw *tar.Writer, name string, raw []byte) error {
	err := tw.WriteHeader(packHeader(name, int64(len(raw))))
	if err == nil {
		_, err = tw.Write(raw)
	}
	if err != nil {
		return fmt.Errorf("pack %s: %w", name, err)
	}
	return nil
}

// packNar streams an archive.
func packNar(tw *tar.Writer, fsys fs.FS, name string) error {
	f, err := fsys.Open(name)
	if err != nil {
		return fmt.Errorf("pack %s: %w", name, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil {
		err = tw.WriteHeader(packHeader(name, info.Size()))
	}
	if err == nil {
		_, err = io.Copy(tw, f)
	}
	if err != nil {
		return fmt.Errorf("pack %s: %w", name, err)
	}
	return nil
}

func packHeader(name string, size int64) *tar.Header {
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644, ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}
	if size >= 8<<30 { // beyond what that format can say
		h.Format = tar.FormatPAX
	}
	return h
}

// ErrPack is in the chain of every error that the sender of a packed release is
// to blame for.
var ErrPack = errors.New("the packed release is refused")

// Unpack writes a packed release into the empty folder dir as it arrives. It
// takes only names that a release has, each once, regular files within their
// own caps, and stops at the first thing that is none of it. What it wrote
// until then stays for the caller to remove. Nothing is synced or verified: a
// crash loses the folder, and the caller stores what it keeps.
func Unpack(r io.Reader, dir string, caps Caps) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	tr := tar.NewReader(r)
	files, total, nars := 0, int64(0), int64(0)
	for {
		h, err := tr.Next()
		switch {
		case errors.Is(err, io.EOF):
			if files == 0 {
				return fmt.Errorf("%w: it contains no file", ErrPack)
			}
			return nil
		case err != nil:
			return fmt.Errorf("%w: %w", ErrPack, err)
		}
		limit, ok := FileCap(h.Name)
		if files++; isNar(h.Name) {
			nars += max(h.Size, 0)
		} else {
			total += h.Size
		}
		switch {
		case !ok || h.Typeflag != tar.TypeReg:
			return fmt.Errorf("%w: %q has no place in a release", ErrPack, h.Name)
		case h.Size < 0 || h.Size > limit:
			return fmt.Errorf("%w: %s has %d bytes, at most %d are allowed", ErrPack, h.Name, h.Size, limit)
		case files > caps.Files:
			return fmt.Errorf("%w: more than %d files", ErrPack, caps.Files)
		case total > caps.Bytes:
			return fmt.Errorf("%w: more than %d bytes", ErrPack, caps.Bytes)
		case nars > caps.Nars:
			return fmt.Errorf("%w: more than %d bytes of store paths", ErrPack, caps.Nars)
		}
		if err := unpackFile(root, h, tr); err != nil {
			return err
		}
	}
}

func unpackFile(root *os.Root, h *tar.Header, r io.Reader) error {
	name := filepath.FromSlash(h.Name)
	if folder := filepath.Dir(name); folder != "." {
		if err := root.Mkdir(folder, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: %s is in it twice", ErrPack, h.Name)
	}
	if err != nil {
		return err
	}
	n, err := io.Copy(f, r)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("unpack %s: %w", h.Name, err)
	}
	if n != h.Size {
		return fmt.Errorf("%w: %s is cut short", ErrPack, h.Name)
	}
	return nil
}
