package trust

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"maps"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/testkit"
)

func TestRootChain(t *testing.T) {
	k1, k2, k3 := newKeys(t, "1"), newKeys(t, "2"), newKeys(t, "3")
	v := begin(t, k1.root(t, 1, 1))

	for name, c := range map[string]struct {
		env  []byte
		code Code
	}{
		"signed by the new key alone": {k2.root(t, 1, 2), ManifestVerifyFailed},
		"signed by the old key alone": {envelope(t, TypeRoot, rootDoc(t, k2, 1, 2), k1[RoleRoot]), ManifestVerifyFailed},
		"a stranger signed too":       {k2.root(t, 1, 2, k1[RoleRoot], k3[RoleRoot]), ManifestVerifyFailed},
		"a version left out":          {k2.root(t, 1, 3, k1[RoleRoot]), RootInvalid},
		"the same version again":      {k2.root(t, 1, 1, k1[RoleRoot]), Rollback},
		"of another role":             {k2.root(t, 1, 2, k1[RoleRelease]), ManifestVerifyFailed},
	} {
		if _, err := v.Root(c.env); CodeOf(err) != c.code {
			t.Errorf("%s: got %v, want %s", name, err, c.code)
		}
	}

	second := k2.root(t, 2, 2, k1[RoleRoot])
	s := testkit.Value(v.Root(second))(t)
	v = testkit.Value(v.With(s))(t)
	if v.RootVersion() != 2 || v.Epoch() != 2 {
		t.Fatalf("root version %d, epoch %d", v.RootVersion(), v.Epoch())
	}
	// The same root again is no news, and a lower epoch never follows.
	if again, err := v.Root(second); err != nil || again.Marks[TypeRoot] != s.Marks[TypeRoot] {
		t.Errorf("the trusted root again: %v", err)
	}
	if _, err := v.Root(k3.root(t, 1, 3, k2[RoleRoot])); CodeOf(err) != Rollback {
		t.Errorf("a lower epoch: %v", err)
	}
	// A host may begin at a later root of the chain, by its digest.
	if _, err := Begin(testFleet, second, payloadDigest(t, second)); err != nil {
		t.Errorf("begin at root 2: %v", err)
	}
	if _, err := Begin(testFleet, second, payloadDigest(t, k1.root(t, 1, 1))); CodeOf(err) != RootInvalid {
		t.Errorf("begin with the digest of another root: %v", err)
	}
	if _, err := Begin("other", second, ""); CodeOf(err) != WrongFleet {
		t.Errorf("begin with a root of another fleet: %v", err)
	}
}

func rootDoc(t *testing.T, k keys, epoch, version uint64) Root {
	t.Helper()
	r := testkit.Value(NewRoot(head(TypeRoot, epoch, version), day0.Add(365*clock.Day), k.spec()))(t)
	return r
}

// TestThresholdVectors holds the mistakes that verifiers of this kind have made:
// one key counted twice (GHSA-pwqf-9h7j-7mv8, GHSA-5q2r-92f9-4m49) and a
// threshold of zero (GHSA-fphv-w9fq-2525).
func TestThresholdVectors(t *testing.T) {
	k := newKeys(t, "1")
	a, b, c := signer(t, "share-a"), signer(t, "share-b"), signer(t, "share-c")
	pubs := func(s ...Signer) (p []ed25519.PublicKey) {
		for _, s := range s {
			p = append(p, s.Public())
		}
		return p
	}
	for name, spec := range map[string]RoleSpec{
		"threshold 0":        {pubs(a), 0},
		"threshold negative": {pubs(a), -1},
		"more than keys":     {pubs(a), 2},
		"no keys":            {nil, 1},
		"one key twice":      {pubs(a, a), 2},
	} {
		roles := k.spec()
		roles[RoleRelease] = spec
		if _, err := NewRoot(head(TypeRoot, 1, 1), day0+1, roles); CodeOf(err) != RootInvalid {
			t.Errorf("%s: got %v, want RootInvalid", name, err)
		}
	}

	roles := k.spec()
	roles[RoleRelease] = RoleSpec{pubs(a, b, c), 2}
	doc := testkit.Value(NewRoot(head(TypeRoot, 1, 1), day0.Add(clock.Day), roles))(t)
	root := testkit.Value(SignRoot(doc, k[RoleRoot]))(t)
	v := begin(t, root)
	r := newRelease(t, keys{RoleRelease: a, RoleTimestamp: k[RoleTimestamp]}, 1, 1)
	one := r.resolved
	two := testkit.Value(AddSignatures(one, c))(t)
	ts, s, err := v.Timestamp(r.timestamp, day0)
	testkit.Must(t, err)
	v, err = v.With(s)
	testkit.Must(t, err)
	if _, _, err := v.Resolved(one, ts); CodeOf(err) != ManifestVerifyFailed {
		t.Errorf("one of two shares: %v", err)
	}
	if _, _, err := v.Resolved(two, ts); err != nil {
		t.Errorf("two of two shares: %v", err)
	}
	var w wireEnvelope
	testkit.Must(t, json.Unmarshal(one, &w))
	w.Signatures = append(w.Signatures, w.Signatures[0])
	twice, err := json.Marshal(w)
	testkit.Must(t, err)
	if _, _, err := v.Resolved(twice, ts); CodeOf(err) != Malformed {
		t.Errorf("one share twice: %v", err)
	}
	w.Signatures[1].KeyID = b.KeyID()
	renamed, err := json.Marshal(w)
	testkit.Must(t, err)
	if _, _, err := v.Resolved(renamed, ts); CodeOf(err) != ManifestVerifyFailed {
		t.Errorf("one share under two names: %v", err)
	}
}

