package trust

import (
	"testing"

	"github.com/steadyfleet/steady/internal/core/fleet"
)

// TestManagedEntry: an operator's entry is taken for its own host alone, and from
// nobody but the override role.
func TestManagedEntry(t *testing.T) {
	k := newKeys(t, "first")
	st, err := Begin(testFleet, k.root(t, 1, 1), "")
	must(t, err)
	v, err := NewVerifier(testFleet, st)
	must(t, err)
	entry := fleet.ManagedEntry{Document: head(fleet.TypeManagedEntry, 1, 3), Host: "web-1", Kind: "workspace", Name: "tool", Spec: `{"image":"x"}`}
	good, err := SignManagedEntry(entry, k[RoleOverride])
	if err != nil {
		t.Fatal(err)
	}
	got, err := v.ManagedEntry(good, "web-1")
	if err != nil || got.Value().Name != "tool" || got.Value().Version != 3 {
		t.Fatalf("%+v %v", got, err)
	}
	if _, err := v.ManagedEntry(good, "web-2"); CodeOf(err) != WrongHost {
		t.Errorf("another host's: %v", err)
	}
	byRelease, err := SignManagedEntry(entry, k[RoleRelease])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.ManagedEntry(byRelease, "web-1"); err == nil {
		t.Error("the release key signed an entry")
	}
	for i := range good {
		bad := append([]byte(nil), good...)
		bad[i] ^= 1
		if other, err := v.ManagedEntry(bad, "web-1"); err == nil {
			t.Fatalf("byte %d changed and it is taken: %+v", i, other.Value())
		}
	}
}
