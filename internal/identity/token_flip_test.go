package identity

import (
	"bytes"
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
	const shards = 4
	for shard := range shards {
		t.Run(fmt.Sprint(shard), func(t *testing.T) {
			t.Parallel()
			b := bytes.Clone(env)
			for bit := shard; bit < len(b)*8; bit += shards * stride() {
				b[bit/8] ^= 1 << (bit % 8)
				if got, err := VerifyToken(v, b, at); err == nil {
					t.Fatalf("bit %d flipped (%q to %q) and accepted: %+v", bit, env[bit/8], b[bit/8], got)
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
