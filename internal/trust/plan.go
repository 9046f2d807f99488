package trust

import (
	"bytes"
	"encoding/hex"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
)

// Manifest accepts a manifest that the snapshot lists for its channel by digest,
// version and name, and that is the one first seen under its name. It ends with its
// listing: documents that expire are the root and the timestamp.
func (v Verifier) Manifest(env []byte, r Verified[fleet.Resolved]) (Verified[fleet.Manifest], State, error) {
	var none Verified[fleet.Manifest]
	if err := needParent(r, "snapshot"); err != nil {
		return none, State{}, err
	}
	var m fleet.Manifest
	d, err := v.Open(RoleRelease, fleet.TypeManifest, env, &m, &m.Document)
	if err != nil {
		return none, State{}, err
	}
	if err := checkManifest(&m); err != nil {
		return none, State{}, err
	}
	listed := false
	for _, ref := range r.p.value.Channels[m.Channel].Manifests {
		listed = listed || (ref.Digest == d && ref.Version == m.Version && ref.Rollout == m.Rollout())
	}
	if !listed {
		return none, State{}, refuse(NotListed, "manifest %s of %s is not listed by snapshot version %d", d.Short(), m.Rollout(), r.p.value.Version)
	}
	s, err := v.state.pin(&m, d)
	if err != nil {
		return none, State{}, err
	}
	return prove(m, d, r.p.at), s, nil
}

// Recall gives back a manifest that was accepted before, from the payload bytes
// kept on this machine, by the pin in the state. It checks no signature, listing
// or expiry again: what was accepted may keep running and may be reverted to
// when a newer snapshot no longer lists it; a new activation needs one that is listed.
func (v Verifier) Recall(payload []byte) (Verified[fleet.Manifest], error) {
	var none Verified[fleet.Manifest]
	if len(payload) == 0 {
		return none, refuse(ManifestMissing, "there is no manifest to recall")
	}
	var m fleet.Manifest
	if err := Decode(payload, MaxEnvelope, &m); err != nil {
		return none, err
	}
	d := digest.Of(payload)
	if pin, ok := v.state.Pins[m.Rollout()]; !ok || pin.Digest != d {
		return none, refuse(NotListed, "manifest %s of %s was never accepted here", d.Short(), m.Rollout())
	}
	if err := v.checkHead(m.Document, fleet.TypeManifest); err != nil {
		return none, err
	}
	if err := checkManifest(&m); err != nil {
		return none, err
	}
	return prove(m, d, v.state.Floor), nil
}

// HostPlan accepts one host's leaf by its Merkle proof and joins it with the
// manifest. The digest of the result is the leaf's.
func (v Verifier) HostPlan(m Verified[fleet.Manifest], leaf []byte, p Proof, host string) (Verified[fleet.HostPlan], error) {
	var none Verified[fleet.HostPlan]
	if err := needParent(m, "manifest"); err != nil {
		return none, err
	}
	if len(leaf) == 0 {
		return none, refuse(ManifestMissing, "there is no leaf for host %q", host)
	}
	if len(leaf) > MaxLeaf {
		return none, refuse(Malformed, "a leaf of %d bytes is more than the %d allowed", len(leaf), MaxLeaf)
	}
	root, err := hex.DecodeString(m.p.value.LeavesRoot)
	if err != nil {
		return none, refuse(Malformed, "leavesRoot: %v", err)
	}
	h := rfc6962.DefaultHasher
	if err := proof.VerifyInclusion(h, p.Index, uint64(m.p.value.LeafCount), h.HashLeaf(leaf), p.Hashes, root); err != nil {
		return none, refuse(ManifestVerifyFailed, "the leaf is not in manifest %s: %v", m.p.digest.Short(), err)
	}
	var l fleet.Leaf
	if err := Decode(leaf, MaxLeaf, &l); err != nil {
		return none, err
	}
	if l.Host != host {
		return none, refuse(WrongHost, "the leaf is for host %q, not %q", l.Host, host)
	}
	if err := checkLeaf(&m.p.value, &l); err != nil {
		return none, err
	}
	return prove(fleet.HostPlanOf(&m.p.value, m.p.digest, &l), digest.Of(leaf), m.p.at), nil
}

// Leaves accepts all leaves of a manifest at once, in order, and returns them
// with the tree that makes their proofs. Hosts must be unique and sorted and
// fill the waves as the header says.
func (v Verifier) Leaves(m Verified[fleet.Manifest], leaves [][]byte) (Verified[[]fleet.Leaf], *Tree, error) {
	var none Verified[[]fleet.Leaf]
	if err := needParent(m, "manifest"); err != nil {
		return none, nil, err
	}
	if len(leaves) != m.p.value.LeafCount {
		return none, nil, refuse(ManifestMismatch, "%d leaves, and the manifest has %d", len(leaves), m.p.value.LeafCount)
	}
	tree := NewTree(leaves)
	root := tree.Root()
	if hex.EncodeToString(root) != m.p.value.LeavesRoot {
		return none, nil, refuse(ManifestVerifyFailed, "the leaves do not add up to the root of manifest %s", m.p.digest.Short())
	}
	out := make([]fleet.Leaf, len(leaves))
	hosts := make([]int, len(m.p.value.Waves))
	for i, raw := range leaves {
		if err := Decode(raw, MaxLeaf, &out[i]); err != nil {
			return none, nil, err
		}
		if err := checkLeaf(&m.p.value, &out[i]); err != nil {
			return none, nil, err
		}
		if i > 0 && out[i-1].Host >= out[i].Host {
			return none, nil, refuse(Malformed, "the leaves are not sorted by host without duplicates at %q", out[i].Host)
		}
		hosts[out[i].Wave]++
	}
	for i, w := range m.p.value.Waves {
		if w.Hosts != hosts[i] {
			return none, nil, refuse(Malformed, "wave %q has %d hosts, the manifest says %d", w.Name, hosts[i], w.Hosts)
		}
	}
	return prove(out, digest.Of(root), m.p.at), tree, nil
}

