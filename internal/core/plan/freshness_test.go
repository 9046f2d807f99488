package plan_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
)

// TestS38ClockSetBackMakesNothingFresh (T37): once the log has shown that a
// timestamp is too old, no clock of a server that starts again makes it fresh;
// one that is signed anew does, also after a clock that was far ahead.
func TestS38ClockSetBackMakesNothingFresh(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		for _, h := range []string{"h0", "h1"} {
			w.enrol(h)
			w.presence(h, true)
		}
		w.release(fleet.Queue, w.manifest(spec{ref: "r1", waves: "h0", target: bundles[0]}))
		window := w.channels["c"].FreshnessWindow
		taken := w.now
		signed := w.s.Timestamp.IssuedAt
		shown := clock.Duration(rapid.Int64Range(0, int64(3*window)).Draw(t, "passed before"))
		w.now = taken.Add(shown)
		w.presence("h1", false) // the log sees how late it is
		w.now = taken.Add(clock.Duration(rapid.Int64Range(-int64(3*window), int64(shown)).Draw(t, "clock after the restart")))
		w.tick()
		granted := w.count(event.Granted{}, "h0")
		if tooOld := shown > window; tooOld && granted > 0 {
			t.Fatalf("granted %s after it was signed, with the clock at %s", shown, w.now.Sub(signed))
		}
		if shown <= window && granted == 0 {
			t.Fatalf("nothing was granted %s after it was signed", shown)
		}
		w.record("", event.TimestampAccepted{Version: 1 << 20, IssuedAt: w.now})
		w.tick()
		if w.count(event.Granted{}, "h0") == 0 {
			t.Fatalf("a new timestamp does not let it go on")
		}
	})
}
