package trust

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"
)

// TypeRoot is the type of a root document, N.root.json.
const TypeRoot = "steady/root/v1"

// Role is what a key may sign.
type Role string

// The roles of a root document. Release signs snapshots and manifests.
const (
	RoleRoot      Role = "root"
	RoleRelease   Role = "release"
	RoleTimestamp Role = "timestamp"
	RoleEnrol     Role = "enrol"
	RoleOverride  Role = "override"
)

// Roles lists every role that a root must define.
func Roles() []Role {
	return []Role{RoleRoot, RoleRelease, RoleTimestamp, RoleEnrol, RoleOverride}
}

// RootKey is a public key. Its algorithm is a property of the key and never of
// a message; Ed25519 is the only one.
type RootKey struct {
	Alg    string `json:"alg"`
	Public string `json:"public"` // SPKI DER in standard base64
}

// RoleKeys names the keys of a role and how many different ones must sign.
type RoleKeys struct {
	KeyIDs    []string `json:"keyids"`
	Threshold int      `json:"threshold"`
}

// Root is the document that everything else is checked against. Version N+1 is
// signed by the root roles of N and of N+1. Its Epoch may rise, which ends
// every document of the epochs before, and never falls.
type Root struct {
	fleet.Document
	Expires clock.Instant      `json:"expires"` // wall time
	Keys    map[string]RootKey `json:"keys"`
	Roles   map[Role]RoleKeys  `json:"roles"`
	// Reason says to people why this root was made; at most MaxReason bytes.
	Reason string `json:"reason,omitempty"`
}

// MaxReason bounds a root's reason.
const MaxReason = 1000

const algEd25519 = "ed25519"

// RoleSpec is one role for NewRoot.
type RoleSpec struct {
	Keys      []ed25519.PublicKey
	Threshold int
}

// NewRoot builds a root document from the header and public keys, every role
// of Roles included. The header's Type is filled in.
func NewRoot(head fleet.Document, expires clock.Instant, roles map[Role]RoleSpec) (Root, error) {
	head.Type = TypeRoot
	r := Root{Document: head, Expires: expires, Keys: map[string]RootKey{}, Roles: map[Role]RoleKeys{}}
	for _, role := range Roles() {
		rk := RoleKeys{Threshold: roles[role].Threshold}
		for _, pub := range roles[role].Keys {
			id, err := KeyID(pub)
			if err != nil {
				return Root{}, fmt.Errorf("role %s: %w", role, err)
			}
			der, err := marshalPublic(pub)
			if err != nil {
				return Root{}, fmt.Errorf("role %s: %w", role, err)
			}
			r.Keys[id] = RootKey{Alg: algEd25519, Public: base64.StdEncoding.EncodeToString(der)}
			rk.KeyIDs = append(rk.KeyIDs, id)
		}
		slices.Sort(rk.KeyIDs)
		r.Roles[role] = rk
	}
	if _, err := r.compile(); err != nil {
		return Root{}, err
	}
	return r, nil
}

// SignRoot encodes and signs a root. Holders of further shares add theirs with
// AddSignatures; whether the threshold is met is checked when it is trusted.
func SignRoot(r Root, signers ...Signer) ([]byte, error) {
	if _, err := r.compile(); err != nil {
		return nil, err
	}
	return signDocument(TypeRoot, r, signers)
}

// keyring is a root with its keys decoded.
type keyring struct {
	root  Root
	roles map[Role]roleKeys
}

type roleKeys struct {
	threshold int
	keys      map[string]ed25519.PublicKey
}

