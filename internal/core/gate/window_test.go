package gate_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/testkit"
)

// drawWindows draws windows with tables around an instant, some of which end.
func drawWindows(t *rapid.T, now clock.Instant) []clock.Window {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) clock.Window {
		c := testkit.Value(clock.ParseCron(rapid.SampledFrom([]string{"0 2 * * *", "*/30 * * * 1-5", "0 0 1 * *", "0 0 30 2 *"}).Draw(t, "cron")))(t)
		return clock.Window{Name: names.Draw(t, "name"), Cron: c, Duration: clock.Duration(rapid.IntRange(1, 600).Draw(t, "minutes")) * clock.Minute,
			Zone: clock.Zone{Name: "UTC", From: now.Add(-30 * clock.Day), Until: now.Add(clock.Duration(rapid.IntRange(1, 400).Draw(t, "days")) * clock.Day)}}
	}), 0, 3).Draw(t, "windows")
}

// TestS41WindowGateOpensWithEveryWindow checks that the gate is shut exactly while
// a window is, and that Earliest is when it opens.
func TestS41WindowGateOpensWithEveryWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := drawInstant(t, "now")
		ws := drawWindows(t, now)
		b := gate.CheckWindow("host h", ws, now)
		opens(t, b, gate.Window, clock.AllOpen(ws, now))
		if b != nil && b.Earliest != 0 && (gate.CheckWindow("host h", ws, b.Earliest) != nil || gate.CheckWindow("host h", ws, b.Earliest-1) == nil) {
			t.Fatalf("shut at %s, said to open at %s", now, b.Earliest)
		}
	})
}
