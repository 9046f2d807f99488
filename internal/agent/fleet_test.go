package agent

import (
	"crypto/ed25519"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/window"
	"github.com/steadyfleet/steady/internal/identity"
	"github.com/steadyfleet/steady/internal/trust"
	"github.com/steadyfleet/steady/internal/wire"
)

const testFleet = "acme"

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func got[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		must(t, err)
		return v
	}
}

// signers are the keys of a fleet, one per role.
type signers map[trust.Role]trust.Signer

func newSigners(t testing.TB) signers {
	s := signers{}
	for _, role := range trust.Roles() {
		key := got(identity.NewKey())(t)
		s[role] = got(trust.NewSigner(key))(t)
	}
	return s
}

func wallNow() clock.Instant { return clock.FromTime(time.Now()) }

func (s signers) root(t testing.TB) []byte { return s.rootOf(t, 1, s) }

// rootOf is a version of the root, of the epoch of the same number, which the
// holders of before sign too.
func (s signers) rootOf(t testing.TB, version uint64, before signers) []byte {
	spec := map[trust.Role]trust.RoleSpec{}
	for role, signer := range s {
		spec[role] = trust.RoleSpec{Keys: []ed25519.PublicKey{signer.Public()}, Threshold: 1}
	}
	now := wallNow()
	r := got(trust.NewRoot(fleet.Document{Fleet: testFleet, Epoch: version, Version: version, IssuedAt: now}, now.Add(365*clock.Day), spec))(t)
	env := got(trust.SignRoot(r, s[trust.RoleRoot]))(t)
	if version > 1 {
		env = got(trust.AddSignatures(env, before[trust.RoleRoot]))(t)
	}
	return env
}

// pack is a bundle with its blobs.
type pack struct {
	bundle fleet.Bundle
	raw    []byte
	digest digest.Digest
	blobs  map[digest.Digest][]byte
}

// file describes a file of a bundle; content "" is an empty file.
type file struct {
	path, content string
	mode          uint32
}

func newPack(t testing.TB, name string, files []file, execs ...fleet.Exec) pack {
	p := pack{bundle: fleet.Bundle{Type: fleet.TypeBundle, Name: name}, blobs: map[digest.Digest][]byte{}}
	for _, f := range files {
		d := digest.Of([]byte(f.content))
		if f.mode == 0 {
			f.mode = 0o644
		}
		p.blobs[d] = []byte(f.content)
		p.bundle.Files = append(p.bundle.Files, fleet.File{Path: f.path, Mode: f.mode, Blob: d, Size: int64(len(f.content))})
	}
	p.bundle.Exec = execs
	p.raw = got(trust.Canonical(p.bundle))(t)
	p.digest = digest.Of(p.raw)
	return p
}

// release is one version of a fleet's documents.
type release struct {
	version   uint64
	manifest  fleet.Manifest
	leaves    [][]byte
	tree      *trust.Tree
	envelope  []byte
	digest    digest.Digest
	resolved  []byte
	stamp     []byte
	stampedAt clock.Instant
}

// plan is what a test wants of a release.
type plan struct {
	version uint64
	ref     string
	targets map[string]digest.Digest // by host
	hosts   []string                 // sorted
	probes  []fleet.Probe
	policy  fleet.Policy
	soak    clock.Duration
	issued  clock.Instant // of the timestamp; zero is now
	epoch   uint64        // zero is 1
	window  clock.Duration
	windows []window.Window // maintenance windows of every host
}

// confirmWindow is longer than any test waits, so that only a pushed clock ends it.
const confirmWindow = 10 * clock.Minute

func defaultPolicy() fleet.Policy {
	return fleet.Policy{
		Name: "test", OnHealthFailure: fleet.RollbackAndHalt, ConfirmWindow: confirmWindow,
		ActivationDeadline: 10 * clock.Minute, SustainedFailure: 30 * clock.Second, GrantExpiry: 10 * clock.Minute,
	}
}

