package gate_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/gate"
)

// drawOccupants are sessions around an instant, by name.
func drawOccupants(t *rapid.T, now clock.Instant) []gate.Occupant {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) gate.Occupant {
		o := gate.Occupant{Session: names.Draw(t, "session")}
		if rapid.Bool().Draw(t, "has an end") {
			o.Until = max(1, now.Add(clock.Duration(rapid.IntRange(-2, 2).Draw(t, "from now"))))
		}
		return o
	}), 0, 5).Draw(t, "sessions")
}

// TestS55OccupiedUntilTheLastEnds: the gate is open exactly when every session is over, and opens
// at the latest end and no sooner; never by time where one has no end.
func TestS55OccupiedUntilTheLastEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := drawInstant(t, "now")
		has := drawOccupants(t, now)
		ask := func(at clock.Instant, explain bool) *gate.Block {
			return gate.CheckOccupied(given{host: "h", has: slices.Clone(has), now: at}, explain)
		}
		live := slices.DeleteFunc(slices.Clone(has), func(o gate.Occupant) bool { return o.Until != 0 && o.Until <= now })
		b := ask(now, true)
		opens(t, b, gate.Occupied, len(live) == 0)
		if (ask(now, false) == nil) != (b == nil) {
			t.Fatal("who shows no answer gets another one")
		}
		if b == nil {
			return
		}
		if forever := slices.ContainsFunc(live, func(o gate.Occupant) bool { return o.Until == 0 }); forever != (b.Earliest == 0) {
			t.Fatalf("%+v names %s", live, b.Earliest)
		}
		if b.Earliest != 0 && (ask(b.Earliest-1, false) == nil || ask(b.Earliest, false) != nil) {
			t.Fatalf("opens at another instant than %s", b.Earliest)
		}
		if first := live[0].Session; !strings.Contains(b.Message, "session "+first) || b.Remedies[0].Command != "steady session stop "+first {
			t.Fatalf("session %s is not named: %+v", first, b)
		}
	})
}

// TestOccupiedSaysByWhomAndUntilWhen is what people read.
func TestOccupiedSaysByWhomAndUntilWhen(t *testing.T) {
	const until = clock.Instant(1_750_000_000_000)
	for _, c := range []struct {
		has              []gate.Occupant
		message, cleared string
	}{
		{[]gate.Occupant{{Session: "lab", Until: until}}, "host h is in use by session lab until 2025-06-15 15:06 UTC unless it is extended", "time, or whoever runs the session: steady session stop lab"},
		{[]gate.Occupant{{Session: "a"}, {Session: "b", Until: 2}, {Session: "c", Until: 1}}, "host h is in use by session a, which has no end set, session b until 1970-01-01 00:00 UTC unless it is extended",
			"whoever runs the session: steady session stop a; steady session stop b"},
		{[]gate.Occupant{{Session: "a"}, {Session: "b"}, {Session: "c"}, {Session: "d"}, {Session: "e"}},
			"host h is in use by session a, which has no end set, session b, which has no end set, session c, which has no end set, 2 more",
			"whoever runs the session: steady session stop a; steady session stop b; steady session stop c"},
	} {
		b := gate.CheckOccupied(given{host: "h", has: c.has, now: 1}, true)
		if b == nil || b.Message != c.message || b.ClearedBy != c.cleared {
			t.Errorf("%+v", b)
		}
	}
}
