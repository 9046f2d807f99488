package trust

import (
	"crypto/ed25519"
	"encoding/hex"
	"fmt"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/testkit"
)

const (
	testFleet = "acme"
	day0      = clock.Instant(1_700_000_000_000)
)

// signer returns a key that is the same in every run.
func signer(t testing.TB, name string) Signer {
	t.Helper()
	seed := make([]byte, ed25519.SeedSize)
	copy(seed, name)
	s := testkit.Value(NewSigner(ed25519.NewKeyFromSeed(seed)))(t)
	return s
}

// keys are the signers of one root, by role.
type keys map[Role]Signer

func newKeys(t testing.TB, generation string) keys {
	k := keys{}
	for _, r := range Roles() {
		k[r] = signer(t, generation+string(r))
	}
	return k
}

func (k keys) spec() map[Role]RoleSpec {
	spec := map[Role]RoleSpec{}
	for r, s := range k {
		spec[r] = RoleSpec{Keys: []ed25519.PublicKey{s.Public()}, Threshold: 1}
	}
	return spec
}

func head(docType string, epoch, version uint64) fleet.Document {
	return fleet.Document{Type: docType, Fleet: testFleet, Epoch: epoch, Version: version, IssuedAt: day0}
}

func (k keys) root(t testing.TB, epoch, version uint64, also ...Signer) []byte {
	t.Helper()
	r := testkit.Value(NewRoot(head(TypeRoot, epoch, version), day0.Add(365*clock.Day), k.spec()))(t)
	env := testkit.Value(SignRoot(r, append([]Signer{k[RoleRoot]}, also...)...))(t)
	return env
}

func canonical(t testing.TB, v any) []byte {
	t.Helper()
	raw := testkit.Value(Canonical(v))(t)
	return raw
}

func envelope(t testing.TB, docType string, doc any, by ...Signer) []byte {
	t.Helper()
	env := testkit.Value(Sign(docType, canonical(t, doc), by...))(t)
	return env
}

// release is a whole signed release of one channel with three hosts.
type release struct {
	timestamp, resolved, manifest []byte // envelopes
	leaves                        [][]byte
	proofs                        []Proof
	bundle, blob, roster          []byte
	revocations, budget           []byte

	manifestDoc fleet.Manifest
	resolvedDoc fleet.Resolved
}

var testHosts = []string{"canary-1", "web-1", "web-2"}

func newRelease(t testing.TB, k keys, epoch, version uint64) release {
	t.Helper()
	r := release{blob: fmt.Appendf(nil, "content of %d\n", version)}
	r.bundle = canonical(t, fleet.Bundle{
		Type: fleet.TypeBundle, Name: "web",
		Files: []fleet.File{{Path: "etc/app.conf", Mode: 0o644, Blob: digest.Of(r.blob), Size: int64(len(r.blob))}},
		Exec:  []fleet.Exec{{Name: "reload", Activate: []string{"/bin/true"}, Timeout: 5 * clock.Second}},
	})
	for i, h := range testHosts {
		r.leaves = append(r.leaves, canonical(t, fleet.Leaf{
			Host: h, Wave: min(i, 1), Target: digest.Of(r.bundle), Probes: []int{0}, Budgets: []int{0},
		}))
	}
	tree := NewTree(r.leaves)
	for i := range r.leaves {
		p := testkit.Value(tree.InclusionProof(uint64(i)))(t)
		r.proofs = append(r.proofs, p)
	}
	r.budget = canonical(t, fleet.BudgetMembers{Type: fleet.TypeBudget, Hosts: testHosts})
	r.manifestDoc = fleet.Manifest{
		Document: head(fleet.TypeManifest, epoch, version),
		Channel:  "stable", Ref: fmt.Sprintf("ref%d-%d", epoch, version), FleetResolvedHash: digest.Of([]byte("plan")),
		Policy: fleet.Policy{Name: "careful", OnHealthFailure: fleet.RollbackAndHalt, ConfirmWindow: 2 * clock.Minute},
		Waves:  []fleet.Wave{{Name: "canary", Soak: clock.Minute, MinSoaked: 1, Hosts: 1}, {Name: "rest", Hosts: 2}},
		Probes: []fleet.Probe{{Name: "up", Mode: fleet.Enforce, Interval: clock.Second, Timeout: clock.Second,
			HTTP: &fleet.HTTPProbe{URL: "http://127.0.0.1/", ExpectStatus: 200}}},
		Budgets:    []fleet.Budget{{Selector: "all", Max: 1, Members: digest.Of(r.budget)}},
		LeavesRoot: hex.EncodeToString(tree.Root()), LeafCount: len(r.leaves),
	}
	r.manifest = envelope(t, fleet.TypeManifest, r.manifestDoc, k[RoleRelease])
	r.roster = canonical(t, fleet.Roster{
		Document: head(fleet.TypeRoster, epoch, version),
		Hosts:    map[string]fleet.RosterHost{"web-1": {Channel: "stable", Bundle: digest.Of(r.bundle)}},
	})
	r.revocations = canonical(t, fleet.Revocations{
		Document: head(fleet.TypeRevocations, epoch, version),
		Revoked:  []fleet.Revocation{{Host: "web-2", NotBefore: day0, Reason: "lost"}},
	})
	r.resolvedDoc = fleet.Resolved{
		Document: head(fleet.TypeResolved, epoch, version), Ref: r.manifestDoc.Ref,
		Roster: digest.Of(r.roster), Revocations: digest.Of(r.revocations),
		Channels: map[string]fleet.ResolvedChannel{"stable": {
			Ref: r.manifestDoc.Ref, FreshnessWindow: clock.Day, OnNewRef: fleet.Queue,
			Manifests: []fleet.ManifestRef{{Rollout: r.manifestDoc.Rollout(),
				Digest: payloadDigest(t, r.manifest), Version: version}},
		}},
	}
	return r.snapshot(t, k)
}