func (s signers) release(t testing.TB, p plan) release {
	r := release{version: p.version, stampedAt: p.issued}
	if r.stampedAt == 0 {
		r.stampedAt = wallNow()
	}
	doc := func(docType string) fleet.Document {
		return fleet.Document{Type: docType, Fleet: testFleet, Epoch: max(p.epoch, 1), Version: p.version, IssuedAt: r.stampedAt}
	}
	var probes []int
	for i := range p.probes {
		probes = append(probes, i)
	}
	var windows []int
	for i := range p.windows {
		windows = append(windows, i)
	}
	for _, h := range p.hosts {
		r.leaves = append(r.leaves, got(trust.Canonical(fleet.Leaf{Host: h, Target: p.targets[h], Probes: probes, Budgets: []int{}, After: []string{}, Windows: windows}))(t))
	}
	r.tree = trust.NewTree(r.leaves)
	r.manifest = fleet.Manifest{
		Document: doc(fleet.TypeManifest), Channel: "stable", Ref: p.ref, Policy: p.policy,
		Waves: []fleet.Wave{{Name: "all", Soak: p.soak, Hosts: len(p.hosts)}}, Probes: p.probes,
		Budgets: []fleet.Budget{}, LeavesRoot: hex.EncodeToString(r.tree.Root()), LeafCount: len(p.hosts),
		FleetResolvedHash: digest.Of([]byte("plan")), Windows: p.windows,
	}
	if len(p.windows) > 0 {
		r.manifest.Critical = []string{fleet.CriticalWindows}
	}
	payload := got(trust.Canonical(r.manifest))(t)
	r.digest = digest.Of(payload)
	r.envelope = got(trust.Sign(fleet.TypeManifest, payload, s[trust.RoleRelease]))(t)
	if p.window == 0 {
		p.window = clock.Hour
	}
	resolved := fleet.Resolved{
		Document: doc(fleet.TypeResolved), Ref: p.ref, Roster: digest.Of([]byte("roster")), Revocations: digest.Of([]byte("revocations")),
		Channels: map[string]fleet.ResolvedChannel{"stable": {
			Ref: p.ref, FreshnessWindow: p.window, SigningInterval: p.window / 2, ReconcileInterval: clock.Second, OnNewRef: fleet.Queue,
			Manifests: []fleet.ManifestRef{{Rollout: r.manifest.Rollout(), Digest: r.digest, Version: p.version}},
		}},
		ChannelEdges: []fleet.ChannelEdge{},
	}
	resolvedPayload := got(trust.Canonical(resolved))(t)
	r.resolved = got(trust.Sign(fleet.TypeResolved, resolvedPayload, s[trust.RoleRelease]))(t)
	stamp := fleet.Timestamp{Document: doc(fleet.TypeTimestamp), Resolved: digest.Of(resolvedPayload), ResolvedVersion: p.version}
	r.stamp = got(trust.Sign(fleet.TypeTimestamp, got(trust.Canonical(stamp))(t), s[trust.RoleTimestamp]))(t)
	return r
}

// leaf returns a host's leaf with its proof.
func (r release) leaf(t testing.TB, host string) wire.LeafProof {
	for i, raw := range r.leaves {
		if strings.Contains(string(raw), fmt.Sprintf("%q:%q", "host", host)) {
			p := got(r.tree.InclusionProof(uint64(i)))(t)
			return wire.LeafProof{Leaf: raw, Index: i, Proof: p.Hashes}
		}
	}
	t.Fatalf("no leaf for %s", host)
	return wire.LeafProof{}
}

func (s signers) token(t testing.TB, host string, root []byte) []byte {
	env := got(trust.ParseEnvelope(root))(t)
	now := wallNow()
	return got(identity.SignToken(identity.Token{
		Document: fleet.Document{Fleet: testFleet, Epoch: 1, Version: 1, IssuedAt: now},
		ID:       digest.Of([]byte(host)).Hex()[:32], Host: host, Expires: now.Add(clock.Hour), RootDigest: digest.Of(env.Payload),
	}, s[trust.RoleEnrol]))(t)
}

func canonicalBundle(t testing.TB, p pack) []byte { return got(trust.Canonical(p.bundle))(t) }
func digestOfBytes(b []byte) digest.Digest        { return digest.Of(b) }
