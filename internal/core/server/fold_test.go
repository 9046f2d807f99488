package server_test

import (
	"encoding/json"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/testkit"
)

// counter is a fold that nothing in the tree knows: it counts entries, and records a
// host's freeze once it counted some.
type counter struct{ Seen int }

func (c *counter) Name() string                       { return "counter" }
func (c *counter) Apply(event.Entry) error            { c.Seen++; return nil }
func (c *counter) Due() clock.Instant                 { return 77 }
func (c *counter) Snapshot() (json.RawMessage, error) { return json.Marshal(c) }
func (c *counter) Restore(raw json.RawMessage) error  { return json.Unmarshal(raw, c) }

func (c *counter) Next(now clock.Instant) ([]event.Entry, error) {
	if c.Seen != 3 {
		return nil, nil
	}
	c.Seen++
	e, err := event.NewEntry(now, event.HostSubject("h"), event.HostFrozen{Until: 99, Reason: "three"})
	return []event.Entry{e}, err
}

func record(t rapid.TB, s *server.State, ev event.Event, now clock.Instant) []event.Entry {
	t.Helper()
	entries := testkit.Value(s.Record("h", now, ev))(t)
	return entries
}

func snapshot(t rapid.TB, s *server.State) string {
	t.Helper()
	raw := testkit.Value(s.Snapshot())(t)
	return string(raw)
}

// What one fold decides is in every other fold, and once in its own.
func TestEveryFoldReadsWhatOneDecides(t *testing.T) {
	c := &counter{}
	s := server.NewState(nil, c)
	for range 3 {
		record(t, s, event.HostTuned{Settings: fleet.Settings{}}, 5)
	}
	record(t, s, event.HostEnrolled{Incarnation: 1, Token: "t", Serial: "s"}, 5)
	c.Seen = 3
	entries, err := s.Next(6)
	if err != nil || len(entries) != 1 || c.Seen != 4 || s.Plan.Hosts["h"].Freeze == nil || s.Managed.Hosts["h"].Tuned != 3 {
		t.Fatalf("decided %v (%v), counted %d", entries, err, c.Seen)
	}
	if s.Due() != 77 {
		t.Errorf("due at %d, a fold is at 77", s.Due())
	}
}

// S25: the log gives the state, from its start or from a snapshot anywhere in it.
func TestS25SnapshotIsAPrefixOfTheLog(t *testing.T) {
	events := []event.Event{event.HostEnrolled{Incarnation: 1, Token: "t", Serial: "s"}, event.HostReturned{}, event.HostTuned{},
		event.HostSilent{LastSeen: 3}, event.ManagedSet{Kind: "image", Name: "x", Spec: json.RawMessage(`{}`)}, event.HostFrozen{Until: 900}, event.HostUnfrozen{}}
	rapid.Check(t, func(t *rapid.T) {
		live := server.NewState(nil, &counter{})
		var log []event.Entry
		for i, pick := range rapid.SliceOfN(rapid.IntRange(0, len(events)-1), 1, 12).Draw(t, "events") {
			log = append(log, record(t, live, events[pick], clock.Instant(10+i))...)
		}
		cut := rapid.IntRange(0, len(log)).Draw(t, "cut")
		before := server.NewState(nil, &counter{})
		for _, e := range log[:cut] {
			testkit.Must(t, before.Apply(e))
		}
		after := server.NewState(nil, &counter{})
		testkit.Must(t, after.Restore([]byte(snapshot(t, before))))
		for _, e := range log[cut:] {
			testkit.Must(t, after.Apply(e))
		}
		if got, want := snapshot(t, after), snapshot(t, live); got != want {
			t.Fatalf("from a snapshot at %d the state is\n%s\nfolded it is\n%s", cut, got, want)
		}
	})
}

// A snapshot from before a fold was added cannot be gone on from.
func TestSnapshotOfOtherFolds(t *testing.T) {
	old := snapshot(t, server.NewState(nil))
	if err := server.NewState(nil, &counter{}).Restore([]byte(old)); !errors.Is(err, server.ErrOtherFolds) {
		t.Errorf("a snapshot without a fold is restored: %v", err)
	}
}
