package clock

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestQueueIsInOrder checks that what is pushed and popped in any order comes by its
// instant and, at one instant, in the order in which it was pushed.
func TestQueueIsInOrder(t *testing.T) {
	type step struct {
		at   Instant
		what int
	}
	rapid.Check(t, func(rt *rapid.T) {
		var q Queue[int]
		var want []step
		for what := range rapid.IntRange(1, 200).Draw(rt, "steps") {
			if q.Len() > 0 && rapid.IntRange(0, 2).Draw(rt, "pop") == 0 {
				next := q.Next()
				if at, got := q.Pop(); at != want[0].at || next != at || got != want[0].what {
					rt.Fatalf("%d/%d came, %d/%d was next", at, got, want[0].at, want[0].what)
				}
				want = want[1:]
				continue
			}
			s := step{Instant(rapid.IntRange(1, 9).Draw(rt, "at")), what}
			q.Push(s.at, what)
			want = append(want, s)
			slices.SortStableFunc(want, func(a, b step) int { return cmp.Compare(a.at, b.at) })
		}
	})
}
