package identity

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/testkit"
)

type chained struct {
	At   clock.Instant
	Type string
	Body []byte
}

func run(c Chain, events []chained) Chain {
	for _, e := range events {
		c = c.Next(e.At, e.Type, e.Body)
	}
	return c
}

// TestChainCoversEverything: two different histories never have the same hash.
func TestChainCoversEverything(t *testing.T) {
	event := rapid.Custom(func(t *rapid.T) chained {
		return chained{clock.Instant(rapid.Int64Range(0, 3).Draw(t, "at")),
			rapid.StringMatching(`[ab]{0,2}`).Draw(t, "type"), []byte(rapid.StringMatching(`[ab]{0,2}`).Draw(t, "body"))}
	})
	same := func(a, b []chained) bool {
		if len(a) != len(b) {
			return false
		}
		for i := range a {
			if a[i].At != b[i].At || a[i].Type != b[i].Type || !bytes.Equal(a[i].Body, b[i].Body) {
				return false
			}
		}
		return true
	}
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.SliceOfN(event, 0, 3).Draw(t, "a")
		b := rapid.SliceOfN(event, 0, 3).Draw(t, "b")
		g := Genesis(testFleet, "web-1", 1)
		x, y := run(g, a), run(g, b)
		if x.Seq != uint64(len(a)) {
			t.Fatalf("%d events, number %d", len(a), x.Seq)
		}
		if (x == y) != same(a, b) {
			t.Fatalf("%v and %v: %x %x", a, b, x.Hash, y.Hash)
		}
	})
	seen := map[Chain]bool{}
	for _, g := range []Chain{Genesis("a", "b", 1), Genesis("b", "a", 1), Genesis("ab", "", 1), Genesis("", "ab", 1), Genesis("a", "b", 2)} {
		if seen[g] {
			t.Error("two hosts or incarnations begin alike")
		}
		seen[g] = true
	}
}

// TestChainFormat holds the format still: hosts and servers of different
// versions must agree on it.
func TestChainFormat(t *testing.T) {
	c := Genesis("acme", "web-1", 1).Next(1_700_000_000_000, "HostConverged", []byte(`{"x":1}`))
	const want = "cd1e3da57a0893ef6723bf3921353cc1db429d2877e4b60c5c7b303efab9eb5c"
	if got := hex.EncodeToString(c.Hash[:]); got != want {
		t.Errorf("got %s", got)
	}
}

func TestHeadSignature(t *testing.T) {
	key := newKey(t)
	pub := key.Public().(ed25519.PublicKey)
	head := Genesis(testFleet, "web-1", 1).Next(1, "x", nil)
	sig := testkit.Value(SignHead(key, testFleet, "web-1", 1, head))(t)
	testkit.Must(t, VerifyHead(pub, testFleet, "web-1", 1, head, sig))
	later, forked := head, head
	later.Seq++
	forked.Hash[0] ^= 1
	stranger := newKey(t).Public().(ed25519.PublicKey)
	for name, err := range map[string]error{
		"fleet":       VerifyHead(pub, "other", "web-1", 1, head, sig),
		"host":        VerifyHead(pub, testFleet, "web-2", 1, head, sig),
		"incarnation": VerifyHead(pub, testFleet, "web-1", 2, head, sig),
		"number":      VerifyHead(pub, testFleet, "web-1", 1, later, sig),
		"hash":        VerifyHead(pub, testFleet, "web-1", 1, forked, sig),
		"key":         VerifyHead(stranger, testFleet, "web-1", 1, head, sig),
		"no key":      VerifyHead(nil, testFleet, "web-1", 1, head, sig),
		"no sig":      VerifyHead(pub, testFleet, "web-1", 1, head, nil),
	} {
		if err == nil {
			t.Errorf("another %s is accepted", name)
		}
	}
	for bit := range len(sig) * 8 {
		b := bytes.Clone(sig)
		b[bit/8] ^= 1 << (bit % 8)
		if VerifyHead(pub, testFleet, "web-1", 1, head, b) == nil {
			t.Fatalf("bit %d flipped and accepted", bit)
		}
	}
	if _, err := SignHead(authority(t, Hosts, testFleet).key, testFleet, "web-1", 1, head); err == nil {
		t.Error("a P-256 key signs events")
	}
}
