package fleet

import (
	"slices"
	"testing"
)

// FuzzParseRemoval: consent that is read is written as it was given, and covers no name that is
// not in it.
func FuzzParseRemoval(f *testing.F) {
	for _, s := range []string{"hosts=stable:web-1,web-2", "resources=web:volume/data", "hosts=c:40@9f2c1ab04d11", "hosts=c:"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ParseRemoval(s)
		if err != nil {
			return
		}
		again, err := ParseRemoval(r.String())
		if err != nil || again.String() != r.String() || again.Of != r.Of || again.What != r.What {
			t.Fatalf("%q is read as %+v, written as %q and read as %+v, %v", s, r, r.String(), again, err)
		}
		if left := without([]Removal{r}, r.What, r.Of, []string{"x\x00"}); !slices.Contains(r.Names, "x\x00") && r.Sum != sumOf([]string{"x\x00"}) && len(left) != 1 {
			t.Fatalf("%q covers what it does not name", s)
		}
	})
}