// TestRootKeysAreNamedByTheirHash: two names for one public key would count
// twice against a threshold.
func TestRootKeysAreNamedByTheirHash(t *testing.T) {
	k := newKeys(t, "1")
	good := rootDoc(t, k, 1, 1)
	id := k[RoleRelease].KeyID()
	alias := func(change func(r *Root)) Root {
		r := good
		r.Keys, r.Roles = maps.Clone(r.Keys), maps.Clone(r.Roles)
		change(&r)
		return r
	}
	ec := testkit.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	ecDER := testkit.Value(x509.MarshalPKIXPublicKey(ec.Public()))(t)
	for name, r := range map[string]Root{
		"alias": alias(func(r *Root) {
			r.Keys["alias"] = r.Keys[id]
			r.Roles[RoleRelease] = RoleKeys{KeyIDs: []string{id, "alias"}, Threshold: 2}
		}),
		"keyid twice":              alias(func(r *Root) { r.Roles[RoleRelease] = RoleKeys{KeyIDs: []string{id, id}, Threshold: 2} }),
		"keyid twice, threshold 1": alias(func(r *Root) { r.Roles[RoleRelease] = RoleKeys{KeyIDs: []string{id, id}, Threshold: 1} }),
		"unknown keyid":            alias(func(r *Root) { r.Roles[RoleRelease] = RoleKeys{KeyIDs: []string{"x"}, Threshold: 1} }),
		"role missing":             alias(func(r *Root) { delete(r.Roles, RoleOverride) }),
		"role too many":            alias(func(r *Root) { r.Roles["witness"] = r.Roles[RoleRelease] }),
		"other alg":                alias(func(r *Root) { r.Keys[id] = RootKey{Alg: "rsa", Public: r.Keys[id].Public} }),
		"alg of message":           alias(func(r *Root) { r.Keys[id] = RootKey{Alg: "none", Public: r.Keys[id].Public} }),
		"ECDSA as Ed25519": alias(func(r *Root) {
			r.Keys[id] = RootKey{Alg: algEd25519, Public: base64.StdEncoding.EncodeToString(ecDER)}
		}),
		"never issued": alias(func(r *Root) { r.Expires = 0 }),
		"epoch zero":   alias(func(r *Root) { r.Epoch = 0 }),
		"version zero": alias(func(r *Root) { r.Version = 0 }),
		"bad fleet":    alias(func(r *Root) { r.Fleet = "../x" }),
	} {
		env := envelope(t, TypeRoot, r, k[RoleRoot])
		if _, err := Begin(testFleet, env, ""); CodeOf(err) != RootInvalid {
			t.Errorf("%s: got %v, want RootInvalid", name, err)
		}
	}
}

// TestRotatedKeyIsDead: after a rotation the old key signs nothing, and after an
// epoch bump not even its old documents count, whatever version they claim.
func TestRotatedKeyIsDead(t *testing.T) {
	k1, k2 := newKeys(t, "1"), newKeys(t, "2")
	v := begin(t, k1.root(t, 1, 1))
	// The stolen release key signs the highest version there is.
	stolen := testkit.Value(newRelease(t, k1, 1, MaxInteger).accept(v, day0))(t)
	s := testkit.Value(stolen.v.Root(k2.root(t, 2, 2, k1[RoleRoot])))(t)
	v = testkit.Value(v.With(s))(t)
	if _, err := newRelease(t, k1, 1, MaxInteger).accept(v, day0); CodeOf(err) != ManifestVerifyFailed {
		t.Errorf("the old key: %v", err)
	}
	if _, err := newRelease(t, k2, 1, 7).accept(v, day0); CodeOf(err) != Rollback {
		t.Errorf("the new key in the ended epoch: %v", err)
	}
	if _, err := newRelease(t, k2, 3, 7).accept(v, day0); CodeOf(err) != RootInvalid {
		t.Errorf("an epoch that no root has opened: %v", err)
	}
	a, err := newRelease(t, k2, 2, 1).accept(v, day0)
	if err != nil {
		t.Fatalf("version 1 of the new epoch: %v", err)
	}
	if m := a.v.State().Marks[fleet.TypeResolved]; m.Epoch != 2 || m.Version != 1 {
		t.Errorf("mark %+v", m)
	}
}
