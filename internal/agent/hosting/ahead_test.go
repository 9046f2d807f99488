package hosting

import (
	"encoding/json"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/wire"
)

// A host's own clock stands still while the machine is off. What ends by the wall clock
// ends by it, and a clock that is only a little off does not set everything anew.
func TestEndsAreToldByTheWallClock(t *testing.T) {
	own, wall := clock.Instant(1_800_000_000_000), clock.Instant(1_800_000_000_000)
	h := &Hosting{o: Options{Now: func() clock.Instant { return own }, Wall: func() clock.Instant { return wall }}}
	until := func() clock.Instant {
		got := Admit(AdmitInput{Doc: wire.Managed{Entries: []wire.ManagedEntry{{Kind: "volume", Name: "v", Spec: json.RawMessage(`{}`), NotAfter: wall.Add(clock.Hour)}}},
			Delegation: &fleet.Delegation{Kinds: []string{"volume"}}, Ahead: h.clockAhead()})
		if len(got.Layer.Until) != 1 {
			t.Fatalf("it has no end: %+v", got)
		}
		return got.Layer.Until[0].NotAfter
	}
	if got := until(); got != own.Add(clock.Hour) {
		t.Errorf("with equal clocks in %s", got.Sub(own))
	}
	wall = wall.Add(10 * clock.Second)
	if h.clockAhead() != 0 {
		t.Error("a few seconds move every end")
	}
	wall = wall.Add(3 * clock.Day) // the machine was off
	if got := until(); got != own.Add(clock.Hour) {
		t.Errorf("after three days off in %s by the host's clock", got.Sub(own))
	}
	wall = wall.Add(-6 * clock.Day) // it was set right
	if got := until(); got != own.Add(clock.Hour) {
		t.Errorf("after the clock was set back in %s by the host's clock", got.Sub(own))
	}
}
