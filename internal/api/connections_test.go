package api

import (
	"testing"

	"pgregory.net/rapid"
)

// TestOneAddressNeverTakesAll: however one address comes and goes, never more are open
// than allowed, and whoever has none gets in.
func TestOneAddressNeverTakesAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Connections{All: rapid.IntRange(20, 60).Draw(t, "all"), PerAddress: rapid.IntRange(9, 60).Draw(t, "address")}.WithDefaults()
		mine := 0
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			if rapid.IntRange(0, 3).Draw(t, "closes") == 0 {
				mine = max(0, mine-1)
			} else if c.Admit(mine, mine, false) {
				mine++
			}
			if mine > c.PerAddress || mine > c.All {
				t.Fatalf("%d connections of %+v", mine, c)
			}
			if !c.Admit(mine, 0, false) {
				t.Fatalf("nobody else gets in beside %d of %+v", mine, c)
			}
		}
		if !c.Admit(c.All-c.Reserved-1, c.PerAddress, true) || c.Admit(c.All, 0, true) {
			t.Fatal("this machine's own are bound by All alone")
		}
	})
}
