package plan_test

import (
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// claimed has a host take a rollout's grant and report nothing of it.
func (w *world) claimed(name string) *machine {
	w.t.Helper()
	h := w.hosts[name]
	h.poll()
	h.prepare(true)
	h.claim(false)
	return h
}

// TestS10HostThatOnlyBeatsIsGivenUp claims and then keeps up its heartbeats alone: it
// fails by the server's clock, holds neither its own wave nor the next rollout's, and
// comes back by its report.
func TestS10HostThatOnlyBeatsIsGivenUp(t *testing.T) {
	w := onOne(t, "h0 h1")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 | h1", target: bundles[1], soak: 10 * clock.Minute, confirm: 30 * clock.Second, maxFailures: 1}))
	w.tick()
	h0, began := w.claimed("h0"), w.now
	due := began.Add(clock.Minute + 30*clock.Second + 10*clock.Minute + 3*clock.Minute)
	w.tick()
	if b, soaked := w.why("h1", gate.Wave), began.Add(10*clock.Minute); b == nil || b.Earliest != soaked {
		t.Fatalf("the wave waits %+v, and h0 can have soaked at %s", b, soaked)
	}
	if _, err := plan.Promote(w.s, "c@r2", "w0", "now", "ann", w.now); err == nil || !strings.Contains(err.Error(), "until "+prose.Date(due)) {
		t.Fatalf("promote says %v", err)
	}
	w.now = due - 1
	w.tick()
	if w.s.Hosts["h0"].SilentFailure {
		t.Fatal("given up before its time")
	}
	w.now = due
	w.tick()
	h := w.s.Hosts["h0"]
	if !h.Overdue || !h.SilentFailure || h.Presence(true) != gate.Overdue || !h.InFlight() {
		t.Fatalf("%+v", h)
	}
	// Failures within the limit, and nobody converged: it is evidence that lacks.
	if a, err := plan.Why(w.s, "h0", w.now); err != nil || !strings.Contains(a.Message, "did not report in time") {
		t.Fatalf("why says %+v, %v", a, err)
	}
	w.release(fleet.Supersede, w.manifest(spec{ref: "r3", waves: "h1 h0", target: bundles[2]}))
	for range 6 {
		w.tick()
		w.hosts["h1"].work()
		w.now = w.now.Add(10 * clock.Second)
	}
	w.tick()
	if r := w.s.Find("c@r3"); r == nil || r.Phase != rollout.Terminal {
		t.Fatalf("the next rollout waits for a host that was given up: %+v\n%s", r, w.tail())
	}
	_ = h0.step // what it reports at last is progress
	h0.activated(true)
	h0.deliver()
	if h := w.s.Hosts["h0"]; h.Overdue || h.SilentFailure {
		t.Fatalf("it reported and is given up still: %+v", h)
	}
}

// TestS9LyingSoakHoldsItsWave reports through a clock that is a day ahead: the wave
// waits for the soak on the server's own, and a canary is none before.
func TestS9LyingSoakHoldsItsWave(t *testing.T) {
	w := onOne(t, "h0 h1")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 | h1", target: bundles[1], soak: clock.Hour, canaryMax: 1}))
	w.tick()
	h0, claimed := w.claimed("h0"), w.now
	h0.activated(true)
	h0.probe()
	h0.deliver()
	h0.lie = clock.Day
	h0.elapse()
	h0.deliver()
	w.expect("h0=converged/two h1=converged/one")
	r := w.s.Find("c@r2")
	w.tick()
	if r.Cursor != 0 {
		t.Fatal("the wave was promoted on a soak of no time")
	}
	if b := plan.FirstBlock(w.s, r, w.now); b == nil || b.Detail != gate.Soak || b.Earliest != claimed.Add(clock.Hour) {
		t.Fatalf("held by %+v", b)
	}
	w.now = claimed.Add(clock.Hour) - 1
	w.tick()
	if r.Cursor != 0 {
		t.Fatal("the wave was promoted before the soak passed")
	}
	w.now++
	w.tick()
	if r.Cursor != 1 || w.s.Hosts["h1"].Grant == nil {
		t.Fatalf("its soak has passed and the wave is held by %+v", plan.FirstBlock(w.s, r, w.now))
	}
}

// TestS12HostThatNeverEnrolledHoldsNothing declares hosts whose boxes nobody unpacked:
// no wave, no end and no channel waits for them, and when they come they get the newest.
func TestS12HostThatNeverEnrolledHoldsNothing(t *testing.T) {
	w := scene(t, "h0 h1")
	w.edges = []fleet.Edge{{Gated: "c", Gates: "b", Reason: "first"}}
	w.release(fleet.Queue, w.manifest(spec{channel: "b", ref: "r1", waves: "later", target: bundles[0]}),
		w.manifest(spec{ref: "r1", waves: "new | h0 h1 new2", target: bundles[0], minSoaked: 2}))
	w.live(6)
	r := w.phase("c@r1", rollout.Terminal)
	if !strings.Contains(r.Reason, "2 hosts converged") || !strings.Contains(r.Reason, "2 hosts not enrolled") {
		t.Fatal(r.Reason)
	}
	w.phase("b@r1", rollout.Active) // with nobody enrolled it waits for the first, and holds nobody
	if b := w.why("new", gate.Presence); b == nil || !strings.Contains(b.Message, "never enrolled") {
		t.Fatalf("%+v", b)
	}
	w.release(fleet.Queue, w.manifest(spec{channel: "b", ref: "r2", waves: "later", target: bundles[1]}),
		w.manifest(spec{ref: "r2", waves: "new | h0 h1 new2", target: bundles[1]}))
	w.live(6)
	w.phase("c@r2", rollout.Terminal)
	w.phase("b@r1", rollout.Superseded)
	for _, name := range []string{"new", "later"} {
		w.enrol(name)
		w.presence(name, true)
	}
	w.live(6)
	w.expect("h0=converged/two h1=converged/two later=converged/two new=converged/two")
	w.phase("b@r2", rollout.Terminal)
	if w.count(event.Granted{}, "new") != 1 || w.count(event.Granted{}, "later") != 1 {
		t.Fatal("they were given what is older first")
	}
}

// TestS16RolloutThatGrantedNobodyGivesWay pushes a fix while every host is away, and one
// after the first grant: that one queues.
func TestS16RolloutThatGrantedNobodyGivesWay(t *testing.T) {
	w := onOne(t, "h0")
	w.presence("h0", false)
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0", target: bundles[1]}))
	w.tick()
	w.phase("c@r2", rollout.Active)
	w.release(fleet.Queue, w.manifest(spec{ref: "r3", waves: "h0", target: bundles[2]}))
	w.tick()
	w.phase("c@r2", rollout.Superseded)
	w.presence("h0", true)
	w.tick()
	w.release(fleet.Queue, w.manifest(spec{ref: "r4", waves: "h0", target: bundles[1]}))
	w.tick()
	w.phase("c@r3", rollout.Converging)
	if w.s.Find("c@r4") != nil {
		t.Fatal("it opened beside what was granted")
	}
	if a, err := plan.Why(w.s, "h0", w.now); err != nil || a.Pending != "c@r4" {
		t.Fatalf("why says nothing of what comes next: %+v, %v", a, err)
	}
	w.live(8)
	w.phase("c@r4", rollout.Terminal)
}

// TestS8PercentOfTheEnrolledHoldsTheLastWave asks for half of those that are enrolled.
func TestS8PercentOfTheEnrolledHoldsTheLastWave(t *testing.T) {
	w := onOne(t, "h0 h1 h2 h3")
	for _, name := range []string{"h1", "h2", "h3"} {
		w.presence(name, false)
	}
	m := w.manifest(spec{ref: "r2", waves: "h0 h1 h2 h3 never", target: bundles[1]})
	m.Header.Waves[0].MinSoakedPct = 50
	w.release(fleet.Queue, m)
	w.live(4)
	r := w.phase("c@r2", rollout.Converging)
	if b := plan.FirstBlock(w.s, r, w.now); b == nil || b.Detail != gate.Unproven || !strings.Contains(b.Message, "2 of 4 hosts") || !strings.Contains(b.ClearedBy, "promote") {
		t.Fatalf("held by %+v", b)
	}
	w.presence("h1", true)
	w.live(4)
	w.phase("c@r2", rollout.Terminal)
}

// TestS10HostThatGivesItsGrantBackLateIsTakenBack claims, loses the answer and is given
// up; that it gives the grant back is all that it will ever say of it.
func TestS10HostThatGivesItsGrantBackLateIsTakenBack(t *testing.T) {
	w := onOne(t, "h0")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0", target: bundles[1], maxFailures: 1}))
	w.tick()
	h0 := w.hosts["h0"]
	h0.poll()
	h0.prepare(true)
	h0.claim(true)
	grant := w.s.Hosts["h0"].Grant.ID
	for !w.s.Hosts["h0"].Overdue {
		w.now = w.now.Add(clock.Minute)
		w.tick()
	}
	h0.report(event.GrantDeclined{Grant: grant, Code: host.DeclinePrepare, Detail: "refused"})
	h0.deliver()
	if h := w.s.Hosts["h0"]; h.Overdue || h.SilentFailure || h.Grant != nil {
		t.Fatalf("still given up: %+v", h)
	}
	w.now = w.now.Add(clock.Minute)
	w.tick()
	if g := w.s.Hosts["h0"].Grant; g == nil || g.ID == grant {
		t.Fatalf("it is not asked again: %+v\n%s", g, w.tail())
	}
}
