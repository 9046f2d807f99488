package server

import (
	"testing"

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
