package verify

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/trust"
	"github.com/steadyfleet/steady/internal/wire"
)

const day0 = clock.Instant(1_700_000_000_000)

var errMissing = errors.New("no such document")

// given is what a server shows a host; part by part it is of one of two releases.
type given struct {
	root, timestamp, resolved, manifest, leaf, bundle []byte
	proof                                             wire.LeafProof
	rollout                                           string
	digest                                            digest.Digest // of the manifest, in the server's words
}

func (g *given) Trust(_ context.Context, file string) ([]byte, error) {
	switch {
	case file == wire.TrustTimestamp:
		return g.timestamp, nil
	case file == wire.TrustResolved:
		return g.resolved, nil
	case file == "2.root.json" && g.root != nil:
		return g.root, nil
	}
	return nil, errMissing
}

func (g *given) Manifest(context.Context, string) (wire.HostManifest, error) {
	p := g.proof
	p.Leaf = g.leaf
	return wire.HostManifest{Envelope: g.manifest, Leaf: p}, nil
}

var givenParts = []func(to, from *given){
	func(to, from *given) { to.root = from.root },
	func(to, from *given) { to.timestamp = from.timestamp },
	func(to, from *given) { to.resolved = from.resolved },
	func(to, from *given) { to.manifest = from.manifest },
	func(to, from *given) { to.leaf = from.leaf },
	func(to, from *given) { to.proof = from.proof },
	func(to, from *given) { to.bundle = from.bundle },
	func(to, from *given) { to.rollout = from.rollout },
	func(to, from *given) { to.digest = from.digest },
}

type signers map[trust.Role]trust.Signer

