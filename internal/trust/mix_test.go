package trust

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/testkit"
)

// mixed is what a host is given: each part of one of two releases.
type mixed struct {
	release

	roots [][]byte // the first is the trusted one
}

var mixParts = []struct {
	name string
	take func(to, from *mixed)
}{
	{"root", func(to, from *mixed) { to.roots = from.roots }},
	{"timestamp", func(to, from *mixed) { to.timestamp = from.timestamp }},
	{"snapshot", func(to, from *mixed) { to.resolved = from.resolved }},
	{"roster", func(to, from *mixed) { to.roster = from.roster }},
	{"revocations", func(to, from *mixed) { to.revocations = from.revocations }},
	{"manifest", func(to, from *mixed) { to.manifest = from.manifest }},
	{"leaf", func(to, from *mixed) { to.leaves = from.leaves }},
	{"proof", func(to, from *mixed) { to.proofs = from.proofs }},
	{"budget", func(to, from *mixed) { to.budget = from.budget }},
	{"bundle", func(to, from *mixed) { to.bundle = from.bundle }},
}

// scenario is two releases and what the oracle must find in their mixes.
type scenario struct {
	name string
	both [2]mixed
	// accepted is how many of the mixes a new host takes: a count by hand, so
	// that the oracle is not believed blindly either.
	accepted int
}

func scenarios(t testing.TB) []scenario {
	k := newKeys(t, "1")
	root := k.root(t, 1, 1)
	same := [][]byte{root}
	one := newRelease(t, k, 1, 1)

	// The second release changes its policy alone: leaves, proofs, budget
	// and bundle are the same bytes.
	policy := newRelease(t, k, 1, 2)
	policy.leaves, policy.bundle, policy.blob = one.leaves, one.bundle, one.blob
	policy.manifestDoc.Policy.MaxFailures = 2
	policy = policy.relink(t, k)

	// The second snapshot still lists the first manifest.
	returning := newRelease(t, k, 1, 2)
	c := returning.resolvedDoc.Channels["stable"]
	c.Manifests = append(slices.Clone(c.Manifests), one.resolvedDoc.Channels["stable"].Manifests...)
	returning.resolvedDoc.Channels = map[string]fleet.ResolvedChannel{"stable": c}
	returning = returning.snapshot(t, k)

	rotated := newKeys(t, "2")
	next := rotated.root(t, 1, 2, k[RoleRoot])
	ended := k.root(t, 2, 2)
	return []scenario{
		// Both budgets are the same bytes: each pure release counts twice; so
		// does one root for both.
		{"two releases", [2]mixed{{one, same}, {newRelease(t, k, 1, 2), same}}, 2 * 2 * 2},
		{"policy alone", [2]mixed{{one, same}, {policy, same}}, 2 << 5},
		// Timestamp, snapshot, roster and revocations of the second, with the
		// manifest and all below it of either, or all of the first.
		{"earlier still listed", [2]mixed{{one, same}, {returning, same}}, 3 * 2 * 2},
		{"new keys", [2]mixed{{one, same}, {newRelease(t, rotated, 1, 2), [][]byte{root, next}}}, 2 * 2},
		{"new epoch", [2]mixed{{one, same}, {newRelease(t, k, 2, 1), [][]byte{root, ended}}}, 2 << 4}, // of one version, so of one content
	}
}

