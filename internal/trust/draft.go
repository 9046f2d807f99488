package trust

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/steadyfleet/steady/internal/core/digest"
)

// Draft is a root on its way to its signatures: the holders of the trusted root
// and those of the new one sign it one after the other. It is not trusted.
type Draft struct {
	Root   Root
	Digest digest.Digest // of the payload, for holders to compare
	// Before and After are who signs for the trusted root and for the new one; a
	// first root has none before it.
	Before, After Quorum

	env Envelope
}

// Quorum says who may sign for one root and who has.
type Quorum struct {
	Version uint64   `json:"version"` // of the root
	Need    int      `json:"need"`
	Keys    []string `json:"keys"`   // key ids, sorted
	Signed  []string `json:"signed"` // those whose signature holds, sorted
}

// Met reports whether enough have signed.
func (q Quorum) Met() bool { return len(q.Signed) >= q.Need }

// Complete reports whether the draft is a root that follows the trusted one.
func (d Draft) Complete() bool { return d.Before.Met() && d.After.Met() }

// NewDraft encodes a root without a signature.
func NewDraft(r Root) ([]byte, error) {
	if _, err := r.compile(); err != nil {
		return nil, err
	}
	payload, err := Canonical(r)
	if err != nil {
		return nil, err
	}
	return Envelope{PayloadType: TypeRoot, Payload: payload}.encode()
}

// Draft reads a draft of the root that follows the trusted one. It refuses one
// that could never follow it, and one with a signature that does not hold or is
// by neither root's keys.
func (v Verifier) Draft(raw []byte) (Draft, error) {
	if v.ring == nil {
		return Draft{}, refuse(RootInvalid, "no trusted root to start from")
	}
	return readDraft(v.fleet, raw, v.ring)
}

// FirstDraft reads a draft of a fleet's first root, which follows none: its own
// holders alone sign it, and Before stays empty. Nothing but them says that it is
// the right one: holders compare its digest.
func FirstDraft(raw []byte) (Draft, error) {
	r, err := ReadRoot(raw)
	if err != nil {
		return Draft{}, err
	}
	if r.Version != 1 {
		return Draft{}, refuse(RootInvalid, "root version %d is not a fleet's first; roots are accepted one by one, from version 1 on", r.Version)
	}
	return readDraft(r.Fleet, raw, nil)
}

// readDraft checks a draft and every signature of it; before is nil for a first root.
func readDraft(fleetName string, raw []byte, before *keyring) (Draft, error) {
	e, err := parseEnvelope(raw, 0)
	if err != nil {
		return Draft{}, err
	}
	next, err := openRoot(fleetName, e)
	if err != nil {
		return Draft{}, err
	}
	if before != nil {
		if err := next.follows(before); err != nil {
			return Draft{}, err
		}
	}
	d := Draft{Root: next.root, Digest: digest.Of(e.Payload), After: next.quorum(), env: e}
	type side struct {
		ring *keyring
		q    *Quorum
	}
	sides := []side{{next, &d.After}}
	if before != nil {
		d.Before = before.quorum()
		sides = append(sides, side{before, &d.Before})
	}
	message := PAE(e.PayloadType, e.Payload)
	for _, s := range e.Signatures {
		known := false
		for _, side := range sides {
			pub, ok := side.ring.roles[RoleRoot].keys[s.KeyID]
			if !ok {
				continue
			}
			if !ed25519.Verify(pub, message, s.Sig) {
				return Draft{}, refuse(ManifestVerifyFailed, "the signature of root key %s is not valid", short(s.KeyID))
			}
			known = true
			side.q.Signed = append(side.q.Signed, s.KeyID)
		}
		if !known {
			return Draft{}, refuse(ManifestVerifyFailed, "key %s %s", short(s.KeyID), d.noHolder())
		}
	}
	slices.Sort(d.Before.Signed)
	slices.Sort(d.After.Signed)
	return d, nil
}

// First reports whether the draft is of a fleet's first root.
func (d Draft) First() bool { return d.Before.Version == 0 }

