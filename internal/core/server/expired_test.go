package server_test

import (
	"encoding/json"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/managed"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/testkit"
)

// What has ended leaves the managed layer by an event, once, from a snapshot too; that
// uses up nothing of what may be removed at once.
func TestExpiredResourcesLeaveTheLayer(t *testing.T) {
	live := server.NewState(nil)
	owners := map[string]spec.Owner{"b": spec.SessionOwner("lab")}
	for name, end := range map[string]clock.Instant{"a": 50, "b": 50, "c": 90, "d": 0} {
		record(t, live, event.ManagedSet{Kind: "volume", Name: name, Spec: json.RawMessage(`{}`), NotAfter: end, Owner: owners[name], Actor: "ada", Reason: "r"}, 5)
	}
	restored := server.NewState(nil)
	testkit.Must(t, restored.Restore([]byte(snapshot(t, live))))
	for _, s := range []*server.State{live, restored} {
		if entries := testkit.Value(s.Next(49))(t); len(entries) != 0 || s.Due() != 50 {
			t.Fatalf("before the end: %v, due at %d", entries, s.Due())
		}
		entries := testkit.Value(s.Next(50))(t)
		if len(entries) != 2 || entries[0].Type != (event.ManagedRemoved{}).EventType() || s.Due() != 90 {
			t.Fatalf("at the end: %v, due at %d", entries, s.Due())
		}
		h := s.Managed.Hosts["h"]
		if len(h.Entries) != 2 || h.Removed.Count != 0 {
			t.Fatalf("%d are left, %d count as removed", len(h.Entries), h.Removed.Count)
		}
		if entries := testkit.Value(s.Next(51))(t); len(entries) != 0 {
			t.Fatalf("again: %v", entries)
		}
	}
	events, err := managed.Remove(live.Managed, &managed.Target{Host: "h"}, "volume", "d", false, managed.Change{Actor: "ada", Reason: "r", Now: 51})
	if err != nil || len(events) != 1 {
		t.Errorf("an operator's removal after it: %v, %v", events, err)
	}
}
