package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// ReadFile returns the content of a regular file inside the root, of at most limit
// bytes. Nothing else is opened: a pipe would wait for a writer.
func ReadFile(root *os.Root, name string, limit int64) ([]byte, error) {
	info, err := root.Stat(name)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%q cannot be read: %w", name, Cause(err))
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%q is not a regular file", name)
	case info.Size() > limit:
		return nil, fmt.Errorf("%q has %d bytes, at most %d are allowed", name, info.Size(), limit)
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, fmt.Errorf("%q cannot be read: %w", name, Cause(err))
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%q cannot be read: %w", name, Cause(err))
	case int64(len(data)) > limit:
		return nil, fmt.Errorf("%q has more than the %d bytes that are allowed", name, limit)
	}
	return data, nil
}

// Cause drops the operation and path of an error, which the caller's message names itself.
func Cause(err error) error {
	var pe *fs.PathError
	if !errors.As(err, &pe) {
		return err
	}
	if pe.Err.Error() == "path escapes from parent" { // of package os, which exports no value for it
		return errEscapes
	}
	return pe.Err
}

var errEscapes = errors.New("it leads out of the folder")
