package control

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/event"
)

// TestThinLeavesWhatMatters: at most so many marks stay, in order, and none goes while a less
// important one stays.
func TestThinLeavesWhatMatters(t *testing.T) {
	types := []string{event.WavePromoted{}.EventType(), event.RolloutOpened{}.EventType(), event.RolloutReverting{}.EventType()}
	rapid.Check(t, func(t *rapid.T) {
		var list []Mark
		for i, kind := range rapid.SliceOfN(rapid.IntRange(0, 2), 0, 60).Draw(t, "marks") {
			list = append(list, Mark{Seq: uint64(i + 1), Type: types[kind]})
		}
		most := rapid.IntRange(0, 40).Draw(t, "most")
		left := thin(list, most)
		if len(left) != min(most, len(list)) {
			t.Fatalf("%d of %d are left, %d may be", len(left), len(list), most)
		}
		least, last := 4, uint64(0)
		for _, x := range left {
			if x.Seq <= last {
				t.Fatalf("they are out of order: %+v", left)
			}
			least, last = min(least, event.Importance(x.Type)), x.Seq
		}
		for _, x := range list {
			if event.Importance(x.Type) > least && !slices.Contains(left, x) {
				t.Fatalf("%+v went before one that matters less: %+v", x, left)
			}
		}
	})
}
