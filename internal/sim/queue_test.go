package sim

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
)

// TestQueueIsInOrder checks that what is pushed and popped in any order comes by its
// instant and, at one instant, in the order in which it was pushed.
func TestQueueIsInOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var q queue
		var want []task
		for order := range rapid.IntRange(1, 200).Draw(rt, "steps") {
			if len(q) > 0 && rapid.IntRange(0, 2).Draw(rt, "pop") == 0 {
				if got := q.pop(); got.at != want[0].at || got.order != want[0].order {
					rt.Fatalf("%d/%d came, %d/%d was next", got.at, got.order, want[0].at, want[0].order)
				}
				want = want[1:]
				continue
			}
			next := task{at: clock.Instant(rapid.IntRange(0, 9).Draw(rt, "at")), order: uint64(order)}
			q.push(next)
			want = append(want, next)
			slices.SortStableFunc(want, func(a, b task) int { return cmp.Compare(a.at, b.at) })
		}
	})
}
