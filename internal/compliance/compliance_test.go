package compliance

import (
	"testing"

	"github.com/steadyfleet/steady/internal/testkit"
)

// TestSetIDFiles asks the control that no bundle of this version can fail.
func TestSetIDFiles(t *testing.T) {
	for mode, want := range map[int64]bool{0o644: true, 0o777: true, 0o4755: false, 0o2755: false, 0o1777: true, 0o6755: false} {
		for _, p := range packs {
			for _, c := range p.controls {
				if c.ID != "host-file-setid" {
					continue
				}
				program := testkit.Value(compile(c.Expression))(t)
				if words, ok := program.evaluate(&Host{}, &Bundle{Files: []*File{{Path: "a", Mode: mode}}}); ok != want {
					t.Errorf("mode %o: %t, %s", mode, ok, words)
				}
			}
		}
	}
}
