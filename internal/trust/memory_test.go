package trust

import (
	"bytes"
	"crypto"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/testkit"
)

// TestS32MemoryAnswersAsNone has one verifier with a memory and one without be given
// the same documents in any order, again and again: of two releases and two roots,
// whole, with a bit flipped, signed by another, or with the signature of another one.
func TestS32MemoryAnswersAsNone(t *testing.T) {
	k, other := newKeys(t, "1"), newKeys(t, "2")
	roots := [][]byte{k.root(t, 1, 1), other.root(t, 1, 1)}
	var docs [][]byte
	for _, r := range []release{newRelease(t, k, 1, 1), newRelease(t, other, 1, 1)} {
		docs = append(docs, r.timestamp, r.resolved, r.manifest)
	}
	for i := range 3 { // what one key signed under the signature of the other
		a := testkit.Value(ParseEnvelope(docs[i]))(t)
		b := testkit.Value(ParseEnvelope(docs[i+3]))(t)
		b.Signatures[0].KeyID, b.Payload = a.Signatures[0].KeyID, a.Payload
		env := testkit.Value(b.encode())(t)
		docs = append(docs, env)
	}
	said := map[bool]int{}
	rapid.Check(t, func(t *rapid.T) {
		var m Memory
		for range rapid.IntRange(1, 12).Draw(t, "checks") {
			root := bytes.Clone(rapid.SampledFrom(roots).Draw(t, "root"))
			doc := bytes.Clone(rapid.SampledFrom(docs).Draw(t, "document"))
			for _, b := range [][]byte{root, doc} {
				if rapid.IntRange(0, 3).Draw(t, "torn") == 0 {
					b[rapid.IntRange(0, len(b)-1).Draw(t, "byte")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
				}
			}
			with, without := opens(&m, root, doc), opens(nil, root, doc)
			said[without == ""]++
			if with != without {
				t.Fatalf("with a memory: %q; without: %q", with, without)
			}
		}
	})
	if said[true] == 0 || said[false] == 0 {
		t.Fatalf("%d documents were taken and %d refused: nothing is shown", said[true], said[false])
	}
}

// opens says why a document is refused under a root, or nothing.
func opens(m *Memory, root, doc []byte) string {
	v, err := m.NewVerifier(testFleet, State{Root: root})
	if err != nil {
		return fmt.Sprint("root: ", err)
	}
	if _, err := m.NewVerifier("another", State{Root: root}); err == nil {
		return "the root is good for another fleet"
	}
	why := ""
	for _, docType := range []string{fleet.TypeTimestamp, fleet.TypeResolved, fleet.TypeManifest} {
		role := RoleRelease
		if docType == fleet.TypeTimestamp {
			role = RoleTimestamp
		}
		var head fleet.Document
		if _, err := v.Open(role, docType, doc, &head, &head); err == nil {
			return ""
		} else {
			why += err.Error() + "; "
		}
	}
	return why
}

// TestMemoryIsBounded fills a memory with more than it keeps.
func TestMemoryIsBounded(t *testing.T) {
	s, m := signer(t, "a"), &Memory{}
	for i := range maxKnown + 2 {
		message := fmt.Append(nil, i)
		sig := testkit.Value(s.key.Sign(nil, message, crypto.Hash(0)))(t)
		for range 2 {
			if !m.knows(s.pub, message, sig) || len(m.known) > maxKnown {
				t.Fatalf("signature %d does not hold, or %d are kept", i, len(m.known))
			}
		}
		if m.knows(s.pub, append(message, '!'), sig) {
			t.Fatal("a signature holds for another message")
		}
	}
	for i := range maxRoots + 2 {
		k := newKeys(t, fmt.Sprint(i))
		if _, err := m.NewVerifier(testFleet, State{Root: k.root(t, 1, 1)}); err != nil || len(m.roots) > maxRoots {
			t.Fatalf("%v; %d roots are kept", err, len(m.roots))
		}
	}
}
