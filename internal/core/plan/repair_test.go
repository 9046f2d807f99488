package plan_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/agent"
	"github.com/steadyfleet/steady/internal/core/audit"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
	"github.com/steadyfleet/steady/internal/testkit"
)

// budgeted is a scene in which every host converged on bundle one under a budget.
func budgeted(t *testing.T, names string, max int) *world {
	w := scene(t, names)
	w.release(fleet.Queue, w.manifest(spec{ref: "r1", waves: names, target: bundles[0], budget: max}))
	w.live(12)
	w.phase("c@r1", rollout.Terminal)
	return w
}

// drift has every named host need a repair, and tells the server.
func (w *world) drift(names string) {
	w.t.Helper()
	for _, n := range strings.Fields(names) {
		w.hosts[n].drifts(true, "exec/app")
		w.hosts[n].deliver()
	}
	w.tick()
}

// granted lists who holds a grant to repair.
func (w *world) repairing() string {
	var out []string
	for _, n := range w.names() {
		if g := w.s.Hosts[n].Grant; g != nil && g.Purpose == host.Repair {
			out = append(out, n)
		}
	}
	return strings.Join(out, " ")
}

func (w *world) wantRepairing(names string) {
	w.t.Helper()
	if have := w.repairing(); have != names {
		w.t.Fatalf("%q may repair, expected %q\n%s", have, names, w.tail())
	}
}

func (w *world) whyRepair(name string) *plan.RepairAnswer {
	w.t.Helper()
	a, err := plan.Why(w.s, name, w.now)
	if err != nil || a.Repair == nil || !strings.Contains(a.Message, a.Repair.Message) {
		w.t.Fatalf("why %s: %+v, %v", name, a, err)
	}
	return a.Repair
}

// mend takes a host through its grant to repair.
func (w *world) mend(name string) {
	m := w.hosts[name]
	m.poll()
	m.claim(false)
	w.tick() // so that only the freed slot can bring the next one
	m.repair()
	m.repair()
	m.deliver()
	w.tick()
}

// TestS1RepairsOfACommonCauseAreBudgeted has all hosts drift at once: no more may
// repair than the budget allows, first come first served, and all of them do.
func TestS1RepairsOfACommonCauseAreBudgeted(t *testing.T) {
	w := budgeted(t, "h0 h1 h2 h3", 2)
	w.drift("h3 h1 h0 h2")
	w.wantRepairing("h1 h3")
	if a := w.whyRepair("h0"); a.Block == nil || a.Block.Code != gate.Budget || a.Resources[0] != "exec/app" {
		t.Fatalf("h0 waits for %+v", a)
	}
	if a := w.whyRepair("h1"); a.Block != nil || a.Grant == "" {
		t.Fatalf("h1 has %+v", a)
	}
	w.mend("h1")
	w.wantRepairing("h0 h3")
	w.live(6)
	w.wantRepairing("")
	if n := w.count(event.RepairOver{}, ""); n != 4 {
		t.Fatalf("%d repairs ended\n%s", n, w.tail())
	}
	w.expect("h0=converged/one h1=converged/one h2=converged/one h3=converged/one")
}

// TestS1SilentRepairKeepsItsSlot has a host claim and go away: it fails no rollout,
// and nobody takes its slot until it reports.
func TestS1SilentRepairKeepsItsSlot(t *testing.T) {
	w := budgeted(t, "h0 h1", 1)
	w.drift("h0 h1")
	w.wantRepairing("h0")
	w.hosts["h0"].poll()
	w.hosts["h0"].claim(false)
	w.presence("h0", false)
	w.now = w.now.Add(clock.Hour)
	w.tick()
	w.wantRepairing("h0")
	if a := w.whyRepair("h0"); !strings.Contains(a.Message, "silent") {
		t.Errorf("why: %s", a.Message)
	}
	if n := w.count(event.HostFailedSilently{}, ""); n != 0 {
		t.Errorf("a repair was taken for a rollout's: %d failures", n)
	}
	w.presence("h0", true)
	w.live(4)
	w.wantRepairing("")
}

// TestUnclaimedRepairFreesItsSlot lets grants run out, or end when a host heals.
func TestUnclaimedRepairFreesItsSlot(t *testing.T) {
	w := budgeted(t, "h0 h1", 1)
	w.drift("h0 h1")
	w.hosts["h0"].drifts(false, "exec/app")
	w.hosts["h0"].deliver()
	w.tick()
	w.wantRepairing("h1")
	w.presence("h1", false)
	w.now = w.now.Add(2 * clock.Minute)
	w.tick()
	w.wantRepairing("")
	if a := w.whyRepair("h1"); a.Block == nil || a.Block.Code != gate.Presence {
		t.Errorf("h1 waits for %+v", a)
	}
}

