package trust

import (
	"testing"

	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/testkit"
)

// TestManagedEntry: an operator's entry is taken for its own host alone, and from
// nobody but the override role.
func TestManagedEntry(t *testing.T) {
	k := newKeys(t, "first")
	st := testkit.Value(Begin(testFleet, k.root(t, 1, 1), ""))(t)
	v := testkit.Value(NewVerifier(testFleet, st))(t)
	entry := fleet.ManagedEntry{Document: head(fleet.TypeManagedEntry, 1, 3), Host: "web-1", Kind: "workspace", Name: "tool", Spec: `{"image":"x"}`}
	good := testkit.Value(SignManagedEntry(entry, k[RoleOverride]))(t)
	got, err := v.ManagedEntry(good, "web-1")
	if err != nil || got.Value().Name != "tool" || got.Value().Version != 3 {
		t.Fatalf("%+v %v", got, err)
	}
	if _, err := v.ManagedEntry(good, "web-2"); CodeOf(err) != WrongHost {
		t.Errorf("another host's: %v", err)
	}
	byRelease, err := SignManagedEntry(entry, k[RoleRelease])
	testkit.Must(t, err)
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
