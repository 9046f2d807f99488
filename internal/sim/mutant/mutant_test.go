package mutant

import (
	"path/filepath"
	"testing"
)

func root(t *testing.T) string {
	dir, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestEveryFaultHasItsPlace: each fragment is in its file, once, and no two
// overlap.
func TestEveryFaultHasItsPlace(t *testing.T) {
	faults := Faults()
	if len(faults) < 40 {
		t.Errorf("%d faults, at least 40 are to be planted", len(faults))
	}
	names := map[string]bool{}
	for i := range faults {
		f := &faults[i]
		if names[f.Name] || len(f.Finds) == 0 || f.From == f.To {
			t.Errorf("fault %q is there twice, or nothing finds it, or it is none", f.Name)
		}
		names[f.Name] = true
		if _, err := find(root(t), f); err != nil {
			t.Error(err)
		}
	}
	if _, err := Plant(root(t), t.TempDir(), faults); err != nil {
		t.Error(err)
	}
}