// TestRolloutGoesBeforeAnIdleRepair opens a rollout while a repair is offered, and
// while another is claimed: the first gives way, the second ends first.
func TestRolloutGoesBeforeAnIdleRepair(t *testing.T) {
	w := budgeted(t, "h0 h1", 2)
	w.drift("h0 h1")
	w.hosts["h1"].poll()
	w.hosts["h1"].claim(false)
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 h1", target: bundles[1], budget: 2}))
	w.tick()
	if g := w.s.Hosts["h0"].Grant; g == nil || g.Purpose != host.Update {
		t.Fatalf("h0 holds %+v\n%s", g, w.tail())
	}
	w.wantRepairing("h1")
	if a, _ := plan.Why(w.s, "h1", w.now); a.Status != rollout.Busy.String() || !strings.Contains(a.Message, "repair") {
		t.Errorf("h1 is %s: %s", a.Status, a.Message)
	}
	w.live(6)
	w.phase("c@r2", rollout.Terminal)
	w.expect("h0=converged/two h1=converged/two")
	if w.s.Hosts["h0"].Repair != nil || w.s.Hosts["h1"].Repair != nil {
		t.Error("what waited is not over")
	}
}

// TestRepairsGoOnWhileARolloutIsPausedOrStale checks which gates repairs do not
// ask: they bring nothing new.
func TestRepairsGoOnWhileARolloutIsPausedOrStale(t *testing.T) {
	w := budgeted(t, "h0 h1", 1)
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 | h1", target: bundles[1], budget: 1}))
	w.tick()
	w.operate(plan.Pause, "c@r2")
	w.now = w.now.Add(48 * clock.Hour)
	w.drift("h1")
	w.wantRepairing("h1")
	w.mend("h1")
	w.wantRepairing("")
	w.expect("h1=converged/one")
}

// TestS17QuarantinedBundleIsNotRepaired holds the repair of a bundle that failed.
func TestS17QuarantinedBundleIsNotRepaired(t *testing.T) {
	w := budgeted(t, "h0", 1)
	w.record("", event.QuarantineAdded{Channel: "c", Digest: bundles[0], Reason: "failed elsewhere"})
	w.drift("h0")
	w.wantRepairing("")
	if a := w.whyRepair("h0"); a.Block == nil || a.Block.Code != gate.Quarantine {
		t.Fatalf("h0 waits for %+v", a)
	}
	w.commit(plan.ClearQuarantine(w.s, "c", string(bundles[0]), "mended", "ada", w.now))
	w.tick()
	w.wantRepairing("h0")
	w.record("", event.QuarantineAdded{Channel: "c", Digest: bundles[0], Reason: "failed elsewhere"})
	if _, err := plan.Claim(w.s, "h0", w.s.Hosts["h0"].Grant.ID, w.now); err == nil {
		t.Fatal("S17: the claim of a repair of a quarantined bundle was taken")
	}
}

// TestRevertedRolloutIsNotRepaired sends a host back instead of repairing what a
// reverting rollout takes from it.
func TestRevertedRolloutIsNotRepaired(t *testing.T) {
	w := onOne(t, "h0 h1 h2")
	m := w.manifest(spec{ref: "r2", waves: "h0 h1 h2", target: bundles[1], budget: 3})
	w.release(fleet.Queue, m)
	w.breakOn(bundles[1], "h2")
	w.tick()
	for _, n := range []string{"h0", "h1"} {
		w.hosts[n].work()
		w.hosts[n].work()
	}
	w.expect("h0=converged/two h1=converged/two")
	w.drift("h0")
	w.wantRepairing("h0")
	w.live(14)
	w.phase("c@r2", rollout.Reverted)
	w.expect("h0=reverted/one h1=reverted/one h2=reverted/one")
	w.wantRepairing("")
	w.drift("h0") // a host that went back is repaired like any other
	w.wantRepairing("h0")
}

// TestDeclinedRepairBacksOffAlone checks that a host which cannot repair now is
// asked again later, and that no rollout waits for that.
func TestDeclinedRepairBacksOffAlone(t *testing.T) {
	w := budgeted(t, "h0", 1)
	w.drift("h0")
	m := w.hosts["h0"]
	m.report(event.GrantDeclined{Grant: w.s.Hosts["h0"].Grant.ID, Code: host.DeclineBusy, Detail: "not now"})
	m.deliver()
	w.tick()
	w.wantRepairing("")
	a := w.whyRepair("h0")
	if a.Block == nil || a.Block.Code != gate.Backoff || a.Block.Earliest <= w.now {
		t.Fatalf("h0 waits for %+v", a.Block)
	}
	if w.s.Hosts["h0"].NotBefore != 0 {
		t.Error("a rollout waits for it too")
	}
	w.now = a.Block.Earliest
	w.tick()
	w.wantRepairing("h0")
}

