package nodes

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestPace: a few connections begin at once, more one after the other, and those that would
// wait too long are asked to come later. After a quiet time it is so again, and no more.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &Hub{limits: Limits{}.WithDefaults()}
		for round := range 2 {
			begun, longest := 0, time.Duration(0)
			for {
				wait, ok := h.slot()
				if !ok {
					break
				}
				begun++
				if longest = max(longest, wait); (wait > 0) != (begun > atOnce+1) {
					t.Fatalf("connection %d waits %s", begun, wait)
				}
			}
			if most := atOnce + 1 + h.limits.Pace*int(turnWithin/time.Second); begun != most || longest > turnWithin {
				t.Errorf("round %d: %d begin, the last one after %s; expected %d", round, begun, longest, most)
			}
			time.Sleep(time.Hour)
		}
	})
}
