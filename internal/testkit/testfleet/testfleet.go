// Package testfleet is a fleet of signers for tests: the keys of all roles, root
// documents, enrolment tokens, and releases built of a fleet's folder. It is a package
// of its own because tests inside the packages of trust, identity and releases import
// testkit, and it imports these.
package testfleet

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/release"
	"github.com/steadyfleet/steady/internal/release/fleetdir"
	"github.com/steadyfleet/steady/internal/trust"
)

// Name is the fleet's.
const Name = "acme"

// Keys are the signers of the fleet, one per role.
type Keys map[trust.Role]trust.Signer

// NewKeys makes a key for every role. Those of a seed are the same in every run.
func NewKeys(seed string) Keys {
	if seed == "" {
		seed = rand.Text()
	}
	k := Keys{}
	for _, role := range trust.Roles() {
		sum := sha256.Sum256([]byte(seed + string(role)))
		s, err := trust.NewSigner(ed25519.NewKeyFromSeed(sum[:]))
		if err != nil {
			panic(err) // a key of the right size is one
		}
		k[role] = s
	}
	return k
}

// Now is the machine's wall time.
func Now() clock.Instant { return clock.FromTime(time.Now()) }

// Head begins a document of the fleet that is signed now.
func Head(epoch, version uint64) fleet.Document {
	return fleet.Document{Fleet: Name, Epoch: epoch, Version: version, IssuedAt: Now()}
}

// Root signs a root document that names these keys, for a year; more signs it too.
func (k Keys) Root(head fleet.Document, more ...trust.Signer) ([]byte, error) {
	spec := map[trust.Role]trust.RoleSpec{}
	for role, s := range k {
		spec[role] = trust.RoleSpec{Keys: []ed25519.PublicKey{s.Public()}, Threshold: 1}
	}
	r, err := trust.NewRoot(head, head.IssuedAt.Add(365*clock.Day), spec)
	if err != nil {
		return nil, err
	}
	return trust.SignRoot(r, append(more, k[trust.RoleRoot])...)
}

// First is the fleet's first root.
func (k Keys) First() ([]byte, error) { return k.Root(Head(1, 1)) }

// Sign is the envelope of a document by a role's key, with the digest that names it.
func (k Keys) Sign(role trust.Role, docType string, doc any) ([]byte, digest.Digest, error) {
	payload, err := trust.Canonical(doc)
	if err != nil {
		return nil, "", err
	}
	env, err := trust.Sign(docType, payload, k[role])
	return env, digest.Of(payload), err
}

// Token signs an enrolment token for a host.
func (k Keys) Token(host string, root []byte, edit ...func(*identity.Token)) ([]byte, error) {
	env, err := trust.ParseEnvelope(root)
	if err != nil {
		return nil, err
	}
	head := Head(1, 1)
	token := identity.Token{Document: head, ID: tokenID(), Host: host, Expires: head.IssuedAt.Add(identity.TokenLife),
		RootDigest: digest.Of(env.Payload), MinVersions: map[string]uint64{}}
	for _, f := range edit {
		f(&token)
	}
	return identity.SignToken(token, k[trust.RoleEnrol])
}

func tokenID() string {
	id := make([]byte, 16)
	rand.Read(id)
	return hex.EncodeToString(id)
}

// NodeToken signs a token with which a node registers.
func (k Keys) NodeToken(node string, edit ...func(*identity.NodeToken)) ([]byte, error) {
	head := Head(1, 1)
	token := identity.NodeToken{Document: head, ID: tokenID(), Node: node, Expires: head.IssuedAt.Add(identity.TokenLife)}
	for _, f := range edit {
		f(&token)
	}
	return identity.SignNodeToken(token, k[trust.RoleEnrol])
}

// Release builds a release of the fleet's folder src, after the one before it if there
// is one, and writes and signs it in out.
func (k Keys) Release(src, out, ref string, before *release.Verified, roots ...[]byte) (*release.Verified, error) {
	loaded, problems := fleetdir.Load(src)
	if release.Fatal(problems) {
		return nil, fmt.Errorf("load %s: %v", src, problems)
	}
	now := Now()
	built, problems := release.Build(loaded, release.BuildOptions{Ref: ref, Previous: before, Now: now})
	if release.Fatal(problems) {
		return nil, fmt.Errorf("build %s: %v", ref, problems)
	}
	if err := release.Write(out, built.Files, built.NarList()...); err != nil {
		return nil, err
	}
	return release.Sign(out, release.SignOptions{Release: []trust.Signer{k[trust.RoleRelease]},
		Timestamp: []trust.Signer{k[trust.RoleTimestamp]}, Roots: roots, Now: now})
}
