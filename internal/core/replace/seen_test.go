package replace_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/replace"
)

// TestS36BesideAreTheNamesOfReplacements: of all names that a container of a workspace
// is given, those beside its own say so, whatever its title.
func TestS36BesideAreTheNamesOfReplacements(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		title := rapid.StringMatching(`[a-z]{1,4}(\.[a-z]{1,4}|-[0-9]){0,2}`).Draw(t, "title")
		replica := rapid.IntRange(1, 1<<20).Draw(t, "replica")
		role := rapid.SampledFrom([]replace.Role{replace.Main, replace.New, replace.Old}).Draw(t, "role")
		name := replace.Name(title, replica, role)
		if got := replace.IsReplacement(name); got != (role != replace.Main) {
			t.Fatalf("%s of role %s is beside: %t", name, role, got)
		}
	})
}
