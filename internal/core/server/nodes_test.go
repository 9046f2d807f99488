package server

import (
	"maps"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/drift"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/testkit"
)

// TestSessionsOfBeforeTheStart: after a restart one event ends the session of each node that
// did not come back, and none that of a node that did.
func TestSessionsOfBeforeTheStart(t *testing.T) {
	s := NewState(nil)
	connect := func(name string) drift.Connected {
		return drift.Connected{Node: name, Key: []byte(name), Instance: "i", Driver: "d", Version: "v", Collections: []event.NodeCollection{{Kind: "flow"}}}
	}
	for _, name := range []string{"away", "back", "off"} {
		testkit.Value(s.Nodes.Step(drift.Registered{Node: name, Event: event.NodeRegistered{OnNode: event.OnNode{Node: name}, Key: []byte(name), Token: name}}, 1))(t)
		testkit.Value(s.Nodes.Step(connect(name), 1))(t)
	}
	testkit.Value(s.Nodes.Step(drift.Disconnected{Node: "off", Session: 1, Reason: "gone"}, 2))(t)
	sessions := s.NodeSessions()
	if len(sessions) != 2 {
		t.Fatalf("online before: %v", sessions)
	}
	testkit.Value(s.Nodes.Step(connect("back"), 3))(t)
	events := testkit.Value(EndNodeSessions(s.Nodes, sessions, 4))(t)
	if len(events) != 1 || events[0] != event.OfNodes(event.NodeDisconnected{OnNode: event.OnNode{Node: "away"}, Session: 1, Reason: "the server was restarted"}) {
		t.Errorf("%+v", events)
	}
	if again := testkit.Value(EndNodeSessions(s.Nodes, sessions, 5))(t); len(again) != 0 {
		t.Errorf("once more: %+v", again)
	}
	totals := s.NodeTotals()
	if totals.Statuses["offline"] != 2 || totals.Statuses["comparing"] != 1 {
		t.Errorf("%+v", totals)
	}
}

// TestChangesThatNodesLack: the oldest change that a node has not acknowledged is dated; one that is only sent
// again because the device lost it is not.
func TestChangesThatNodesLack(t *testing.T) {
	s := NewState(nil)
	s.Nodes.Objects = map[string]*drift.Object{
		"flow/new":    {Kind: "flow", Name: "new", Version: 1, ChangedAt: 700, Legs: map[string]*drift.Leg{"flow": {Status: drift.Pending}}},
		"flow/older":  {Kind: "flow", Name: "older", Version: 3, ChangedAt: 500, Legs: map[string]*drift.Leg{"flow": {Status: drift.Pending, Acked: &drift.Acked{Version: 2}}}},
		"flow/again":  {Kind: "flow", Name: "again", Version: 2, ChangedAt: 100, Legs: map[string]*drift.Leg{"flow": {Status: drift.Pending, Acked: &drift.Acked{Version: 2}}}},
		"flow/failed": {Kind: "flow", Name: "failed", Version: 1, ChangedAt: 600, Legs: map[string]*drift.Leg{"flow": {Status: drift.Failed}}},
		"flow/there":  {Kind: "flow", Name: "there", Version: 1, ChangedAt: 50, Legs: map[string]*drift.Leg{"flow": {Status: drift.Pushed, Acked: &drift.Acked{Version: 1}}}},
		"flow/binned": {Kind: "flow", Name: "binned", Version: 1, ChangedAt: 60, Legs: map[string]*drift.Leg{"flow": {Status: drift.Failed, BinnedUntil: 9000}}},
	}
	want := map[string]clock.Instant{string(drift.Pending): 500, string(drift.Failed): 600}
	if got := s.NodeTotals().Waiting; !maps.Equal(got, want) {
		t.Errorf("the oldest changes are of %v, expected %v", got, want)
	}
}
