package gate_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/gate"
)

// S23: two agents of one host would be two activations at once. A host is open
// exactly while its identity counts, and what blocks it names the way back.
func TestS23IdentityThatDoesNotCountIsHeldBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		standing := rapid.SampledFrom([]string{"", gate.Forked, gate.Revoked, gate.Decommissioned}).Draw(t, "standing")
		name := rapid.StringMatching(`[a-z][a-z0-9-]{0,20}`).Draw(t, "host")
		b := gate.CheckIdentity(name, standing, rapid.StringN(1, 40, -1).Draw(t, "reason"))
		if (b == nil) != (standing == "") {
			t.Fatalf("an identity that is %q gives %+v", standing, b)
		}
		if b != nil && (b.Detail != standing || b.Earliest != 0 || !strings.Contains(b.ClearedBy, "steady token create "+name)) {
			t.Fatalf("an identity that is %q is held by %+v", standing, b)
		}
	})
}
