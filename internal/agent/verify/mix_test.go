package verify

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/testkit/testfleet"
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

// documents are what is given, but for a new root, as a dispatch carries them.
func (g *given) documents() *wire.Documents {
	p := g.proof
	p.Leaf = g.leaf
	return &wire.Documents{Root: 1, Timestamp: g.timestamp, Resolved: g.resolved, Manifest: &wire.HostManifest{Envelope: g.manifest, Leaf: p}}
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

func document(docType string, version uint64) fleet.Document {
	return fleet.Document{Type: docType, Fleet: testfleet.Name, Epoch: 1, Version: version, IssuedAt: day0}
}

func encode(t *testing.T, doc any) []byte {
	t.Helper()
	return testkit.Value(trust.Canonical(doc))(t)
}

// publish makes a release; its snapshot lists earlier's manifest too, if given.
func publish(t *testing.T, k testfleet.Keys, version uint64, earlier *given) given {
	t.Helper()
	name := fmt.Sprintf("r%d", version)
	g := given{rollout: "stable@" + name,
		bundle: encode(t, fleet.Bundle{Type: fleet.TypeBundle, Name: "web", Exec: []fleet.Exec{{Name: name, Activate: []string{"/bin/true"}}}})}
	g.leaf = encode(t, fleet.Leaf{Host: "web-1", Target: digest.Of(g.bundle)})
	other := encode(t, fleet.Leaf{Host: "web-2", Target: digest.Of(g.bundle)})
	tree := trust.NewTree([][]byte{g.leaf, other})
	p := testkit.Value(tree.InclusionProof(0))(t)
	g.proof = wire.LeafProof{Index: int(p.Index), Proof: p.Hashes}
	sign := func(role trust.Role, docType string, doc any) ([]byte, digest.Digest) {
		env, name, err := k.Sign(role, docType, doc)
		testkit.Must(t, err)
		return env, name
	}
	g.manifest, g.digest = sign(trust.RoleRelease, fleet.TypeManifest, fleet.Manifest{Document: document(fleet.TypeManifest, version), Channel: "stable", Ref: name,
		Policy: fleet.Policy{Name: "careful", OnHealthFailure: fleet.Halt}, Waves: []fleet.Wave{{Name: "all", Hosts: 2}},
		LeavesRoot: hex.EncodeToString(tree.Root()), LeafCount: 2})
	list := []fleet.ManifestRef{{Rollout: g.rollout, Digest: g.digest, Version: version}}
	if earlier != nil {
		list = append(list, fleet.ManifestRef{Rollout: earlier.rollout, Digest: earlier.digest, Version: 1})
	}
	var resolved digest.Digest
	g.resolved, resolved = sign(trust.RoleRelease, fleet.TypeResolved, fleet.Resolved{Document: document(fleet.TypeResolved, version), Ref: name,
		Channels: map[string]fleet.ResolvedChannel{"stable": {Ref: name, FreshnessWindow: clock.Day, OnNewRef: fleet.Queue, Manifests: list}}})
	g.timestamp, _ = sign(trust.RoleTimestamp, fleet.TypeTimestamp,
		fleet.Timestamp{Document: document(fleet.TypeTimestamp, version), Resolved: resolved, ResolvedVersion: version})
	return g
}

// follow starts a host from the first root and shows it what is given in turn:
// the last one's bundle is what it may run. Carried documents come with the offer.
func follow(t *testing.T, first []byte, carried bool, shows ...*given) error {
	t.Helper()
	s := testkit.Value(trust.Begin(testfleet.Name, first, ""))(t)
	src := &given{}
	f, err := New(Options{Fleet: testfleet.Name, Host: "web-1", Source: src,
		Missing: func(err error) bool { return errors.Is(err, errMissing) },
		Save:    func(context.Context, trust.State) error { return nil },
		Wall:    func() clock.Instant { return day0 }}, s)
	testkit.Must(t, err)
	for i, g := range shows {
		var p Plan
		var err error
		if carried {
			p, err = f.OfferedPlan(t.Context(), g.rollout, g.digest, g.documents())
		} else {
			*src = *g
			if err = f.Refresh(t.Context()); err == nil {
				p, err = f.Plan(t.Context(), g.rollout, g.digest)
			}
		}
		if err == nil {
			_, err = f.Bundle(p.Host, g.bundle)
		}
		if i == len(shows)-1 {
			return err
		}
		testkit.Must(t, err)
	}
	return nil
}

// TestS6AgentMixesNoPartsOfTwoReleases shows the agent's own follower every
// combination of the parts of two valid releases, the server's word for what it
// means among them. A bundle is taken exactly where the newest snapshot lists
// each part: the oracle knows from which release each part is.
func TestS6AgentMixesNoPartsOfTwoReleases(t *testing.T) {
	k, rotated := testfleet.NewKeys("one"), testfleet.NewKeys("two")
	first := testkit.Value(k.Root(document(trust.TypeRoot, 1)))(t)
	one := publish(t, k, 1, nil)
	alone, both, fresh := publish(t, k, 2, nil), publish(t, k, 2, &one), publish(t, rotated, 2, nil)
	fresh.root = testkit.Value(rotated.Root(document(trust.TypeRoot, 2), k[trust.RoleRoot]))(t)
	for name, sc := range map[string]struct {
		second   given
		listed   bool // the second snapshot lists the first manifest
		accepted int  // of the mixes, by a new host
	}{
		// The root is free where both releases have one.
		"two releases":         {alone, false, 2 * 2},
		"earlier still listed": {both, true, 3 * 2},
		"new keys":             {fresh, false, 2},
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
					err := follow(t, first, false, shows...)
					if seen == 0 && g.root == nil {
						if carried := follow(t, first, true, shows...); (carried == nil) != (err == nil) {
							t.Fatalf("mix %09b: fetched %v, carried %v", mix, err, carried)
						}
					}
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
	root, timestamp, snapshot, manifest, leaf, proof := of(0), of(1), of(2), of(3), of(4), of(5)
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
	if name := of(8); seen == name+1 {
		manifest, leaf, proof = name, name, name // likewise
	}
	if timestamp != snapshot || manifest != snapshot && (!earlierListed || snapshot == 0) {
		return false
	}
	bundle, name, said := of(6), of(7), of(8)
	return leaf == manifest && proof == manifest && bundle == manifest && name == manifest && said == manifest
}