// Budget accepts the member list of the manifest's budget at index.
func (v Verifier) Budget(m Verified[fleet.Manifest], index int, raw []byte) (Verified[fleet.BudgetMembers], error) {
	var none Verified[fleet.BudgetMembers]
	if err := needParent(m, "manifest"); err != nil {
		return none, err
	}
	if index < 0 || index >= len(m.p.value.Budgets) {
		return none, refuse(NotListed, "the manifest has %d budgets, none at %d", len(m.p.value.Budgets), index)
	}
	d, err := named("budget members", raw, m.p.value.Budgets[index].Members)
	if err != nil {
		return none, err
	}
	var b fleet.BudgetMembers
	if err := Decode(raw, MaxList, &b); err != nil {
		return none, err
	}
	if b.Type != fleet.TypeBudget {
		return none, refuse(ManifestVerifyFailed, "this is a %q, not a %q", b.Type, fleet.TypeBudget)
	}
	if err := sortedNames("budget member", b.Hosts); err != nil {
		return none, err
	}
	return prove(b, d, m.p.at), nil
}

// Roster accepts the host list that the snapshot names: plain bytes, not an
// envelope.
func (v Verifier) Roster(raw []byte, r Verified[fleet.Resolved]) (Verified[fleet.Roster], State, error) {
	var ro fleet.Roster
	if err := needParent(r, "snapshot"); err != nil {
		return Verified[fleet.Roster]{}, State{}, err
	}
	d, s, err := v.list(fleet.TypeRoster, raw, r.p.value.Roster, &ro, &ro.Document)
	if err == nil {
		err = checkRoster(&ro)
	}
	if err != nil {
		return Verified[fleet.Roster]{}, State{}, err
	}
	return prove(ro, d, r.p.at), s, nil
}

// Revocations accepts the revocations that the snapshot names: plain bytes, not
// an envelope.
func (v Verifier) Revocations(raw []byte, r Verified[fleet.Resolved]) (Verified[fleet.Revocations], State, error) {
	var re fleet.Revocations
	if err := needParent(r, "snapshot"); err != nil {
		return Verified[fleet.Revocations]{}, State{}, err
	}
	d, s, err := v.list(fleet.TypeRevocations, raw, r.p.value.Revocations, &re, &re.Document)
	for i := 0; err == nil && i < len(re.Revoked); i++ {
		if nameErr := fleet.CheckName(re.Revoked[i].Host); nameErr != nil {
			err = refuse(Malformed, "revocations: host %v", nameErr)
		}
	}
	if err != nil {
		return Verified[fleet.Revocations]{}, State{}, err
	}
	return prove(re, d, r.p.at), s, nil
}

func (v Verifier) list(docType string, raw []byte, want digest.Digest, into any, head *fleet.Document) (digest.Digest, State, error) {
	d, err := named(docType, raw, want)
	if err != nil {
		return "", State{}, err
	}
	if err := Decode(raw, MaxList, into); err != nil {
		return "", State{}, err
	}
	if err := v.checkHead(*head, docType); err != nil {
		return "", State{}, err
	}
	if head.Epoch > v.Epoch() {
		return "", State{}, refuse(RootInvalid, "%s of epoch %d: the trusted root is at %d; fetch the newer root first", docType, head.Epoch, v.Epoch())
	}
	s, err := v.state.advance(*head, d)
	return d, s, err
}

// named checks raw against the digest by which a signed parent names it.
func named(what string, raw []byte, want digest.Digest) (digest.Digest, error) {
	if len(raw) == 0 {
		return "", refuse(ManifestMissing, "there is no %s", what)
	}
	if want == "" {
		return "", refuse(NotListed, "nothing signed names a %s", what)
	}
	d := digest.Of(raw)
	if d != want {
		return "", refuse(NotListed, "%s %s is not the signed %s", what, d.Short(), want.Short())
	}
	return d, nil
}

// Payload returns the payload bytes of an envelope that verifies for a
// Verified of that digest, which is what Recall takes later.
func Payload[T any](v Verified[T], env []byte) ([]byte, error) {
	e, err := ParseEnvelope(env)
	if err != nil {
		return nil, err
	}
	if v.IsZero() || digest.Of(e.Payload) != v.Digest() {
		return nil, refuse(ManifestMismatch, "the envelope is not the one that was verified")
	}
	return bytes.Clone(e.Payload), nil
}