// compile checks a root and decodes its keys.
func (r Root) compile() (*keyring, error) {
	if err := fleet.CheckName(r.Fleet); err != nil {
		return nil, refuse(RootInvalid, "fleet: %v", err)
	}
	if r.Type != TypeRoot || r.Version == 0 || r.Epoch == 0 {
		return nil, refuse(RootInvalid, "a root has type %s, and a version and an epoch of at least 1", TypeRoot)
	}
	if r.Expires <= r.IssuedAt {
		return nil, refuse(RootInvalid, "a root must expire after it is issued")
	}
	if len(r.Reason) > MaxReason {
		return nil, refuse(RootInvalid, "the reason has %d bytes, at most %d are allowed", len(r.Reason), MaxReason)
	}
	if len(r.Roles) != len(Roles()) {
		return nil, refuse(RootInvalid, "a root has the roles %v and no others", Roles())
	}
	k := &keyring{root: r, roles: map[Role]roleKeys{}}
	keys := map[string]ed25519.PublicKey{}
	for id, key := range r.Keys {
		pub, err := key.decode(id)
		if err != nil {
			return nil, err
		}
		keys[id] = pub
	}
	for _, role := range Roles() {
		spec, ok := r.Roles[role]
		if !ok {
			return nil, refuse(RootInvalid, "role %s is missing", role)
		}
		rk := roleKeys{threshold: spec.Threshold, keys: map[string]ed25519.PublicKey{}}
		for _, id := range spec.KeyIDs {
			if keys[id] == nil {
				return nil, refuse(RootInvalid, "role %s names key %s, which is not in keys", role, short(id))
			}
			if rk.keys[id] != nil {
				return nil, refuse(RootInvalid, "role %s names key %s twice", role, short(id))
			}
			rk.keys[id] = keys[id]
		}
		// The map is keyed by a hash of the public key: its length counts
		// different keys, however they are spelled.
		if spec.Threshold < 1 || spec.Threshold > len(rk.keys) {
			return nil, refuse(RootInvalid, "role %s has threshold %d of %d keys; expected 1 to %d",
				role, spec.Threshold, len(rk.keys), len(rk.keys))
		}
		k.roles[role] = rk
	}
	return k, nil
}

func (key RootKey) decode(id string) (ed25519.PublicKey, error) {
	if key.Alg != algEd25519 {
		return nil, refuse(RootInvalid, "key %s has algorithm %q; expected %q", short(id), key.Alg, algEd25519)
	}
	der, err := canonicalBase64(key.Public)
	if err != nil {
		return nil, refuse(RootInvalid, "key %s: %v", short(id), err)
	}
	parsed, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		return nil, refuse(RootInvalid, "key %s: %v", short(id), err)
	}
	pub, ok := parsed.(ed25519.PublicKey)
	if !ok {
		return nil, refuse(RootInvalid, "key %s is a %T, not Ed25519", short(id), parsed)
	}
	if want, err := KeyID(pub); err != nil || want != id {
		return nil, refuse(RootInvalid, "key %s is not named by the hash of its public key", short(id))
	}
	return pub, nil
}

// verify checks that every signature of e is by a key of one of the rings'
// role, that every one holds, and that each ring's threshold of different keys
// is met. A signature that cannot be attributed refuses the whole: nothing in
// an accepted envelope is unchecked.
func (m *Memory) verify(e Envelope, role Role, rings ...*keyring) error {
	message := PAE(e.PayloadType, e.Payload)
	counts := make([]int, len(rings))
	for _, s := range e.Signatures {
		known := false
		for i, ring := range rings {
			pub, ok := ring.roles[role].keys[s.KeyID]
			if !ok {
				continue
			}
			if !known && !m.knows(pub, message, s.Sig) {
				return refuse(ManifestVerifyFailed, "the signature of %s key %s is not valid", role, short(s.KeyID))
			}
			known = true
			counts[i]++
		}
		if !known {
			return refuse(ManifestVerifyFailed, "key %s is no %s key of the trusted root", short(s.KeyID), role)
		}
	}
	for i, ring := range rings {
		if need := ring.roles[role].threshold; counts[i] < need {
			return refuse(ManifestVerifyFailed, "%d of %d needed %s signatures of root version %d",
				counts[i], need, role, ring.root.Version)
		}
	}
	return nil
}

// only keeps the signatures of one ring's role. A root is also signed by its
// predecessor's keys, which its own ring need not know.
func (e Envelope) only(role Role, ring *keyring) Envelope {
	e.Signatures = slices.DeleteFunc(slices.Clone(e.Signatures), func(s Signature) bool {
		_, ok := ring.roles[role].keys[s.KeyID]
		return !ok
	})
	return e
}
