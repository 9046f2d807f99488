package state

import (
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/testkit"
)

// hand is a machine's clock that a test turns.
type hand struct {
	boot  string
	since clock.Duration
	wall  clock.Instant
}

func (h *hand) Boot() (string, clock.Duration, error) { return h.boot, h.since, nil }
func (h *hand) Wall() clock.Instant                   { return h.wall }

// TestClockGoesOn moves the wall clock, restarts and reboots: the host's own time never
// goes back and never jumps.
func TestClockGoesOn(t *testing.T) {
	h := &hand{boot: "boot-1", since: clock.Minute, wall: clock.Instant(200 * clock.Day)}
	begun, now, err := BeginTimeline(h)
	if err != nil || now != h.wall {
		t.Fatalf("it begins at %s (%v), not at the wall clock's %s", now, err, h.wall)
	}
	at := now
	resume := func(d TimelineDoc, passed clock.Duration) *Timeline {
		t.Helper()
		tl := testkit.Value(d.Resume(h, at))(t)
		if got := tl.Now().Sub(at); got != passed {
			t.Fatalf("%s passed, not %s", got, passed)
		}
		at = tl.Now()
		return tl
	}
	first := resume(begun, 0)
	h.wall = 0 // the wall clock is set back
	h.since += clock.Hour
	if got := first.Now().Sub(at); got != clock.Hour {
		t.Errorf("an hour took %s", got)
	}
	again := resume(first.Doc(), clock.Hour)
	h.since += clock.Minute // the process is down, the machine is not
	again = resume(again.Doc(), clock.Minute)
	h.boot, h.since = "boot-2", clock.Second // time while the machine is off does not pass
	rebooted := resume(again.Doc(), 0)
	h.since += clock.Second
	if got := rebooted.Now().Sub(at); got != clock.Second {
		t.Errorf("a second after the reboot took %s", got)
	}
	if rebooted.BootID() != "boot-2" {
		t.Errorf("boot %s", rebooted.BootID())
	}
	lost := TimelineDoc{BootID: "boot-2"} // of an older database: what was reported is later
	if tl, err := lost.Resume(h, at.Add(clock.Hour)); err != nil || tl.Now() < at.Add(clock.Hour) {
		t.Errorf("time went back (%v)", err)
	}
}
