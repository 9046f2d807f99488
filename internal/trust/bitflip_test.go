package trust

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/testkit"
)

// padded is the size of a document whose every bit is flipped, in bytes.
const padded = 4096

// pad makes a payload n bytes long by a field that no reader knows: nothing but
// the signature or the digest covers it.
func pad(t testing.TB, payload []byte, n int) []byte {
	t.Helper()
	const field = `,"padding":""}`
	fill := n - len(payload) - len(field) + 1
	if fill < 0 {
		t.Fatalf("a payload of %d bytes does not fit into %d", len(payload), n)
	}
	out := append(bytes.Clone(payload[:len(payload)-1]), `,"padding":"`...)
	return append(append(out, strings.Repeat("p", fill)...), `"}`...)
}

// padEnvelope signs doc in an envelope of padded bytes, or up to two fewer:
// base64 goes in steps of four and its last one may end in padding.
func padEnvelope(t testing.TB, docType string, doc any, by ...Signer) []byte {
	t.Helper()
	payload := canonical(t, doc)
	bare := testkit.Value(Sign(docType, payload, by...))(t)
	frame := len(bare) - (len(payload)+2)/3*4
	env := testkit.Value(Sign(docType, pad(t, payload, (padded-frame)/4*3), by...))(t)
	if len(env) < padded-3 || len(env) > padded {
		t.Fatalf("%s: an envelope of %d bytes", docType, len(env))
	}
	return env
}

// paddedRelease is a release each document of which has padded bytes.
func paddedRelease(t testing.TB, k keys) release {
	t.Helper()
	r := newRelease(t, k, 1, 1)
	r.blob = []byte(strings.Repeat("b", padded))
	r.bundle = pad(t, canonical(t, fleet.Bundle{Type: fleet.TypeBundle, Name: "web",
		Files: []fleet.File{{Path: "etc/app.conf", Mode: 0o644, Blob: digest.Of(r.blob), Size: padded}}}), padded)
	r.leaves = nil
	for i, h := range testHosts {
		r.leaves = append(r.leaves, pad(t, canonical(t, fleet.Leaf{Host: h, Wave: min(i, 1), Target: digest.Of(r.bundle)}), padded))
	}
	tree := NewTree(r.leaves)
	for i := range r.leaves {
		p := testkit.Value(tree.InclusionProof(uint64(i)))(t)
		r.proofs[i] = p
	}
	r.budget = pad(t, r.budget, padded)
	r.manifestDoc.Budgets[0].Members = digest.Of(r.budget)
	r.manifestDoc.LeavesRoot = hex.EncodeToString(tree.Root())
	r.manifest = padEnvelope(t, fleet.TypeManifest, r.manifestDoc, k[RoleRelease])
	r.roster, r.revocations = pad(t, r.roster, padded), pad(t, r.revocations, padded)
	r.resolvedDoc.Roster, r.resolvedDoc.Revocations = digest.Of(r.roster), digest.Of(r.revocations)
	r.resolvedDoc.Channels["stable"].Manifests[0].Digest = payloadDigest(t, r.manifest)
	r.resolved = padEnvelope(t, fleet.TypeResolved, r.resolvedDoc, k[RoleRelease])
	r.timestamp = padEnvelope(t, fleet.TypeTimestamp, fleet.Timestamp{Document: head(fleet.TypeTimestamp, 1, 1),
		Resolved: payloadDigest(t, r.resolved), ResolvedVersion: 1}, k[RoleTimestamp])
	return r
}

// entryPoint is one way a document comes in.
type entryPoint struct {
	docType string // its type constant, or "" for bytes that have none
	raw     []byte
	check   func([]byte) error
}

// smallRoot keeps every role but the root's own on one key: more keys do not
// leave room for padding.
func smallRoot(t testing.TB, version uint64, by keys) Root {
	t.Helper()
	r := testkit.Value(NewRoot(head(TypeRoot, 1, version), day0.Add(365*clock.Day), by.spec()))(t)
	return r
}

