package reconciletest

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/steadyfleet/steady/reconcile"
)

// CrashEverywhere runs a scenario to its end, and then once more for each point in it at which the
// process may crash: before and after each write to the store, and so before and after each act.
// The process is started again at once, and the scenario goes on. What same says of the end, such
// as State and what the world holds, has to be what it says without a crash.
//
// Each run has a bubble of its own. The scenario begins with a new world and Start, and ends with
// enough of Advance for everything to settle.
func CrashEverywhere(t *testing.T, scenario func(*Loop), same func(*Loop) string) {
	t.Helper()
	points, err := crashes(t, scenario, same)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d crash points", points)
}

func crashes(t *testing.T, scenario func(*Loop), same func(*Loop) string) (points int, err error) {
	t.Helper()
	c, want := life(t, -1, scenario, same)
	points = c.Points()
	if points == 0 && !t.Failed() {
		return 0, fmt.Errorf("the scenario writes nothing, so that there is nowhere to crash")
	}
	for at := range points {
		if t.Failed() {
			return points, nil // and t has said why
		}
		if c, got := life(t, at, scenario, same); got != want {
			return points, fmt.Errorf("a crash %s, point %d of %d, changes the end: got\n%s\nwithout a crash\n%s", c.last, at, points, got, want)
		}
	}
	return points, nil
}

// life is one run, which crashes at a point.
func life(t *testing.T, at int, scenario func(*Loop), same func(*Loop) string) (c *Crasher, end string) {
	t.Helper()
	c = NewCrasher(at)
	synctest.Test(t, func(t *testing.T) {
		l := &Loop{t: t, crasher: c, Options: []reconcile.Option{reconcile.WithWorkers(4)}}
		scenario(l)
		end = same(l)
	})
	return c, end
}
