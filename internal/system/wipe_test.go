package system

import (
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// TestWipedMeansGone: a host is wiped once nothing of its bundles is left, and says what
// cannot be removed; the bundle that may come back is not kept.
func TestWipedMeansGone(t *testing.T) {
	ref := engine.Ref{Kind: spec.KindVolume, ID: "data"}
	child := func(phase engine.Phase, del bool) []engine.Child {
		return []engine.Child{{Ref: ref, Phase: phase, Delete: del, Reason: engine.NewReason("busy", "it is in use")}}
	}
	decide := func(children []engine.Child) (engine.Decision, bool) {
		return newSwitch(engine.View[Generation, GenerationObserved]{Observed: GenerationObserved{Bundle: fleet.Bundle{Wipe: true}}, Children: children}).wiped()
	}
	if _, more := decide(child(engine.Deleted, true)); more {
		t.Error("a volume that is gone is waited for")
	}
	if d, more := decide(child(engine.Deleting, true)); !more || d.Reason().Code != CodeWiping {
		t.Errorf("a volume that is being removed: %+v", d)
	}
	if d, more := decide(child(engine.Failed, true)); !more || !strings.Contains(d.Reason().Text(), "volume/data cannot be removed") {
		t.Errorf("a volume that cannot be removed: %+v", d)
	}
}
