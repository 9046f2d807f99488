package control

import (
	"testing"

	"github.com/steadyfleet/steady/internal/core/nodeconfig"
)

// TestItemKindsAreApart: no driver can call its objects what needs a person under another kind, and
// all that drivers call theirs is counted as one.
func TestItemKindsAreApart(t *testing.T) {
	for _, kind := range itemKinds {
		if nodeconfig.IsOwn(kind) == (nodeconfig.CheckKind(kind) == nil) || countedAs(kind) != kind {
			t.Errorf("%s can be a kind of a driver, or is counted as %s", kind, countedAs(kind))
		}
	}
	if countedAs("camera") != ownKinds {
		t.Errorf("a camera is counted as %s", countedAs("camera"))
	}
}
