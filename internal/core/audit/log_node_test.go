package audit

import (
	"math"
	"testing"

	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/testkit"
)

// TestNumbersOfNodesAreTheirOwn: what follows from a number that a node claims is a finding about the node, and what a server
// decides without one is a broken invariant.
func TestNumbersOfNodesAreTheirOwn(t *testing.T) {
	on := event.OnNode{Node: "n"}
	started := func(op, session uint64) event.OfNodes {
		return event.PushStarted{SyncOf: event.Sync("n", "flow", "f", "flow"), Op: op, Session: session, Version: 1}
	}
	for what, c := range map[string]struct {
		op, next uint64
		node     string
		found    int
	}{ // order-free: each by itself
		"a number that wraps":             {math.MaxUint64, 0, "n", 2},
		"one of an older server":          {math.MaxUint64 - 7, math.MaxUint64 - 6, "n", 1},
		"one that a restore explains":     {900, 901, "", 0},
		"none, and a server that repeats": {0, 0, "", 1},
	} {
		l := NewLog(nil)
		var found []Violation
		for i, ev := range []event.OfNodes{
			event.NodeConnected{OnNode: on, Session: 1, Op: c.op},
			event.SyncCompleted{OnNode: on, Session: 1},
			started(c.next, 1),
		} {
			found = append(found, l.Observe(uint64(i+1), testkit.Value(event.NewEntry(1, ev.On(), ev))(t))...)
		}
		if len(found) != c.found {
			t.Errorf("%s: %v", what, found)
		}
		for _, v := range found {
			if v.Invariant != "S47" || v.Node != c.node || (v.Whose() == "") != (c.node == "") {
				t.Errorf("%s: %+v", what, v)
			}
		}
	}
}