// TestRepairReportIsBounded refuses a report that names too much or nothing.
func TestRepairReportIsBounded(t *testing.T) {
	w := budgeted(t, "h0", 1)
	for _, names := range [][]string{nil, make([]string, host.MaxRepairNames+1)} {
		h := w.s.Hosts["h0"]
		body := testkit.Value(json.Marshal(event.RepairNeeded{RepairNeed: host.RepairNeed{Resources: names, Reason: "x"}}))(t)
		e := event.Entry{At: 1, Type: event.RepairNeeded{}.EventType(), Subject: event.HostSubject("h0"), Incarnation: 1, HostSeq: h.Seq + 1, Body: body}
		if _, err := plan.Ingest(w.s, "h0", []event.Entry{e}, nil, event.HostHead{Incarnation: 1, Seq: h.Seq + 1}, 0, w.now); err == nil {
			t.Errorf("a report of %d resources was taken", len(names))
		}
	}
}

// TestAuditOfRepairs tampers with a sound log of repairs and expects the invariant
// by its name.
func TestAuditOfRepairs(t *testing.T) {
	w := budgeted(t, "h0 h1 h2", 1)
	w.drift("h0 h1 h2")
	w.live(10)
	if v := found(w, w.log); len(v) > 0 {
		t.Fatalf("the sound log violates %v", v)
	}
	first := at(t, w.log, event.RepairNeeded{}, 3) + 1
	for w.log[first].Type != (event.Granted{}).EventType() {
		first++
	}
	need, over := at(t, w.log, event.RepairNeeded{}, 1), at(t, w.log, event.RepairOver{}, 1)
	claim := first
	for w.log[claim].Type != (event.GrantClaimed{}).EventType() {
		claim++
	}
	drop := func(i int) []event.Entry { return slices.Delete(slices.Clone(w.log), i, i+1) }
	insert := func(i int, e event.Entry) []event.Entry { return slices.Insert(slices.Clone(w.log), i, e) }
	change := func(i int, field string, value any) []event.Entry {
		l := slices.Clone(w.log)
		l[i] = edited(t, l[i], field, value)
		return l
	}
	other := edited(t, w.log[first], "grant", "x")
	other.Subject = event.HostSubject("h2")
	bad := testkit.Value(event.NewEntry(w.now, event.Subject{}, event.QuarantineAdded{Channel: "c", Digest: bundles[0], Reason: "x"}))(t)
	for _, c := range []struct {
		invariant string
		log       []event.Entry
	}{
		{"S1", insert(first+1, other)},
		{"S17", insert(first, bad)},
		{"S17", insert(claim, bad)},
		{"S23", change(first, "target", bundles[3])},
		{"S23", drop(claim)},
		{"S24", insert(over+1, func() event.Entry { e := w.log[over]; e.HostSeq++; return e }())},
		{"S24", change(over, "grant", "another")},
		{"S28", change(need, "reason", "")},
		{"S28", change(over, "detail", "")},
		{"S28", drop(need)},
	} {
		v := found(w, c.log)
		if !slices.ContainsFunc(v, func(v audit.Violation) bool { return v.Invariant == c.invariant }) {
			t.Errorf("%s: the audit found only %v", c.invariant, v)
		}
	}
}

// TestRepairThatWaitsForAReboot: the host frees its slot for others while it waits, and why and the grant
// name the reboot.
func TestRepairThatWaitsForAReboot(t *testing.T) {
	w := budgeted(t, "h0 h1", 1)
	w.drift("h0 h1")
	w.wantRepairing("h0")
	m := w.hosts["h0"]
	m.poll()
	m.claim(false)
	w.tick()
	_ = m.step(agent.RepairsObserved{Staged: []string{"exec/app"}, Component: "init"})
	m.deliver()
	w.tick()
	w.wantRepairing("h1")
	if a := w.whyRepair("h0"); a.Reboot != "init" || !strings.Contains(a.Message, "waits for a reboot: init") || a.Block == nil || a.Block.Code != gate.Budget {
		t.Errorf("why: %+v", a)
	}
	w.mend("h1")
	w.wantRepairing("h0")
	if !strings.Contains(w.tail(), "the repair of exec/app waits for a reboot: init") {
		t.Errorf("the grant does not say why\n%s", w.tail())
	}
	m.poll()
	m.claim(false)
	w.tick()
	if a := w.whyRepair("h0"); !strings.Contains(a.Message, "is rebooting under grant") {
		t.Errorf("why: %+v", a)
	}
}