func entryPoints(t testing.TB) map[string]entryPoint {
	t.Helper()
	return entryPointsOf(t, func(generation string) keys { return newKeys(t, generation) })
}

func entryPointsOf(t testing.TB, make func(generation string) keys) map[string]entryPoint {
	t.Helper()
	k, after := make("1"), make("2")
	for _, role := range Roles() {
		if role != RoleRoot {
			after[role] = k[RoleRelease]
		}
	}
	first := padEnvelope(t, TypeRoot, smallRoot(t, 1, k), k[RoleRoot])
	next := padEnvelope(t, TypeRoot, smallRoot(t, 2, after), k[RoleRoot], after[RoleRoot])
	v := begin(t, first)
	r := paddedRelease(t, k)
	a := testkit.Value(r.accept(v, day0))(t)
	entry := fleet.ManagedEntry{Document: head(fleet.TypeManagedEntry, 1, 3), Host: "web-1", Kind: "workspace", Name: "tool", Spec: `{"image":"x"}`}
	word := pause()
	word.Type, word.Version = fleet.TypeOverride, uint64(word.IssuedAt)
	payload := testkit.Value(Payload(a.manifest, r.manifest))(t)
	want := payloadDigest(t, first)
	const system = "/nix/store/00000000000000000000000000000000-system"
	closure := pad(t, canonical(t, fleet.Closure{Type: fleet.TypeClosure, Paths: []fleet.StorePath{{Path: system, NarHash: want, NarSize: 2, Content: want, Size: 1, Compression: "xz", References: []string{}}}}), padded)
	nix := &fleet.Nix{Path: system, Paths: &spec.Blob{Digest: digest.Of(closure), Size: padded}}
	return map[string]entryPoint{
		"closure":     {fleet.TypeClosure, closure, func(b []byte) error { _, err := ReadClosure(nix, b); return err }},
		"first root":  {TypeRoot, first, func(b []byte) error { _, err := Begin(testFleet, b, want); return err }},
		"next root":   {TypeRoot, next, func(b []byte) error { _, err := v.Root(b); return err }},
		"root draft":  {TypeRoot, next, func(b []byte) error { return signedDraft(v, b) }},
		"timestamp":   {fleet.TypeTimestamp, r.timestamp, func(b []byte) error { _, _, err := v.Timestamp(b, day0); return err }},
		"resolved":    {fleet.TypeResolved, r.resolved, func(b []byte) error { _, _, err := v.Resolved(b, a.timestamp); return err }},
		"manifest":    {fleet.TypeManifest, r.manifest, func(b []byte) error { _, _, err := v.Manifest(b, a.resolved); return err }},
		"recall":      {fleet.TypeManifest, payload, func(b []byte) error { _, err := a.v.Recall(b); return err }},
		"roster":      {fleet.TypeRoster, r.roster, func(b []byte) error { _, _, err := v.Roster(b, a.resolved); return err }},
		"revocations": {fleet.TypeRevocations, r.revocations, func(b []byte) error { _, _, err := v.Revocations(b, a.resolved); return err }},
		"budget":      {fleet.TypeBudget, r.budget, func(b []byte) error { _, err := v.Budget(a.manifest, 0, b); return err }},
		"bundle":      {fleet.TypeBundle, r.bundle, func(b []byte) error { _, err := v.Bundle(a.plan, b); return err }},
		"managed":     {fleet.TypeManagedEntry, padEnvelope(t, fleet.TypeManagedEntry, entry, k[RoleOverride]), func(b []byte) error { _, err := v.ManagedEntry(b, "web-1"); return err }},
		"override":    {fleet.TypeOverride, padEnvelope(t, fleet.TypeOverride, word, k[RoleOverride]), func(b []byte) error { _, err := v.Override(b, day0); return err }},
		"leaf":        {"", r.leaves[1], func(b []byte) error { _, err := v.HostPlan(a.manifest, b, r.proofs[1], "web-1"); return err }},
		"leaves": {"", r.leaves[1], func(b []byte) error {
			_, _, err := v.Leaves(a.manifest, [][]byte{r.leaves[0], b, r.leaves[2]})
			return err
		}},
	}
}

