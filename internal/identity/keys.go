package identity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/steadyfleet/steady/internal/disk"
)

// Keys makes and finds the private keys of authorities.
type Keys interface {
	// File names the file of a purpose's key.
	File(Purpose) string
	// Create makes a key and its file, which must not exist yet (fs.ErrExist).
	Create(path string) (crypto.Signer, error)
	// Load reads a key again.
	Load(path string) (crypto.Signer, error)
}

// FileKeys keeps authority keys in files that their owner alone may read: whoever
// reads one has the key.
type FileKeys struct{}

// File names the file of a purpose's key.
func (FileKeys) File(p Purpose) string { return string(p) + "-ca.key" }

// Create makes an ECDSA P-256 key in a file.
func (FileKeys) Create(path string) (crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	return key, SaveKey(path, key)
}

// Load reads it again.
func (FileKeys) Load(path string) (crypto.Signer, error) { return LoadKey(path) }

// Module makes keys that never leave it, such as a TPM. What it gives to keep is
// of use in the same module only.
type Module interface {
	Make() (key crypto.Signer, file []byte, err error)
	Read(file []byte) (crypto.Signer, error)
}

// ModuleKeys keeps authority keys in a module.
type ModuleKeys struct{ Module Module }

// File names the file by which the module finds the key of a purpose.
func (ModuleKeys) File(p Purpose) string { return string(p) + "-ca.tpm" }

// Create makes a key in the module.
func (k ModuleKeys) Create(path string) (crypto.Signer, error) {
	if _, err := os.Lstat(path); err == nil {
		return nil, &fs.PathError{Op: "create", Path: path, Err: fs.ErrExist}
	}
	key, file, err := k.Module.Make()
	if err != nil {
		return nil, err
	}
	return key, disk.Create(path, file, 0o600)
}

// Load finds a key in the module again.
func (k ModuleKeys) Load(path string) (crypto.Signer, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	key, err := k.Module.Read(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return key, nil
}

// elsewhere says what to do when the key of an authority is kept by other means
// than those that were asked for; nil when it is not.
func elsewhere(keys Keys, dir string, p Purpose) error {
	for _, other := range []Keys{FileKeys{}, ModuleKeys{}} {
		path := filepath.Join(dir, other.File(p))
		if other.File(p) == keys.File(p) {
			continue
		}
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if _, isFile := other.(FileKeys); isFile {
			return fmt.Errorf("the key of the %s authority is a file, %s, and cannot be moved into a TPM: steady server init-ca --replace makes new authorities, and every host enrols again", p, path)
		}
		return fmt.Errorf("the key of the %s authority is in a TPM (%s): start the server with --ca-key tpm:/dev/tpmrm0, or whichever TPM made it", p, path)
	}
	return nil
}