func makeSigners(t *testing.T, name string) signers {
	t.Helper()
	out := signers{}
	for _, role := range trust.Roles() {
		seed := sha256.Sum256([]byte(name + string(role)))
		s, err := trust.NewSigner(ed25519.NewKeyFromSeed(seed[:]))
		must(t, err)
		out[role] = s
	}
	return out
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (k signers) root(t *testing.T, version uint64, also ...trust.Signer) []byte {
	t.Helper()
	spec := map[trust.Role]trust.RoleSpec{}
	for role, s := range k {
		spec[role] = trust.RoleSpec{Keys: []ed25519.PublicKey{s.Public()}, Threshold: 1}
	}
	r, err := trust.NewRoot(document(trust.TypeRoot, version), day0.Add(365*clock.Day), spec)
	must(t, err)
	env, err := trust.SignRoot(r, append(also, k[trust.RoleRoot])...)
	must(t, err)
	return env
}

func document(docType string, version uint64) fleet.Document {
	return fleet.Document{Type: docType, Fleet: "acme", Epoch: 1, Version: version, IssuedAt: day0}
}

func encode(t *testing.T, doc any) []byte {
	t.Helper()
	raw, err := trust.Canonical(doc)
	must(t, err)
	return raw
}

// publish makes a release; its snapshot lists earlier's manifest too, if given.
func (k signers) publish(t *testing.T, version uint64, earlier *given) given {
	t.Helper()
	name := fmt.Sprintf("r%d", version)
	g := given{rollout: "stable@" + name,
		bundle: encode(t, fleet.Bundle{Type: fleet.TypeBundle, Name: "web", Exec: []fleet.Exec{{Name: name, Activate: []string{"/bin/true"}}}})}
	g.leaf = encode(t, fleet.Leaf{Host: "web-1", Target: digest.Of(g.bundle)})
	other := encode(t, fleet.Leaf{Host: "web-2", Target: digest.Of(g.bundle)})
	tree := trust.NewTree([][]byte{g.leaf, other})
	p, err := tree.InclusionProof(0)
	must(t, err)
	g.proof = wire.LeafProof{Index: int(p.Index), Proof: p.Hashes}
	manifest := encode(t, fleet.Manifest{Document: document(fleet.TypeManifest, version), Channel: "stable", Ref: name,
		Policy: fleet.Policy{Name: "careful", OnHealthFailure: fleet.Halt}, Waves: []fleet.Wave{{Name: "all", Hosts: 2}},
		LeavesRoot: hex.EncodeToString(tree.Root()), LeafCount: 2})
	g.digest = digest.Of(manifest)
	list := []fleet.ManifestRef{{Rollout: g.rollout, Digest: g.digest, Version: version}}
	if earlier != nil {
		list = append(list, fleet.ManifestRef{Rollout: earlier.rollout, Digest: earlier.digest, Version: 1})
	}
	resolved := encode(t, fleet.Resolved{Document: document(fleet.TypeResolved, version), Ref: name,
		Channels: map[string]fleet.ResolvedChannel{"stable": {Ref: name, FreshnessWindow: clock.Day, OnNewRef: fleet.Queue, Manifests: list}}})
	stamp := encode(t, fleet.Timestamp{Document: document(fleet.TypeTimestamp, version), Resolved: digest.Of(resolved), ResolvedVersion: version})
	for _, doc := range []struct {
		into    *[]byte
		docType string
		payload []byte
		role    trust.Role
	}{
		{&g.manifest, fleet.TypeManifest, manifest, trust.RoleRelease},
		{&g.resolved, fleet.TypeResolved, resolved, trust.RoleRelease},
		{&g.timestamp, fleet.TypeTimestamp, stamp, trust.RoleTimestamp},
	} {
		*doc.into, err = trust.Sign(doc.docType, doc.payload, k[doc.role])
		must(t, err)
	}
	return g
}

// follow starts a host from the first root and shows it what is given in turn:
// the last one's bundle is what it may run.
func follow(t *testing.T, first []byte, shows ...*given) error {
	t.Helper()
	s, err := trust.Begin("acme", first, "")
	must(t, err)
	src := &given{}
	f, err := New(Options{Fleet: "acme", Host: "web-1", Source: src,
		Missing: func(err error) bool { return errors.Is(err, errMissing) },
		Save:    func(context.Context, trust.State) error { return nil },
		Wall:    func() clock.Instant { return day0 }}, s)
	must(t, err)
	for i, g := range shows {
		*src = *g
		err := f.Refresh(t.Context())
		var p Plan
		if err == nil {
			p, err = f.Plan(t.Context(), g.rollout, g.digest)
		}
		if err == nil {
			_, err = f.Bundle(p.Host, g.bundle)
		}
		if i == len(shows)-1 {
			return err
		}
		must(t, err)
	}
	return nil
}

// TestS6AgentMixesNoPartsOfTwoReleases shows the agent's own follower every
// combination of the parts of two valid releases, the server's word for what it
// means among them. A bundle is taken exactly where the newest snapshot lists
// each part: the oracle knows from which release each part is.
func TestS6AgentMixesNoPartsOfTwoReleases(t *testing.T) {
	k, rotated := makeSigners(t, "one"), makeSigners(t, "two")
	first := k.root(t, 1)
	one := k.publish(t, 1, nil)
	alone, both, fresh := k.publish(t, 2, nil), k.publish(t, 2, &one), rotated.publish(t, 2, nil)
	fresh.root = rotated.root(t, 2, k[trust.RoleRoot])
	for name, sc := range map[string]struct {
		second   given
		listed   bool // the second snapshot lists the first manifest
		accepted int  // of the mixes, by a new host
	}{
		// The name that the server says is free: the digest counts. So is the root
		// where both releases have one.
		"two releases":         {alone, false, 2 * 2 * 2},
		"earlier still listed": {both, true, 3 * 2 * 2},
		"new keys":             {fresh, false, 2 * 2},
	} {
		for seen := range 3 {
			t.Run(fmt.Sprintf("%s, %d seen", name, seen), func(t *testing.T) {
				t.Parallel()
				releases := [2]*given{&one, &sc.second}
				accepted := 0
				for mix := range 1 << len(givenParts) {
					var g given
					for i, take := range givenParts {
						take(&g, releases[mix>>i&1])
					}
					shows := []*given{&g}
					if seen > 0 {
						shows = []*given{releases[seen-1], &g}
					}
					err := follow(t, first, shows...)
					if want := consistent(mix, seen, sc.listed, sc.second.root != nil); (err == nil) != want {
						t.Fatalf("mix %09b (root on the right): %v, and each part is listed: %t", mix, err, want)
					}
					if err == nil {
						accepted++
					}
				}
				if seen == 0 && accepted != sc.accepted || accepted == 0 {
					t.Errorf("%d mixes were accepted, expected %d", accepted, sc.accepted)
				}
			})
		}
	}
}

// consistent is the oracle: bit i says of which release part i is.
func consistent(mix, seen int, earlierListed, rotates bool) bool {
	of := func(part int) int { return mix >> part & 1 }
	root, timestamp, snapshot, manifest := of(0), of(1), of(2), of(3)
	if rotates {
		if seen == 2 {
			root = 1 // a host does not forget a root
		}
		if root != timestamp {
			return false // its keys are not the root's
		}
	}
	if seen == 2 && timestamp == 0 {
		return false
	}
	if seen == timestamp+1 {
		snapshot = timestamp // the host has it, and asks for no other
	}
	if timestamp != snapshot || manifest != snapshot && (!earlierListed || snapshot == 0) {
		return false
	}
	leaf, proof, bundle, said := of(4), of(5), of(6), of(8)
	return leaf == manifest && proof == manifest && bundle == manifest && said == manifest
}