// signedDraft refuses a draft that lacks a signature: one flip in the word
// "signatures" makes it a draft that nobody signed yet, of the same root.
func signedDraft(v Verifier, raw []byte) error {
	d, err := v.Draft(raw)
	if err == nil && !d.Complete() {
		err = refuse(RootInvalid, "signatures are missing")
	}
	return err
}

// elsewhere names the tests that flip the types which this package does not read.
var elsewhere = map[string]string{
	"steady/token/v1":      "../identity/token_flip_test.go TestEverySingleBitFlipOfATokenIsRefused",
	"steady/node-token/v1": "../identity/token_flip_test.go TestEverySingleBitFlipOfANodeTokenIsRefused",
	"steady/controls/v1":   "../release/controls_flip_test.go TestEverySingleBitFlipOfControlsIsRefused",
}

// TestEveryTypeIsFlipped finds every type of document that the module declares:
// each is in the table of entry points, or flipped by a test that is named here.
func TestEveryTypeIsFlipped(t *testing.T) {
	flipped := map[string]bool{}
	for _, p := range entryPoints(t) {
		flipped[p.docType] = true
	}
	for docType, where := range elsewhere {
		file, test, _ := strings.Cut(where, " ")
		src := testkit.Value(os.ReadFile(file))(t)
		flipped[docType] = strings.Contains(string(src), "func "+test+"(t *testing.T)")
	}
	declared := documentTypes(t)
	if len(declared) < 10 {
		t.Fatalf("only %v found: the test looks in the wrong place", declared)
	}
	for docType, name := range declared {
		if !flipped[docType] {
			t.Errorf("%s (%s) is not in the table of entry points: add a row that flips every bit of it", docType, name)
		}
	}
}

// documentTypes finds the constants Type… with a value "steady/…", by value.
func documentTypes(t testing.TB) map[string]string {
	t.Helper()
	found := map[string]string{}
	testkit.Must(t, filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			g, ok := decl.(*ast.GenDecl)
			if !ok || g.Tok != token.CONST {
				continue
			}
			for _, spec := range g.Specs {
				spec := spec.(*ast.ValueSpec)
				for i, id := range spec.Names {
					if !strings.HasPrefix(id.Name, "Type") || i >= len(spec.Values) {
						continue
					}
					lit, ok := spec.Values[i].(*ast.BasicLit)
					if value, err := strconv.Unquote(text(lit, ok)); err == nil && strings.HasPrefix(value, "steady/") {
						found[value] = name + ": " + id.Name
					}
				}
			}
		}
		return nil
	}))
	return found
}

func text(lit *ast.BasicLit, ok bool) string {
	if !ok {
		return ""
	}
	return lit.Value
}

// TestEverySingleBitFlipIsRefused is exhaustive over 4 KiB of each type of
// document, wherever it comes in.
func TestEverySingleBitFlipIsRefused(t *testing.T) {
	for name, p := range entryPoints(t) {
		if err := p.check(p.raw); err != nil {
			t.Fatalf("%s: the unchanged document is refused: %v", name, err)
		}
		const shards = 4
		for shard := range shards {
			t.Run(fmt.Sprintf("%s %d", name, shard), func(t *testing.T) {
				t.Parallel()
				b := bytes.Clone(p.raw)
				for bit := shard; bit < len(b)*8; bit += shards * stride() {
					b[bit/8] ^= 1 << (bit % 8)
					if p.check(b) == nil {
						t.Fatalf("bit %d flipped (%q to %q) and accepted", bit, p.raw[bit/8], b[bit/8])
					}
					b[bit/8] = p.raw[bit/8]
				}
			})
		}
	}
}

// stride is 1 in the long run: every bit. Others take every seventh, which is some bit of
// nearly each byte.
func stride() int {
	if testkit.Nightly() {
		return 1
	}
	return 7
}
