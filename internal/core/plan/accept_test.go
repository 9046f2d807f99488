package plan_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
	"github.com/steadyfleet/steady/internal/testkit"
)

// failsEvidence is a world in which h0, alone in the first of three waves,
// converged on c@r2 and fails required evidence since.
func failsEvidence(t *testing.T) *world {
	w := onOne(t, "h0 h1 h2")
	w.release(fleet.Queue, w.evidenced("r2", "h0 | h1 | h2", fleet.Enforce))
	for range 40 {
		w.tick()
		w.hosts["h0"].work()
		if w.now = w.now.Add(5 * clock.Second); w.hosts["h0"].agent.Machine.Phase == host.Converged && w.hosts["h0"].agent.Machine.Rollout == "c@r2" {
			break
		}
	}
	w.hosts["h0"].deliver()
	w.hosts["h0"].scan("BP28-R1")
	w.tick()
	if r := w.phase("c@r2", rollout.Active); r.Cursor != 0 || r.Blocked != "0/evidence" {
		t.Fatalf("wave %d is open, held by %q", r.Cursor, r.Blocked)
	}
	return w
}

// working lets hosts work without a look at the evidence, which stays as it is.
func (w *world) working(rounds int, names ...string) {
	for range rounds {
		w.tick()
		for _, n := range names {
			w.hosts[n].work()
		}
		w.now = w.now.Add(10 * clock.Second)
	}
	w.tick()
}

func TestS42OperatorAcceptsFailingEvidenceOfAWave(t *testing.T) {
	w := failsEvidence(t)
	w.promote("c@r2", "w0")
	w.working(8, "h1", "h2")
	w.phase("c@r2", rollout.Terminal)
	w.expect("h0=converged/two h1=converged/two h2=converged/two")
	a, err := plan.Why(w.s, "h0", w.now)
	if err != nil || !strings.Contains(a.Message, "BP28-R1 of probe zscan does not pass, accepted by ada: go on") || !slices.Equal(a.Accepted, []string{"wave w0 accepted by ada: go on"}) {
		t.Fatalf("why says %+v, %v", a, err)
	}
	live, folded, restored := w.json(w.s), w.json(w.fold(len(w.log))), w.json(w.restored())
	if string(live) != string(folded) || string(live) != string(restored) {
		t.Fatal("S25, S26: what was accepted is not folded or restored")
	}
}

// Another host that comes to fail was accepted by nobody.
func TestS42AcceptedIsWhatFailedThenAndNothingMore(t *testing.T) {
	w := failsEvidence(t)
	w.promote("c@r2", "w0")
	for range 40 {
		w.tick()
		w.hosts["h1"].work()
		w.hosts["h2"].poll()
		if w.now = w.now.Add(5 * clock.Second); w.hosts["h1"].agent.Machine.Phase == host.Converged && w.hosts["h1"].agent.Machine.Rollout == "c@r2" {
			break
		}
	}
	w.hosts["h1"].deliver()
	w.hosts["h1"].scan("BP28-R9")
	w.working(4, "h2")
	if r := w.phase("c@r2", rollout.Active); r.Cursor != 1 {
		t.Fatalf("wave %d is open", r.Cursor)
	}
	if b := w.why("h2", gate.Compliance); b == nil || !strings.Contains(b.Message, "BP28-R9") || strings.Contains(b.Message, "h0") {
		t.Fatalf("why says %+v", b)
	}
	w.promote("c@r2", "w1")
	w.working(8, "h2")
	w.phase("c@r2", rollout.Terminal)
}

// A control that comes to fail on the same host was accepted by nobody; the one
// that was may come and go.
func TestS42AnotherControlOfAnAcceptedHostHoldsAgain(t *testing.T) {
	w := failsEvidence(t)
	w.promote("c@r2", "w0")
	w.hosts["h0"].scan()
	w.hosts["h0"].scan("BP28-R1", "BP28-R2")
	w.working(8, "h1", "h2")
	if r := w.phase("c@r2", rollout.Active); r.Cursor != 1 {
		t.Fatalf("wave %d is open", r.Cursor)
	}
	for _, name := range []string{"h1", "h2"} {
		if b := w.why(name, gate.Compliance); b == nil || !strings.Contains(b.Message, "host h0 fails BP28-R2 of probe zscan") || strings.Contains(b.Message, "BP28-R1") {
			t.Fatalf("why of %s says %+v", name, b)
		}
	}
	a, err := plan.Why(w.s, "h0", w.now)
	if err != nil || !strings.Contains(a.Message, "BP28-R1 of probe zscan does not pass, accepted by ada") || strings.Contains(a.Message, "BP28-R2 of probe zscan does not pass") {
		t.Fatalf("why says %+v, %v", a, err)
	}
	w.hosts["h0"].scan("BP28-R1")
	w.working(8, "h1", "h2")
	w.phase("c@r2", rollout.Terminal)
	w.expect("h0=converged/two h1=converged/two h2=converged/two")
}

