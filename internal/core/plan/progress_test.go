package plan_test

import (
	"reflect"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// TestProgressIsOnTheServersClock: a host that soaks says since when, and since when
// a probe fails, whatever its own clock shows; one that does not move says nothing.
func TestProgressIsOnTheServersClock(t *testing.T) {
	w := onOne(t, "h0 h1")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 | h1", target: bundles[1], soak: clock.Hour}))
	w.live(3)
	r := w.phase("c@r2", rollout.Active)
	if p := w.s.Progress(r, "h1"); p != nil {
		t.Errorf("a host that waits: %+v", p)
	}
	if p := w.s.Progress(r, "nobody"); p != nil {
		t.Errorf("a host that never enrolled: %+v", p)
	}
	h := w.s.Hosts["h0"]
	h.Clock = plan.HostClock{Ahead: 500, Known: true}
	m := &h.Machine
	m.Probes[0].Passing, m.Probes[0].FailingSince, m.Probes[0].Reason = false, w.now.Add(-500), "refused"
	p := w.s.Progress(r, "h0")
	if p == nil || p.Phase != host.Soaking || p.Soak != clock.Hour || p.SoakFrom != m.SoakFrom.Add(500) || m.SoakFrom == 0 {
		t.Fatalf("a host that soaks: %+v", p)
	}
	want := host.ProbeState{Name: "up", Mode: fleet.Enforce, Seen: true, FailingSince: w.now, Reason: "refused"}
	if len(p.Probes) != 1 || !reflect.DeepEqual(p.Probes[0], want) {
		t.Errorf("its probes: %+v", p.Probes)
	}
	other := *r
	other.Name = "c@r1"
	if p := w.s.Progress(&other, "h0"); p != nil {
		t.Errorf("in a rollout that it does not take part in: %+v", p)
	}
	h.Clock.Known = false
	if p := w.s.Progress(r, "h0"); p.SoakFrom != 0 || p.Probes[0].FailingSince != 0 {
		t.Errorf("with a clock that is not known: %+v", p)
	}
}