// snapshot signs resolvedDoc again and a timestamp of the same version for it.
func (r release) snapshot(t testing.TB, k keys) release {
	t.Helper()
	d := r.resolvedDoc
	r.resolved = envelope(t, fleet.TypeResolved, d, k[RoleRelease])
	r.timestamp = envelope(t, fleet.TypeTimestamp, fleet.Timestamp{
		Document: head(fleet.TypeTimestamp, d.Epoch, d.Version),
		Resolved: payloadDigest(t, r.resolved), ResolvedVersion: d.Version,
	}, k[RoleTimestamp])
	return r
}

func payloadDigest(t testing.TB, env []byte) digest.Digest {
	t.Helper()
	e := testkit.Value(ParseEnvelope(env))(t)
	return digest.Of(e.Payload)
}

func begin(t testing.TB, root []byte) Verifier {
	t.Helper()
	s := testkit.Value(Begin(testFleet, root, payloadDigest(t, root)))(t)
	v := testkit.Value(NewVerifier(testFleet, s))(t)
	return v
}

// accepted is what a host holds after the whole of a release verified.
type accepted struct {
	v         Verifier
	timestamp Verified[fleet.Timestamp]
	resolved  Verified[fleet.Resolved]
	manifest  Verified[fleet.Manifest]
	plan      Verified[fleet.HostPlan]
	bundle    Verified[fleet.Bundle]
}

// accept runs the whole way for web-1, in the order that an agent does.
func (r release) accept(v Verifier, wall clock.Instant) (a accepted, err error) {
	var s State
	if a.timestamp, s, err = v.Timestamp(r.timestamp, wall); err != nil {
		return a, err
	}
	if v, err = v.With(s); err != nil {
		return a, err
	}
	if a.resolved, s, err = v.Resolved(r.resolved, a.timestamp); err != nil {
		return a, err
	}
	if v, err = v.With(s); err != nil {
		return a, err
	}
	if _, s, err = v.Roster(r.roster, a.resolved); err != nil {
		return a, err
	}
	if v, err = v.With(s); err != nil {
		return a, err
	}
	if _, s, err = v.Revocations(r.revocations, a.resolved); err != nil {
		return a, err
	}
	if v, err = v.With(s); err != nil {
		return a, err
	}
	if a.manifest, s, err = v.Manifest(r.manifest, a.resolved); err != nil {
		return a, err
	}
	if a.v, err = v.With(s); err != nil {
		return a, err
	}
	if a.plan, err = v.HostPlan(a.manifest, r.leaves[1], r.proofs[1], "web-1"); err != nil {
		return a, err
	}
	if _, err = v.Budget(a.manifest, 0, r.budget); err != nil {
		return a, err
	}
	a.bundle, err = v.Bundle(a.plan, r.bundle)
	return a, err
}

func digestOf(b []byte) digest.Digest { return digest.Of(b) }

// relink signs the release again after its leaves or documents were changed.
func (r release) relink(t testing.TB, k keys) release {
	t.Helper()
	tree := NewTree(r.leaves)
	r.proofs = nil
	for i := range r.leaves {
		p := testkit.Value(tree.InclusionProof(uint64(i)))(t)
		r.proofs = append(r.proofs, p)
	}
	r.manifestDoc.LeavesRoot = hex.EncodeToString(tree.Root())
	r.manifestDoc.LeafCount = len(r.leaves)
	r.manifest = envelope(t, fleet.TypeManifest, r.manifestDoc, k[RoleRelease])
	r.resolvedDoc.Channels = map[string]fleet.ResolvedChannel{"stable": {
		Ref: r.manifestDoc.Ref, FreshnessWindow: clock.Day, OnNewRef: fleet.Queue,
		Manifests: []fleet.ManifestRef{{Rollout: r.manifestDoc.Rollout(),
			Digest: payloadDigest(t, r.manifest), Version: r.manifestDoc.Version}},
	}}
	return r.snapshot(t, k)
}
