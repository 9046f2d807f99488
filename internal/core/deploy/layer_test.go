package deploy

import (
	"testing"
	"time"

	"pgregory.net/rapid"

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

// TestLayerStopsInTime: what has an end begins to stop as long before it as the slowest of what ends with it takes, no
// sooner than it may, and no later than at the end; another owner's slow workspace changes nothing for it.
func TestLayerStopsInTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		end := clock.Instant(10 * clock.Hour)
		grace := clock.Duration(rapid.Int64Range(0, int64(clock.Hour)).Draw(t, "grace"))
		from := end.Add(-clock.Duration(rapid.Int64Range(0, int64(clock.Hour)).Draw(t, "lead")))
		if rapid.Bool().Draw(t, "unsaid") {
			from = 0
		}
		hooks := make([]spec.Hook, rapid.IntRange(0, 3).Draw(t, "hooks"))
		other := clock.Day
		l := Layer{Set: spec.Set{Networks: []spec.Network{{Name: "n"}},
			Workspaces: []spec.Workspace{{Name: "slow", StopGrace: &grace, PreStop: hooks}, {Name: "quick"}, {Name: "foreign", StopGrace: &other}}}}
		for _, name := range []string{"slow", "quick"} {
			l.Until = append(l.Until, LayerEnd{Kind: spec.KindWorkspace, Name: name, NotAfter: end, StopFrom: from, Owner: "session/a"})
		}
		l.Until = append(l.Until, LayerEnd{Kind: spec.KindNetwork, Name: "n", NotAfter: end, StopFrom: from, Owner: "session/a"},
			LayerEnd{Kind: spec.KindWorkspace, Name: "foreign", NotAfter: end, StopFrom: end, Owner: "session/b"})
		l.Set.Normalize()
		takes := max(l.Set.Workspace("slow").StopTime(), l.Set.Workspace("quick").StopTime())
		_, at := l.left(0)
		want := max(end.Add(-takes), from)
		if from == 0 {
			want = end
		}
		if at != want {
			t.Fatalf("what takes %s of what ends at %s and may stop from %s on begins at %s, not %s", takes, end, from, at, want)
		}
		before, _ := l.left(at - 1)
		after, next := l.left(at)
		if len(before.Workspaces) != 3 || len(before.Networks) != 1 {
			t.Fatalf("before its time %v", before.IDs())
		}
		if foreign := len(after.Workspaces); at < end && (foreign != 1 || len(after.Networks) != 0 || next != end) || at == end && foreign != 0 {
			t.Fatalf("at its time %v, and next %s", after.IDs(), next)
		}
	})
}
