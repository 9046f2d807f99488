package keyring

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/steadyfleet/steady/internal/disk"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/trust"
)

// PublicFile is the name of the public half of a share of the root role.
const PublicFile = "root.pub"

// Share is a share of the root role that its holder made.
type Share struct {
	Dir    string `json:"dir"`
	Key    string `json:"key"`    // id
	Public string `json:"public"` // file to hand over
}

// MakeShare makes a share of the root role in a folder of its holder's: the private
// key, which stays there, and the file with the public one, for InitShared and
// Rotate. A folder that has a share keeps it and is told its public half again.
func MakeShare(dir string) (Share, error) {
	dir = filepath.Clean(dir)
	path := filepath.Join(dir, KeyFile(trust.RoleRoot))
	if _, err := os.Lstat(path); err != nil {
		if err := unused(dir); err != nil {
			return Share{}, err
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Share{}, err
	}
	if err := keepOut(dir); err != nil {
		return Share{}, err
	}
	key, err := identity.KeyFile(path)
	if err != nil {
		return Share{}, err
	}
	s, err := trust.NewSigner(key)
	if err != nil {
		return Share{}, fmt.Errorf("%s: %w", path, err)
	}
	public, err := identity.EncodePublicKey(s.Public())
	if err != nil {
		return Share{}, err
	}
	made := Share{Dir: dir, Key: s.KeyID(), Public: filepath.Join(dir, PublicFile)}
	return made, disk.Replace(made.Public, public, 0o644)
}

// shareKeys reads the public keys that holders bring, each once.
func shareKeys(files []string) ([]ed25519.PublicKey, error) {
	var keys []ed25519.PublicKey
	for i, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("the public key of a share: %w; its holder makes it with steady keys share", err)
		}
		key, err := identity.ParsePublicKey(raw)
		switch {
		case errors.Is(err, identity.ErrPrivate):
			return nil, fmt.Errorf("%s: %w, which its holder must not hand over: take the %s beside it, and have a new share made (steady keys share) if it left the holder's machine", file, err, PublicFile)
		case err != nil:
			return nil, fmt.Errorf("%s is no public key of a share: %w; its holder makes it with steady keys share", file, err)
		}
		for j, other := range keys {
			if key.Equal(other) {
				return nil, fmt.Errorf("%s and %s are the same key: every holder needs one of their own", files[j], files[i])
			}
		}
		keys = append(keys, key)
	}
	return keys, nil
}
