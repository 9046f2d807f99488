package nodes

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestReconnectWithin: a few nodes come back at once, many at a pace that leaves room for hosts, and
// thousands before they are shown as offline; no more than are let in.
func TestReconnectWithin(t *testing.T) {
	l := Limits{}.WithDefaults()
	for nodes, want := range map[int]time.Duration{1: 20 * time.Millisecond, 10: 200 * time.Millisecond, 2000: 40 * time.Second, 3600: 45 * time.Second, 20_000: 200 * time.Second} { // order-free: a table
		if got := l.reconnectWithin(nodes); got != want {
			t.Errorf("%d nodes come back within %s, expected %s", nodes, got, want)
		}
	}
}

// TestPace: a few connections begin at once, more one after the other, and those that would
// wait too long are asked to come later. After a quiet time it is so again, and no more.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, p := Limits{}.WithDefaults(), pace{}
		for round := range 2 {
			begun, longest := 0, time.Duration(0)
			for {
				wait, ok := p.turn(l.Pace, turnWithin)
				if !ok {
					break
				}
				begun++
				if longest = max(longest, wait); (wait > 0) != (begun > atOnce+1) {
					t.Fatalf("connection %d waits %s", begun, wait)
				}
			}
			if most := atOnce + 1 + l.Pace*int(turnWithin/time.Second); begun != most || longest > turnWithin {
				t.Errorf("round %d: %d begin, the last one after %s; expected %d", round, begun, longest, most)
			}
			time.Sleep(time.Hour)
		}
	})
}
