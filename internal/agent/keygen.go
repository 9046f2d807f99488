package agent

import (
	"context"
	"errors"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/identity"
)

// MakeEventKey makes the key that signs a host's events before the host enrols,
// or finds the one that was made, and returns its identity.PublicDigest. A token
// that names the digest enrols no other key. A folder that is enrolled is refused
// with ErrEnrolled.
func MakeEventKey(ctx context.Context, dir string) (d digest.Digest, err error) {
	store, _, err := openStore(ctx, dir, false)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	var id identityDoc
	if ok, err := store.Get(ctx, keyIdentity, &id); err != nil {
		return "", err
	} else if ok {
		return "", ErrEnrolled
	}
	key, err := identity.KeyFile(store.KeyPath(eventKeyFile))
	if err != nil {
		return "", err
	}
	return identity.PublicDigest(key.Public())
}
