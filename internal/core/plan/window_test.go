package plan_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// someWindows are windows by name. The world starts on 2023-11-14 at 22:13:20,
// so that "night" opens after 1 h 46 min 40 s.
func someWindows(names []string) []clock.Window {
	var out []clock.Window
	for _, n := range slices.Sorted(slices.Values(names)) {
		spec := map[string]struct {
			cron string
			d    clock.Duration
		}{"even": {"*/2 * * * *", clock.Minute}, "third": {"*/3 * * * *", 2 * clock.Minute}, "night": {"0 0 * * *", clock.Hour}}[n]
		c, err := clock.ParseCron(spec.cron)
		if err != nil {
			panic(err)
		}
		out = append(out, clock.Window{Name: n, Cron: c, Duration: spec.d, Reason: "quiet hours",
			Zone: clock.Zone{Name: "UTC", From: start.Add(-clock.Day), Until: start.Add(4 * 365 * clock.Day)}})
	}
	return out
}

var night = start.Add(clock.Hour + 46*clock.Minute + 40*clock.Second)

// TestS41GrantsWaitForTheWindow lives through an evening: nobody is granted
// before the window opens, the planner asks to be woken then, and the rollout
// goes through in the window.
func TestS41GrantsWaitForTheWindow(t *testing.T) {
	w := scene(t, "h0 h1")
	w.release(fleet.Queue, w.manifest(spec{ref: "r1", waves: "h0 | h1", target: bundles[0], windows: []string{"night"}}))
	w.live(10)
	if n := w.count(event.Granted{}, ""); n > 0 {
		t.Fatalf("%d grants in the evening\n%s", n, w.tail())
	}
	p, err := plan.Next(w.s, w.now)
	if err != nil || p.Next != night {
		t.Fatalf("the planner wants to be woken at %s (%v), the window opens at %s", p.Next, err, night)
	}
	if b := w.why("h0", gate.Window); b == nil || b.Earliest != night || !strings.Contains(b.Message, "quiet hours") {
		t.Fatalf("why says %+v", b)
	}
	if b := plan.FirstBlock(w.s, w.s.Find("c@r1"), w.now); b == nil || b.Code != gate.Window {
		t.Fatalf("the rollout is held by %+v", b)
	}
	if a, err := plan.Why(w.s, "h1", w.now); err != nil || a.Block == nil || a.Block.Code != gate.Window {
		t.Fatalf("the host of the next wave waits for %+v, %v", a, err)
	}
	w.now = night
	w.live(10)
	w.phase("c@r1", rollout.Terminal)
}

// TestS41ClaimAfterTheWindowIsRefused checks that a grant ends with the window
// and that what was claimed inside it is never cut.
func TestS41ClaimAfterTheWindowIsRefused(t *testing.T) {
	w := scene(t, "h0 h1")
	w.now = night.Add(59*clock.Minute + 30*clock.Second)
	w.release(fleet.Queue, w.manifest(spec{ref: "r1", waves: "h0 h1", target: bundles[0], windows: []string{"night"}}))
	w.tick()
	g := w.s.Hosts["h0"].Grant
	if g == nil || g.Expires != night.Add(clock.Hour) {
		t.Fatalf("the grant is %+v, the window closes at %s", g, night.Add(clock.Hour))
	}
	m := w.hosts["h1"]
	m.poll()
	m.prepare(true)
	m.claim(false)
	w.now = night.Add(clock.Hour)
	var refused *plan.ClaimRefusedError
	if _, err := plan.Claim(w.s, "h0", g.ID, w.now); !errors.As(err, &refused) {
		t.Fatalf("a claim after the window closed: %v", err)
	}
	for range 8 {
		w.tick()
		m.work()
		w.now = w.now.Add(10 * clock.Second)
	}
	w.expect("h1=converged/one")
	if w.s.Hosts["h0"].Grant != nil {
		t.Fatalf("h0 keeps %+v in a closed window", w.s.Hosts["h0"].Grant)
	}
}

// TestS41RevertsDoNotWaitForAWindow breaks a host in the window and lets the
// others go back after it closed.
func TestS41RevertsDoNotWaitForAWindow(t *testing.T) {
	w := onOne(t, "h0 h1")
	w.now = night.Add(59 * clock.Minute)
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 | h1", target: bundles[1], windows: []string{"night"}}))
	w.tick()
	for range 3 {
		w.hosts["h0"].work()
		w.tick()
	}
	w.expect("h0=converged/two")
	m := w.hosts["h1"]
	m.broken[bundles[1]] = true
	for range 3 {
		m.work()
		w.tick()
	}
	w.now = night.Add(2 * clock.Hour) // closed
	w.refresh()
	w.live(12)
	w.expect("h0=reverted/one h1=reverted/one")
	w.phase("c@r2", rollout.Reverted)
}

// TestS41RepairsThatStopThingsWait checks that drift which a repair would have to
// stop something for waits for the window.
func TestS41RepairsThatStopThingsWait(t *testing.T) {
	w := scene(t, "h0")
	w.now = night
	w.release(fleet.Queue, w.manifest(spec{ref: "r1", waves: "h0", target: bundles[0], windows: []string{"night"}}))
	w.live(6)
	w.phase("c@r1", rollout.Terminal)
	w.now = night.Add(2 * clock.Hour)
	w.hosts["h0"].drifts(true, "exec/app")
	w.live(12)
	if n := w.count(event.Granted{}, "h0"); n != 1 {
		t.Fatalf("%d grants, expected that of the rollout alone\n%s", n, w.tail())
	}
	a, err := plan.Why(w.s, "h0", w.now)
	if err != nil || a.Repair == nil || a.Repair.Block == nil || a.Repair.Block.Code != gate.Window {
		t.Fatalf("the repair waits for %+v", a.Repair)
	}
	if p, err := plan.Next(w.s, w.now); err != nil || p.Next != night.Add(clock.Day) {
		t.Fatalf("the planner wants to be woken at %s, %v", p.Next, err)
	}
	w.now = night.Add(clock.Day)
	w.live(8)
	if w.s.Hosts["h0"].Repair != nil {
		t.Fatalf("not repaired in the window\n%s", w.tail())
	}
}

// TestAuditSeesGrantsOutsideWindows moves a sound grant out of its window.
func TestAuditSeesGrantsOutsideWindows(t *testing.T) {
	w := scene(t, "h0")
	w.now = night
	w.release(fleet.Queue, w.manifest(spec{ref: "r1", waves: "h0", target: bundles[0], windows: []string{"night"}}))
	w.live(6)
	if v := found(w, w.log); len(v) > 0 {
		t.Fatalf("the sound log violates %v", v)
	}
	for _, ev := range []event.Event{event.Granted{}, event.GrantClaimed{}} {
		log := slices.Clone(w.log)
		log[at(t, log, ev, 1)].At = night - 1
		if v := found(w, log); len(v) != 1 || v[0].Invariant != "S41" {
			t.Errorf("%s before the window: found %v", ev.EventType(), v)
		}
	}
}