// TestAuditSeesWhatWasAcceptedWrongly forges what an operator's word names.
func TestAuditSeesWhatWasAcceptedWrongly(t *testing.T) {
	w := failsEvidence(t)
	w.promote("c@r2", "w0")
	const r1, r2 = "BP28-R1 of probe zscan", "BP28-R2 of probe zscan"
	for _, failing := range [][]event.FailingEvidence{nil, {{Host: "h1", Controls: []string{r1}}}, {{Host: "h0", Controls: []string{r1}}, {Host: "h1", Controls: []string{r1}}},
		{{Host: "h0", Controls: []string{r1}}, {Host: "h9", Controls: []string{r1}}}, {{Host: "h0"}}, {{Host: "h0", Controls: []string{r2}}}, {{Host: "h0", Controls: []string{r1, r2}}}} {
		log := slices.Clone(w.log)
		i := at(t, log, event.WaveForced{}, 1)
		var ev event.WaveForced
		testkit.Must(t, json.Unmarshal(log[i].Body, &ev))
		ev.Outstanding, ev.Failing = nil, failing
		for _, f := range failing {
			ev.Outstanding = append(ev.Outstanding, f.Host)
		}
		forged := testkit.Value(event.NewEntry(log[i].At, event.Subject{}, ev))(t)
		log[i] = forged
		if v := found(w, log); !slices.Contains(named(v), "S42") {
			t.Errorf("%v: found %v", failing, v)
		}
	}
}

// TestS8LeftBehindHostsDoNotHoldTheEnd freezes a host of the first wave, forces
// that wave, and wants the rollout to end by itself, naming the host, which is
// served later.
func TestS8LeftBehindHostsDoNotHoldTheEnd(t *testing.T) {
	w := onOne(t, "h0 h1 h2")
	w.commit(plan.Freeze(w.s, "h0", w.now.Add(clock.Hour), "disk swap", "ada", w.now))
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 h1 | h2", target: bundles[1]}))
	w.live(4)
	if r := w.phase("c@r2", rollout.Active); r.Blocked != "0/waiting" {
		t.Fatalf("held by %q", r.Blocked)
	}
	w.promote("c@r2", "w0")
	w.live(4)
	if r := w.phase("c@r2", rollout.Terminal); !strings.Contains(r.Reason, "1 left waiting: h0") || strings.Contains(r.Reason, "skipped") {
		t.Fatalf("it ended because %q", r.Reason)
	}
	w.expect("h0=converged/one h1=converged/two h2=converged/two")
	w.now = w.now.Add(clock.Hour)
	w.refresh()
	w.live(4)
	w.expect("h0=converged/two")
}

// TestS16BlockedReleaseTakesNobodysPlace has a release that fails a required
// control come while a rollout goes on: that one ends by itself first.
func TestS16BlockedReleaseTakesNobodysPlace(t *testing.T) {
	w := onOne(t, "h0 h1")
	w.release(fleet.Supersede, w.manifest(spec{ref: "r2", waves: "h0 | h1", target: bundles[1]}))
	w.tick()
	bad := w.manifest(spec{ref: "r3", waves: "h0 | h1", target: bundles[2]})
	w.release(fleet.Supersede, bad)
	w.record("", verdict(bad, fleet.Enforce))
	w.tick()
	w.phase("c@r2", rollout.Active)
	if a, err := plan.Why(w.s, "h0", w.now); err != nil || a.PendingBlock == nil || a.PendingBlock.Code != gate.Queue {
		t.Fatalf("why says %+v, %v", a, err)
	}
	w.live(6)
	w.expect("h0=converged/two h1=converged/two")
	w.phase("c@r3", rollout.Failed)
	w.release(fleet.Supersede, w.manifest(spec{ref: "r4", waves: "h0 | h1", target: bundles[3]}))
	w.live(6)
	w.phase("c@r4", rollout.Terminal)
}