// TestS6PartsOfTwoReleasesNeverMix gives a host every combination of the parts
// of two valid releases: a new host, and one that accepted either of them. A mix
// is accepted exactly where the newest snapshot lists each part, which an oracle
// decides that knows of hashes and names alone.
func TestS6PartsOfTwoReleasesNeverMix(t *testing.T) {
	for _, sc := range scenarios(t) {
		for seen := range 3 { // nothing, the first, the second
			t.Run(fmt.Sprintf("%s, %d seen", sc.name, seen), func(t *testing.T) {
				t.Parallel()
				start := begin(t, sc.both[0].roots[0])
				if seen > 0 {
					a := testkit.Value(sc.both[seen-1].run(start))(t)
					start = a.v
				}
				accepted, o := 0, oracle{}
				differ, known := differing(&sc.both), map[int]error{}
				for mix := range 1 << len(mixParts) {
					m := mixOf(&sc.both, mix)
					err, done := known[mix&differ]
					if !done {
						_, err = m.run(start)
						known[mix&differ] = err
					}
					if want := m.listed(t, o, sc.both, seen); (err == nil) != want {
						t.Fatalf("mix %011b (first part on the right): %v, and each part is listed: %t", mix, err, want)
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

// mixOf takes each part of the release that its bit names.
func mixOf(both *[2]mixed, mix int) (m mixed) {
	for i, part := range mixParts {
		part.take(&m, &both[mix>>i&1])
	}
	return m
}

// differing are the bits of the parts that are not the same bytes in both: mixes
// that differ in others are one mix.
func differing(both *[2]mixed) (bits int) {
	for i := range mixParts {
		if !reflect.DeepEqual(mixOf(both, 0), mixOf(both, 1<<i)) {
			bits |= 1 << i
		}
	}
	return bits
}

func (m *mixed) run(v Verifier) (accepted, error) {
	for _, root := range m.roots[1:] {
		if v.RootVersion() > 1 {
			break // the second is trusted already
		}
		s, err := v.Root(root)
		if err != nil {
			return accepted{}, err
		}
		if v, err = v.With(s); err != nil {
			return accepted{}, err
		}
	}
	return m.accept(v, day0)
}

// listed is the oracle. It reads JSON and hashes bytes, and shares no code with
// what it judges.
func (m *mixed) listed(t testing.TB, o oracle, both [2]mixed, seen int) bool {
	t.Helper()
	roots := m.roots
	if seen == 2 {
		roots = both[1].roots // a host does not forget a root
	}
	root := open[Root](t, o, roots[len(roots)-1]).doc
	stamp, snapshot := open[fleet.Timestamp](t, o, m.timestamp), open[fleet.Resolved](t, o, m.resolved)
	manifest := open[fleet.Manifest](t, o, m.manifest)
	for _, doc := range []struct {
		role  Role
		epoch uint64
		by    string
	}{{RoleTimestamp, stamp.doc.Epoch, stamp.by}, {RoleRelease, snapshot.doc.Epoch, snapshot.by}, {RoleRelease, manifest.doc.Epoch, manifest.by}} {
		if doc.epoch != root.Epoch || !slices.Contains(root.Roles[doc.role].KeyIDs, doc.by) {
			return false
		}
	}
	if seen > 0 { // nothing older than what was accepted
		newest := open[fleet.Timestamp](t, o, both[seen-1].timestamp).doc
		if stamp.doc.Epoch < newest.Epoch || stamp.doc.Epoch == newest.Epoch && stamp.doc.Version < newest.Version {
			return false
		}
	}
	listed := false
	for _, ref := range snapshot.doc.Channels[manifest.doc.Channel].Manifests {
		listed = listed || string(ref.Digest) == manifest.sum
	}
	return string(stamp.doc.Resolved) == snapshot.sum &&
		string(snapshot.doc.Roster) == sum(m.roster) &&
		string(snapshot.doc.Revocations) == sum(m.revocations) && listed &&
		manifest.doc.LeavesRoot == climb(m.leaves[1], m.proofs[1].Hashes) &&
		string(manifest.doc.Budgets[0].Members) == sum(m.budget) &&
		string(plain[fleet.Leaf](t, m.leaves[1]).Target) == sum(m.bundle)
}

// climb computes the root over three leaves from the middle one, by RFC 6962.
func climb(leaf []byte, proof [][]byte) string {
	at := sha256.Sum256(append([]byte{0}, leaf...))
	at = sha256.Sum256(bytes.Join([][]byte{{1}, proof[0], at[:]}, nil))
	at = sha256.Sum256(bytes.Join([][]byte{{1}, at[:], proof[1]}, nil))
	return hex.EncodeToString(at[:])
}

type opened[T any] struct {
	doc T
	sum string
	by  string // the key id of the first signature
}

// oracle reads each envelope once.
type oracle map[string]any

// open reads an envelope as any reader of JSON would.
func open[T any](t testing.TB, o oracle, env []byte) opened[T] {
	t.Helper()
	if known, ok := o[string(env)]; ok {
		return known.(opened[T])
	}
	var w struct {
		Payload    string
		Signatures []struct{ KeyID string }
	}
	testkit.Must(t, json.Unmarshal(env, &w))
	payload := testkit.Value(base64.StdEncoding.DecodeString(w.Payload))(t)
	found := opened[T]{doc: plain[T](t, payload), sum: sum(payload), by: w.Signatures[0].KeyID}
	o[string(env)] = found
	return found
}

func plain[T any](t testing.TB, raw []byte) (doc T) {
	t.Helper()
	testkit.Must(t, json.Unmarshal(raw, &doc))
	return doc
}

func sum(b []byte) string {
	h := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(h[:])
}
