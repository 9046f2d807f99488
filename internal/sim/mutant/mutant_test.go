package mutant

import (
	"path/filepath"
	"strconv"
	"testing"
)

func root(t *testing.T) string {
	dir, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// simulated lists the invariants that schedules check.
func simulated() []string {
	var all []string
	for i := 1; i <= 33; i++ {
		all = append(all, "S"+strconv.Itoa(i))
	}
	all = append(all, "S38", "S40", "S42", "S43")
	for i := 1; i <= 6; i++ {
		all = append(all, "L"+strconv.Itoa(i))
	}
	return all
}

// TestEveryInvariantHasAFault: a check that no planted fault can trip is not shown
// to find anything.
func TestEveryInvariantHasAFault(t *testing.T) {
	planted := map[string]bool{}
	for _, f := range Faults() {
		planted[f.Finds[0]] = true
	}
	for _, name := range simulated() {
		if !planted[name] {
			t.Errorf("no fault is planted for %s", name)
		}
	}
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
