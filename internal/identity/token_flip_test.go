package identity

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/trust"
)

// TestEverySingleBitFlipOfATokenIsRefused is exhaustive over a token of 4 KiB,
// padded by a field that no reader knows.
func TestEverySingleBitFlipOfATokenIsRefused(t *testing.T) {
	e := newEnrolment(t)
	parsed := testkit.Value(trust.ParseEnvelope(e.sign(t)))(t)
	payload := append(bytes.TrimSuffix(parsed.Payload, []byte("}")), fmt.Sprintf(`,"padding":"%s"}`, strings.Repeat("p", 2530))...)
	env, err := trust.Sign(TypeToken, payload, e.signers[trust.RoleEnrol])
	if err != nil || len(env) < 4000 {
		t.Fatalf("%d bytes, %v", len(env), err)
	}
	v, at := e.verifier(t), clock.FromTime(now)
	if _, err := VerifyToken(v, env, at); err != nil {
		t.Fatalf("the unchanged token is refused: %v", err)
	}
	flip(t, env, func(b []byte) error { _, err := VerifyToken(v, b, at); return err })
}

// TestEverySingleBitFlipOfANodeTokenIsRefused is exhaustive over a node's token.
func TestEverySingleBitFlipOfANodeTokenIsRefused(t *testing.T) {
	e := newEnrolment(t)
	v, at := e.verifier(t), clock.FromTime(now)
	token := NodeToken{Document: e.token.Document, ID: e.token.ID, Node: "gw-1", Expires: e.token.Expires}
	env := testkit.Value(SignNodeToken(token, e.signers[trust.RoleEnrol]))(t)
	key := make(ed25519.PublicKey, ed25519.PublicKeySize)
	verify := func(b []byte) error { _, err := VerifyNodeToken(v, b, at, "gw-1", key); return err }
	if err := verify(env); err != nil {
		t.Fatalf("the unchanged token is refused: %v", err)
	}
	flip(t, env, verify)
}

// flip has every bit of a document turned, one at a time: each has to be refused.
func flip(t *testing.T, env []byte, verify func([]byte) error) {
	t.Helper()
	const shards = 4
	for shard := range shards {
		t.Run(fmt.Sprint(shard), func(t *testing.T) {
			t.Parallel()
			b := bytes.Clone(env)
			for bit := shard; bit < len(b)*8; bit += shards * stride() {
				b[bit/8] ^= 1 << (bit % 8)
				if verify(b) == nil {
					t.Fatalf("bit %d flipped (%q to %q) and accepted", bit, env[bit/8], b[bit/8])
				}
				b[bit/8] = env[bit/8]
			}
		})
	}
}

// stride is 1: every bit. Short runs, such as those of the race detector, take
// every seventh.
func stride() int {
	if testing.Short() {
		return 7
	}
	return 1
}
