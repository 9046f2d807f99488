package plan

import (
	"testing"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/host"
)

// S24: a restored log counts its grants from an earlier number. What a host
// holds of the lost ones must not be taken for what is granted now.
func TestS24GrantsOfAnotherManifestHaveAnotherName(t *testing.T) {
	one, two := digest.Of([]byte("one")), digest.Of([]byte("two"))
	seen := map[string]bool{}
	const most = 1 << 53 // what JSON keeps whole
	for _, d := range []digest.Digest{one, two} {
		for _, p := range []host.Purpose{host.Update, host.Rollback, host.Repair, host.Reboot} {
			for _, run := range []string{"", Run(most, "aaaaaa"), Run(most, "aaaaab"), Run(most-1, "aaaaaa")} {
				name := grantName(most, run, d, p)
				if seen[name] {
					t.Errorf("%s is the name of two grants", name)
				}
				seen[name] = true
				if len(name) > 64 {
					t.Errorf("%s has %d bytes; a claim takes 64", name, len(name))
				}
				if RunOf(name) != run {
					t.Errorf("%s is of run %q, not %q", name, RunOf(name), run)
				}
			}
		}
	}
}
