package daemon

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/testkit/testfleet"
	"github.com/steadyfleet/steady/internal/trust"
	"github.com/steadyfleet/steady/internal/wire"
)

const testFleet = testfleet.Name

// signers are the keys of the fleet and sign releases that a test describes document by document.
type signers struct{ testfleet.Keys }

func newSigners() signers { return signers{testfleet.NewKeys("")} }

func (s signers) sign(t testing.TB, role trust.Role, docType string, doc any) ([]byte, digest.Digest) {
	t.Helper()
	env, name, err := s.Sign(role, docType, doc)
	testkit.Must(t, err)
	return env, name
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
	p.raw = testkit.Value(trust.Canonical(p.bundle))(t)
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
	windows []clock.Window // maintenance windows of every host
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
		r.stampedAt = testfleet.Now()
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
		r.leaves = append(r.leaves, testkit.Value(trust.Canonical(fleet.Leaf{Host: h, Target: p.targets[h], Probes: probes, Budgets: []int{}, After: []string{}, Windows: windows}))(t))
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
	r.envelope, r.digest = s.sign(t, trust.RoleRelease, fleet.TypeManifest, r.manifest)
	if p.window == 0 {
		p.window = clock.Hour
	}
	resolved := fleet.Resolved{
		Document: doc(fleet.TypeResolved), Ref: p.ref, Roster: digest.Of([]byte("roster")), Revocations: digest.Of([]byte("revocations")),
		Channels: map[string]fleet.ResolvedChannel{"stable": {
			Ref: p.ref, FreshnessWindow: p.window, SigningInterval: p.window / 2, ReconcileInterval: clock.Second, OnNewRef: fleet.Queue,
			Manifests: []fleet.ManifestRef{{Rollout: r.manifest.Rollout(), Digest: r.digest, Version: p.version}},
		}},
		ChannelEdges: []fleet.Edge{},
	}
	var named digest.Digest
	r.resolved, named = s.sign(t, trust.RoleRelease, fleet.TypeResolved, resolved)
	r.stamp, _ = s.sign(t, trust.RoleTimestamp, fleet.TypeTimestamp, fleet.Timestamp{Document: doc(fleet.TypeTimestamp), Resolved: named, ResolvedVersion: p.version})
	return r
}

// leaf returns a host's leaf with its proof.
func (r release) leaf(t testing.TB, host string) wire.LeafProof {
	for i, raw := range r.leaves {
		if strings.Contains(string(raw), fmt.Sprintf("%q:%q", "host", host)) {
			p := testkit.Value(r.tree.InclusionProof(uint64(i)))(t)
			return wire.LeafProof{Leaf: raw, Index: i, Proof: p.Hashes}
		}
	}
	t.Fatalf("no leaf for %s", host)
	return wire.LeafProof{}
}
