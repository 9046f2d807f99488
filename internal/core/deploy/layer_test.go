package deploy

import (
	"testing"
	"time"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// TestLayerEndsWhatIsPast: a resource goes once its end is past, also where a clock was set beyond it at once and its row
// has an end that is later.
func TestLayerEndsWhatIsPast(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	layer := Layer{Set: spec.Set{Volumes: []spec.Volume{{Name: "ends"}, {Name: "stays"}}},
		Until: []LayerEnd{{Kind: spec.KindVolume, Name: "ends", NotAfter: clock.FromTime(now)}, {Kind: spec.KindVolume, Name: "stays", NotAfter: clock.FromTime(now) + 1}}}
	child := func(name string) engine.Child {
		return engine.Child{Ref: engine.Ref{Kind: spec.KindVolume, ID: name}, Phase: engine.Converged}
	}
	view := engine.View[Layer, struct{}]{Resource: engine.Resource[Layer]{Ref: ManagedLayer, Desired: layer}, Children: []engine.Child{child("ends"), child("stays")}}
	goes := func(at time.Time) map[string]bool {
		view.Now = at
		out := map[string]bool{}
		for _, in := range DecideLayer(func(s string) string { return s }, view).Children() {
			out[in.Ref.ID] = in.Op == engine.OpDelete
		}
		return out
	}
	if got := goes(now.Add(-time.Millisecond)); got["ends"] || got["stays"] {
		t.Errorf("before the end %v", got)
	}
	if got := goes(now); !got["ends"] || got["stays"] {
		t.Errorf("at the end %v", got)
	}
}