// noHolder is what is said of a key that may not sign the draft.
func (d Draft) noHolder() string {
	if d.First() {
		return fmt.Sprintf("is no root key of version %d", d.After.Version)
	}
	return fmt.Sprintf("is a root key of neither version %d nor %d", d.Before.Version, d.After.Version)
}

// Sign adds signatures. A key that signed already, and one of neither root, are
// refused.
func (d Draft) Sign(signers ...Signer) ([]byte, error) {
	for _, s := range signers {
		if !slices.Contains(d.Before.Keys, s.id) && !slices.Contains(d.After.Keys, s.id) {
			return nil, refuse(RootInvalid, "key %s %s; use the folder of a share", short(s.id), d.noHolder())
		}
		if d.SignedBy(s.id) {
			return nil, refuse(RootInvalid, "key %s has signed already", short(s.id))
		}
	}
	if len(signers) == 0 {
		return d.env.encode()
	}
	e := d.env
	e.Signatures = slices.Clone(e.Signatures)
	return seal(e, signers)
}

// SignedBy reports whether a key has signed.
func (d Draft) SignedBy(id string) bool {
	return slices.Contains(d.Before.Signed, id) || slices.Contains(d.After.Signed, id)
}

// Merge returns the draft with the signatures of another copy added.
func (d Draft) Merge(other Draft) ([]byte, error) {
	if d.Digest != other.Digest {
		return nil, refuse(RootInvalid, "the signatures are for root %s, not for %s", other.Digest.Short(), d.Digest.Short())
	}
	e := d.env
	e.Signatures = slices.Clone(e.Signatures)
	for _, s := range other.env.Signatures {
		if !d.SignedBy(s.KeyID) {
			e.Signatures = append(e.Signatures, s)
		}
	}
	return e.encode()
}

// ReadRoot reads a root document without trusting it.
func ReadRoot(env []byte) (Root, error) {
	e, err := parseEnvelope(env, 0)
	if err != nil {
		return Root{}, err
	}
	ring, err := decodeRoot(e)
	if err != nil {
		return Root{}, err
	}
	return ring.root, nil
}

// RootDocument returns the trusted root document; its maps must not be changed.
func (v Verifier) RootDocument() Root {
	if v.ring == nil {
		return Root{}
	}
	return v.ring.root
}

// Spec returns the keys and thresholds of a root, to make its successor of.
func (r Root) Spec() (map[Role]RoleSpec, error) {
	ring, err := r.compile()
	if err != nil {
		return nil, err
	}
	out := map[Role]RoleSpec{}
	for role, rk := range ring.roles {
		spec := RoleSpec{Threshold: rk.threshold}
		for _, id := range slices.Sorted(maps.Keys(rk.keys)) {
			spec.Keys = append(spec.Keys, rk.keys[id])
		}
		out[role] = spec
	}
	return out, nil
}

func (k *keyring) quorum() Quorum {
	role := k.roles[RoleRoot]
	return Quorum{Version: k.root.Version, Need: role.threshold, Keys: slices.Sorted(maps.Keys(role.keys)), Signed: []string{}}
}

// follows refuses a root that cannot come after the trusted one.
func (k *keyring) follows(trusted *keyring) error {
	old, next := trusted.root, k.root
	if next.Version != old.Version+1 {
		code := RootInvalid
		if next.Version <= old.Version {
			code = Rollback
		}
		return refuse(code, "root version %d cannot follow version %d; roots are accepted one by one", next.Version, old.Version)
	}
	if next.Epoch < old.Epoch {
		return refuse(Rollback, "root version %d lowers the epoch from %d to %d", next.Version, old.Epoch, next.Epoch)
	}
	return nil
}

// encode writes an envelope as it is kept and sent.
func (e Envelope) encode() ([]byte, error) {
	w := wireEnvelope{Payload: base64.StdEncoding.EncodeToString(e.Payload), PayloadType: e.PayloadType, Signatures: []wireSignature{}}
	for _, s := range e.Signatures {
		w.Signatures = append(w.Signatures, wireSignature{KeyID: s.KeyID, Sig: base64.StdEncoding.EncodeToString(s.Sig)})
	}
	return json.Marshal(w)
}
