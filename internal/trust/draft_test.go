package trust

import (
	"crypto/ed25519"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/testkit"
)

// TestFirstDraftIsARootWhenComplete: whoever of the holders signs a first root, its
// draft is complete exactly when it is taken as a root of trust, and a stranger's
// signature refuses it.
func TestFirstDraftIsARootWhenComplete(t *testing.T) {
	holders := []Signer{signer(t, "a"), signer(t, "b"), signer(t, "c"), signer(t, "d")}
	k := newKeys(t, "first")
	rapid.Check(t, func(rt *rapid.T) {
		spec := k.spec()
		n := rapid.IntRange(1, 3).Draw(rt, "holders")
		role := RoleSpec{Threshold: rapid.IntRange(1, n).Draw(rt, "threshold")}
		for _, h := range holders[:n] {
			role.Keys = append(role.Keys, h.Public())
		}
		spec[RoleRoot] = role
		r := testkit.Value(NewRoot(head(TypeRoot, 1, 1), day0.Add(clock.Day), spec))(t)
		raw := testkit.Value(NewDraft(r))(t)
		who := rapid.Permutation(holders[:n]).Draw(rt, "who")[:rapid.IntRange(0, n).Draw(rt, "signed")]
		for _, h := range who {
			d, err := FirstDraft(raw)
			testkit.Must(t, err)
			if raw, err = d.Sign(h); err != nil {
				rt.Fatal(err)
			}
			if _, err := d.Sign(holders[3]); CodeOf(err) != RootInvalid {
				rt.Fatalf("a stranger may sign: %v", err)
			}
		}
		d := testkit.Value(FirstDraft(raw))(t)
		_, taken := Begin(testFleet, raw, d.Digest)
		if !d.First() || d.Complete() != (taken == nil) || d.Complete() != (len(who) >= role.Threshold) {
			rt.Fatalf("%d of %d signed: complete %t, taken: %v", len(who), role.Threshold, d.Complete(), taken)
		}
		e := d.env
		e.Signatures = append(slices.Clone(e.Signatures), Signature{KeyID: holders[3].KeyID(), Sig: make([]byte, ed25519.SignatureSize)})
		stray := testkit.Value(e.encode())(t)
		if _, err := FirstDraft(stray); CodeOf(err) != ManifestVerifyFailed {
			rt.Fatalf("a stray signature: %v", err)
		}
	})
	if _, err := FirstDraft(k.root(t, 1, 2)); CodeOf(err) != RootInvalid {
		t.Errorf("root version 2 as a first one: %v", err)
	}
}
