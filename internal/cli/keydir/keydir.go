// Package keydir keeps a fleet's signing keys in a folder: one private key per
// role, readable by its owner alone, and the chain of root documents. For a
// small fleet the folder holds all roles; each can be moved elsewhere later.
package keydir

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/trust"
)

// RootLife is how long a root document is good by default.
const RootLife = 365 * clock.Day

// RootFile is the name of a root document by its version, from 1.
func RootFile(version int) string { return fmt.Sprintf("%d.root.json", version) }

// KeyFile is the name of a role's private key.
func KeyFile(role trust.Role) string { return string(role) + ".key" }

// Made is what Init made.
type Made struct {
	Fleet   string                `json:"fleet"`
	Dir     string                `json:"dir"`
	Root    string                `json:"root"`
	Expires clock.Instant         `json:"expires"`
	Keys    map[trust.Role]string `json:"keys"` // key ids
}

// Init makes a key for every role and the first root document of a fleet, whole
// or not at all. dir must be new or empty. now is wall time.
func Init(dir, fleetName string, life clock.Duration, now clock.Instant) (Made, error) {
	dir = filepath.Clean(dir)
	if err := fleet.CheckName(fleetName); err != nil {
		return Made{}, fmt.Errorf("fleet: %w", err)
	}
	if err := unused(dir); err != nil {
		return Made{}, err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return Made{}, err
	}
	next, err := os.MkdirTemp(filepath.Dir(dir), "."+filepath.Base(dir)+".new-")
	if err != nil {
		return Made{}, err
	}
	defer os.RemoveAll(next)
	made := Made{Fleet: fleetName, Dir: dir, Root: filepath.Join(dir, RootFile(1)), Expires: now.Add(life), Keys: map[trust.Role]string{}}
	roles := map[trust.Role]trust.RoleSpec{}
	var rootSigner trust.Signer
	for _, role := range trust.Roles() {
		signer, err := newKey(filepath.Join(next, KeyFile(role)))
		if err != nil {
			return Made{}, fmt.Errorf("%s key: %w", role, err)
		}
		if role == trust.RoleRoot {
			rootSigner = signer
		}
		made.Keys[role] = signer.KeyID()
		roles[role] = trust.RoleSpec{Keys: []ed25519.PublicKey{signer.Public()}, Threshold: 1}
	}
	head := fleet.Document{Fleet: fleetName, Epoch: 1, Version: 1, IssuedAt: now}
	root, err := trust.NewRoot(head, made.Expires, roles)
	if err != nil {
		return Made{}, err
	}
	env, err := trust.SignRoot(root, rootSigner)
	if err != nil {
		return Made{}, err
	}
	if err := os.WriteFile(filepath.Join(next, RootFile(1)), env, 0o644); err != nil {
		return Made{}, err
	}
	return made, os.Rename(next, dir)
}

func newKey(path string) (trust.Signer, error) {
	key, err := identity.NewKey()
	if err != nil {
		return trust.Signer{}, err
	}
	if err := identity.SaveKey(path, key); err != nil {
		return trust.Signer{}, err
	}
	return trust.NewSigner(key)
}

func unused(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case len(entries) > 0:
		return fmt.Errorf("%s already holds %s: keys are never overwritten; give a new folder with --dir", dir, entries[0].Name())
	}
	return nil
}

// Signer loads the key of a role.
func Signer(dir string, role trust.Role) (trust.Signer, error) {
	path := filepath.Join(dir, KeyFile(role))
	key, err := identity.LoadKey(path)
	if errors.Is(err, fs.ErrNotExist) {
		return trust.Signer{}, fmt.Errorf("the %s key %s does not exist; steady keys init makes the keys, --keys names their folder", role, path)
	}
	if err != nil {
		return trust.Signer{}, err
	}
	return trust.NewSigner(key)
}

// Roots reads the chain of root documents from version 1 on.
func Roots(dir string) ([][]byte, error) {
	var chain [][]byte
	for {
		env, err := os.ReadFile(filepath.Join(dir, RootFile(len(chain)+1)))
		switch {
		case err == nil:
			chain = append(chain, env)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		case len(chain) == 0:
			return nil, fmt.Errorf("%s does not exist; steady keys init makes it, --keys names its folder", filepath.Join(dir, RootFile(1)))
		default:
			return chain, nil
		}
	}
}
