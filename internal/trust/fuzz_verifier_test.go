package trust

import (
	"bytes"
	"testing"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/testkit"
)

// FuzzOpen signs arbitrary payloads as any type with any role's key: Open takes
// one only as its own type, of this fleet and epoch, by its own role.
func FuzzOpen(f *testing.F) {
	k := newKeys(f, "1")
	v := begin(f, k.root(f, 1, 1))
	r := newRelease(f, k, 1, 1)
	f.Add(uint8(1), fleet.TypeManifest, []byte(canonical(f, r.manifestDoc)))
	f.Add(uint8(2), fleet.TypeManifest, []byte(canonical(f, r.manifestDoc)))
	f.Add(uint8(1), fleet.TypeResolved, []byte(canonical(f, r.manifestDoc)))
	f.Add(uint8(1), fleet.TypeManifest, []byte(`{"_type":"steady/manifest/v1","fleet":"acme","epoch":1,"version":0,"issuedAt":1}`))
	f.Add(uint8(1), fleet.TypeManifest, []byte(`{"_type":"steady/manifest/v1","Fleet":"acme","fleet":"acme","epoch":1,"version":1,"issuedAt":1}`))
	f.Fuzz(func(t *testing.T, by uint8, docType string, payload []byte) {
		role := Roles()[int(by)%len(Roles())]
		env, err := Sign(docType, payload, k[role])
		if err != nil {
			return
		}
		var m fleet.Manifest
		d, err := v.Open(RoleRelease, fleet.TypeManifest, env, &m, &m.Document)
		if err != nil {
			if CodeOf(err) == "" {
				t.Fatalf("an error without a code: %v", err)
			}
			return
		}
		if role != RoleRelease || docType != fleet.TypeManifest || d != digest.Of(payload) || m.Type != fleet.TypeManifest || m.Fleet != testFleet || m.Epoch != 1 || m.Version == 0 {
			t.Fatalf("%s signed by %s was taken as %+v", docType, role, m.Document)
		}
	})
}

// FuzzReadRoot: a root that is taken defines every role with a threshold that
// its different keys can meet, and the root made of its keys is taken too.
func FuzzReadRoot(f *testing.F) {
	k := newKeys(f, "1")
	root := smallRoot(f, 1, k)
	f.Add([]byte(canonical(f, root)))
	zero := smallRoot(f, 1, k)
	zero.Roles[RoleRoot] = RoleKeys{KeyIDs: zero.Roles[RoleRoot].KeyIDs, Threshold: 0}
	f.Add([]byte(canonical(f, zero)))
	f.Add([]byte(`{"_type":"steady/root/v1","roles":{"root":{"threshold":-1}}}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		env, err := Sign(TypeRoot, payload, k[RoleRoot])
		if err != nil {
			return
		}
		r, err := ReadRoot(env)
		if err != nil {
			if CodeOf(err) == "" {
				t.Fatalf("an error without a code: %v", err)
			}
			return
		}
		for _, role := range Roles() {
			distinct := map[string]bool{}
			for _, id := range r.Roles[role].KeyIDs {
				distinct[r.Keys[id].Public] = true
			}
			if n := r.Roles[role].Threshold; n < 1 || n > len(distinct) {
				t.Fatalf("role %s has threshold %d of %d keys", role, n, len(distinct))
			}
		}
		spec, err := r.Spec()
		testkit.Must(t, err)
		if _, err := NewRoot(r.Document, r.Expires, spec); err != nil {
			t.Fatalf("its keys make no root: %v", err)
		}
	})
}

// FuzzVerifier offers arbitrary bytes, signed by nobody or by a key of no root,
// to everything that takes a document: nothing is taken.
func FuzzVerifier(f *testing.F) {
	points := entryPoints(f)
	trusted := points["first root"].raw // is taken again, without effect
	for _, p := range points {
		f.Add(p.raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		for name, p := range points {
			err := p.check(raw)
			if err != nil && CodeOf(err) == "" {
				t.Fatalf("%s: an error without a code: %v", name, err)
			}
			if err == nil && !bytes.Equal(raw, p.raw) && !sameDocument(raw, p.raw) && !(name == "next root" && bytes.Equal(raw, trusted)) {
				t.Fatalf("%s took %q", name, raw)
			}
		}
	})
}

// sameDocument reports whether two envelopes say the same in other JSON: white
// space and unknown fields of an envelope are not signed.
func sameDocument(a, b []byte) bool {
	x, err := ParseEnvelope(a)
	if err != nil {
		return false
	}
	y, err := ParseEnvelope(b)
	return err == nil && string(PAE(x.PayloadType, x.Payload)) == string(PAE(y.PayloadType, y.Payload))
}
