package dockerapi

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/disk"
)

// SessionSecrets is the folder of what sessions give to workspaces of the host, one file for each, named
// by a digest of its reference, which only its owner may read.
type SessionSecrets string

// SecretStores are all secrets that workspaces of a host may name.
type SecretStores struct {
	Host     Secrets
	Sessions SessionSecrets
}

// Get reads a secret of either store. The error of one that is not there wraps fs.ErrNotExist.
func (s SecretStores) Get(name string) ([]byte, error) {
	if _, session := spec.SecretOwner(name); session {
		return s.Sessions.Get(name)
	}
	return s.Host.Get(name)
}

func (f SessionSecrets) file(ref string) string {
	sum := sha256.Sum256([]byte(ref))
	return hex.EncodeToString(sum[:20])
}

// Get reads a secret by its reference.
func (f SessionSecrets) Get(ref string) ([]byte, error) {
	value, err := Secrets(f).Get(f.file(ref))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("secret %s has not come from the server yet: %w", ref, fs.ErrNotExist)
	}
	return value, err
}

// Put keeps a secret.
func (f SessionSecrets) Put(ref, value string) error {
	if value == "" || len(value) > MaxSecret {
		return fmt.Errorf("secret %s has %d bytes: expected 1 to %d", ref, len(value), MaxSecret)
	}
	if err := os.MkdirAll(string(f), 0o700); err != nil {
		return fmt.Errorf("make the folder of sessions' secrets: %w", err)
	}
	if err := disk.Replace(filepath.Join(string(f), f.file(ref)), []byte(value), 0o600); err != nil {
		return fmt.Errorf("keep secret %s: %w", ref, err)
	}
	return nil
}

// Sweep removes all but the secrets of these references.
func (f SessionSecrets) Sweep(keep map[string]bool) error {
	files, err := os.ReadDir(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list sessions' secrets: %w", err)
	}
	kept := make(map[string]bool, len(keep))
	for ref := range keep { // order-free: it fills a map
		kept[f.file(ref)] = true
	}
	var errs []error
	for _, x := range files {
		if !kept[x.Name()] {
			errs = append(errs, os.Remove(filepath.Join(string(f), x.Name())))
		}
	}
	return errors.Join(errs...)
}
