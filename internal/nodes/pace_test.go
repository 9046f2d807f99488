package nodes

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/steadyfleet/steady/internal/core/drift"
)

// TestFloodSendsNobodyAway: however many were asked to come later, the next one is not asked to
// wait for longer than a minute.
func TestFloodSendsNobodyAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pace
		var all time.Duration
		const asked = 100_000
		for i := range asked {
			wait := p.within(100, comeWithin)
			if all += wait; wait < 0 || wait > comeWithin {
				t.Fatalf("number %d is asked to wait %s", i, wait)
			}
		}
		if mean := all / asked; mean < comeWithin/3 || mean > 2*comeWithin/3 {
			t.Errorf("they come after %s in the mean", mean)
		}
	})
}

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

type counted struct{ Server }

func (counted) Nodes() int { return 1 }

// TestDisconnectionsTakeTurns: when many connections end at once, those of nodes that are not back by
// their turn are reported, each once. One that comes and goes all the while takes one turn.
func TestDisconnectionsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many, back, flaps = 500, 100, 1000
		h := &Hub{ctx: t.Context(), server: counted{}, limits: Limits{}.WithDefaults(), links: map[string]*link{}, ended: map[string]drift.Disconnected{}}
		var mu sync.Mutex
		reported := map[string]uint64{}
		begun := time.Now()
		var all sync.WaitGroup
		ends := func(node string, session uint64) {
			all.Go(func() {
				in, ok := h.disconnected(drift.Disconnected{Node: node, Session: session})
				mu.Lock()
				defer mu.Unlock()
				if _, twice := reported[in.Node]; ok && twice {
					t.Errorf("the end of %s is reported twice", in.Node)
				} else if ok {
					reported[in.Node] = in.Session
				}
			})
		}
		for i := range many {
			ends(fmt.Sprint("n-", i), 1)
		}
		synctest.Wait() // those that are reported at once are
		at := len(reported)
		for i := range flaps {
			ends("flaps", uint64(i+1))
		}
		for i := range back {
			h.mu.Lock()
			h.links[fmt.Sprint("n-", i)] = &link{session: 2}
			h.mu.Unlock()
		}
		all.Wait()
		if at < atOnce || at > atOnce+1 || len(reported) < many-back || len(reported) > many-back+at+1 || reported["flaps"] != flaps || len(h.ended) > 0 {
			t.Errorf("%d were reported at once and %d in all, %d wait, the last of the one that flaps is %d", at, len(reported), len(h.ended), reported["flaps"])
		}
		if took := time.Since(begun); took > (many+2)*time.Second/50 {
			t.Errorf("it took %s", took)
		}
	})
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
