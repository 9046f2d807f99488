package control

import (
	"testing"

	"pgregory.net/rapid"
)

// Whatever hosts say of themselves, metrics have a bounded number of versions, each host
// counts once, and what most hosts run is named.
func TestVersionsAreBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.MapOfN(rapid.StringMatching(`[0-9.]{1,4}|other`), rapid.IntRange(1, 9), 0, 3*maxVersions).Draw(t, "versions")
		all, most := 0, ""
		for v, c := range n {
			all += c
			if c > n[most] {
				most = v
			}
		}
		few := fewVersions(n)
		sum := 0
		for _, c := range few {
			sum += c
		}
		if len(few) > maxVersions || sum != all || most != otherVersions && few[most] < n[most] && n[most] > 1 && countAtLeast(n, n[most]) < maxVersions {
			t.Fatalf("%d versions with %d hosts of %d; most run %q: %v", len(few), sum, all, most, few)
		}
	})
}

func countAtLeast(n map[string]int, least int) (count int) {
	for _, c := range n {
		if c >= least {
			count++
		}
	}
	return count
}
