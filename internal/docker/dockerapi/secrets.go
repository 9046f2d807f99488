package dockerapi

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/steadyfleet/steady/internal/core/fleet"
)

// MaxSecret is the largest secret in bytes.
const MaxSecret = 512 << 10

// Secrets is the host's own store of secrets: a folder with one file for each, which
// only its owner may read. What is in it never leaves the host but into the containers
// that name it.
type Secrets string

// Get reads a secret. The error of one that is not there wraps fs.ErrNotExist and
// reports how to put it there. One that others on the host can read is refused.
func (f Secrets) Get(name string) (value []byte, err error) {
	if err := fleet.CheckName(name); err != nil {
		return nil, fmt.Errorf("a secret's name: %w", err)
	}
	root, err := os.OpenRoot(string(f))
	if err != nil {
		return nil, f.missing(name, err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	file, err := root.Open(name)
	if err != nil {
		return nil, f.missing(name, err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	switch {
	case err != nil:
		return nil, fmt.Errorf("secret %s: %w", name, err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("secret %s is not a file: put its value into %s/%s", name, f, name)
	case info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("secret %s can be read by others: run chmod 600 %s/%s", name, f, name)
	case info.Size() > MaxSecret:
		return nil, fmt.Errorf("secret %s has %d bytes, at most %d are allowed", name, info.Size(), MaxSecret)
	}
	value, err = io.ReadAll(io.LimitReader(file, MaxSecret+1))
	if err == nil && len(value) > MaxSecret {
		err = fmt.Errorf("secret %s has more than %d bytes", name, MaxSecret)
	}
	return value, err
}

func (f Secrets) missing(name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("secret %s is not on this host: put its value into %s/%s, readable by its owner alone: %w", name, f, name, fs.ErrNotExist)
	}
	return fmt.Errorf("secret %s: %w", name, err)
}
