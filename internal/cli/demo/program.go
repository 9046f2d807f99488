package demo

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// copyProgram copies this program into a folder that becomes the root of an image
// made from scratch, with the libraries that it was linked with: nothing has to
// be pulled. It needs Linux.
func copyProgram(root string) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	if err := copyFile(exe, filepath.Join(root, "steady")); err != nil {
		return err
	}
	file, err := elf.Open(exe)
	if err != nil {
		return fmt.Errorf("%s: %w", exe, err)
	}
	defer file.Close()
	loader, err := loaderOf(file)
	if err != nil || loader == "" {
		return err // without a loader it is static
	}
	if err := copyFile(loader, filepath.Join(root, loader)); err != nil {
		return err
	}
	libraries, err := mapped()
	if err != nil {
		return err
	}
	for _, path := range libraries {
		if err := copyFile(path, filepath.Join(root, path)); err != nil {
			return err
		}
	}
	return nil
}

// loaderOf is the path of the dynamic loader that a program asks for.
func loaderOf(file *elf.File) (string, error) {
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP {
			raw, err := io.ReadAll(p.Open())
			return strings.TrimRight(string(raw), "\x00"), err
		}
	}
	return "", nil
}

// mapped lists the libraries of this process.
func mapped() ([]string, error) {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return nil, err
	}
	var out []string
	for line := range strings.Lines(string(maps)) {
		i := strings.IndexByte(line, '/')
		if i < 0 {
			continue
		}
		path := strings.TrimSpace(line[i:])
		if strings.Contains(filepath.Base(path), ".so") && !slices.Contains(out, path) {
			out = append(out, path)
		}
	}
	return out, nil
}

func copyFile(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
