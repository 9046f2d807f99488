package plan_test

import (
	"slices"
	"strings"
	"testing"

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

// staging is a scene in which hosts run bundle one, and bundle two is rolled out and
// needs a reboot everywhere.
func staging(t *testing.T, names string, sp spec) *world {
	w := onOne(t, strings.ReplaceAll(names, "|", ""))
	for _, n := range w.names() {
		w.hosts[n].stages = true
	}
	sp.ref, sp.waves, sp.target = "r2", names, bundles[1]
	w.release(fleet.Queue, w.manifest(sp))
	return w
}

// stage takes a host up to where it waits for its reboot.
func (w *world) stage(names string) {
	w.t.Helper()
	for _, n := range strings.Fields(names) {
		m := w.hosts[n]
		m.poll()
		m.prepare(true)
		m.claim(false)
		m.activated(true)
		m.deliver()
		if !w.s.Hosts[n].Machine.Staged() {
			w.t.Fatalf("%s is %+v\n%s", n, w.s.Hosts[n].Machine, w.tail())
		}
	}
}

// rebooting lists who holds a grant to reboot, or acts on one.
func (w *world) wantRebooting(names string) {
	w.t.Helper()
	var out []string
	for _, n := range w.names() {
		h := w.s.Hosts[n]
		if h.Grant != nil && h.Grant.Purpose == host.Reboot || h.Machine.Rebooting() {
			out = append(out, n)
		}
	}
	if have := strings.Join(out, " "); have != names {
		w.t.Fatalf("%q may reboot, expected %q\n%s", have, names, w.tail())
	}
}

func (w *world) whyReboot(name string, code gate.Code) *plan.RebootAnswer {
	w.t.Helper()
	a, err := plan.Why(w.s, name, w.now)
	if err != nil || a.Reboot == nil || !strings.Contains(a.Message, a.Reboot.Message) {
		w.t.Fatalf("why %s: %+v, %v", name, a, err)
	}
	if b := a.Reboot.Block; (b == nil) != (code == "") || b != nil && b.Code != code {
		w.t.Fatalf("%s waits for %+v, expected %q", name, b, code)
	}
	return a.Reboot
}

// claimReboot has a host take its grant, and say so.
func (w *world) claimReboot(name string) {
	w.t.Helper()
	m := w.hosts[name]
	m.poll()
	m.claim(false)
	m.deliver()
	if !m.rebooting {
		w.t.Fatalf("%s does not reboot: %+v\n%s", name, m.agent.Machine, w.tail())
	}
}

// TestDeferredIsNoEvidence stages a wave: it is not promoted, and no host edge is
// met, until its hosts rebooted and soaked.
func TestDeferredIsNoEvidence(t *testing.T) {
	w := staging(t, "h0 h1 | h2", spec{after: map[string][]string{"h1": {"h0"}}})
	w.tick()
	w.stage("h0")
	w.tick()
	w.wantRebooting("h0")
	if g := w.s.Hosts["h1"].Grant; g != nil {
		t.Fatalf("S14: h1 was granted %s while h0 is staged", g.ID)
	}
	if r := w.phase("c@r2", rollout.Active); r.Cursor != 0 || !strings.HasPrefix(r.Blocked, "0/in-flight") {
		t.Fatalf("S8: at wave %d, held %q", r.Cursor, r.Blocked)
	}
	w.live(14)
	w.phase("c@r2", rollout.Terminal)
	w.expect("h0=converged/two h1=converged/two h2=converged/two")
	for _, n := range w.names() {
		if w.hosts[n].boots != 1 {
			t.Errorf("%s was rebooted %d times", n, w.hosts[n].boots)
		}
	}
}

// TestS18RebootWaitsForEveryGate closes one gate after the other and asks why.
func TestS18RebootWaitsForEveryGate(t *testing.T) {
	w := staging(t, "h0", spec{})
	w.tick()
	w.stage("h0")
	w.operate(plan.Pause, "c@r2")
	w.tick()
	w.wantRebooting("")
	if a := w.whyReboot("h0", gate.Overlay); !strings.Contains(a.Message, "is staged, waits for its reboot grant (kernel") || len(a.Gates) < 7 {
		t.Errorf("why: %+v", a)
	}
	w.operate(plan.Resume, "c@r2")
	w.now = w.now.Add(48 * clock.Hour)
	w.tick()
	w.wantRebooting("")
	w.whyReboot("h0", gate.Freshness)
	w.refresh()
	w.record("", event.QuarantineAdded{Channel: "c", Digest: bundles[1], Reason: "failed elsewhere"})
	w.tick()
	w.wantRebooting("")
	w.whyReboot("h0", gate.Quarantine)
	w.commit(plan.ClearQuarantine(w.s, "c", string(bundles[1]), "mended", "ada", w.now))
	w.tick()
	w.wantRebooting("h0")
	w.whyReboot("h0", "")
	w.operate(plan.Pause, "c@r2") // after the offer and before the claim
	if _, err := plan.Claim(w.s, "h0", w.s.Hosts["h0"].Grant.ID, w.now); err == nil {
		t.Fatal("S18: the claim of a reboot was taken under a pause")
	}
}

// TestDeclinedRebootBacksOff asks again later and not at once.
func TestDeclinedRebootBacksOff(t *testing.T) {
	w := staging(t, "h0", spec{})
	w.tick()
	w.stage("h0")
	w.tick()
	m := w.hosts["h0"]
	m.report(event.GrantDeclined{Grant: w.s.Hosts["h0"].Grant.ID, Code: host.DeclineBusy, Detail: "not now"})
	m.deliver()
	w.tick()
	w.wantRebooting("")
	a := w.whyReboot("h0", gate.Backoff)
	w.now = a.Block.Earliest
	w.tick()
	w.wantRebooting("h0")
}

// TestS1RebootsAreBudgeted stages more hosts than a later release allows in flight:
// they reboot one after the other.
func TestS1RebootsAreBudgeted(t *testing.T) {
	w := staging(t, "h0 h1 h2", spec{})
	w.tick()
	w.operate(plan.Pause, "c@r2")
	for _, n := range w.names() { // claimed before the pause
		w.operate(plan.Resume, "c@r2")
		w.stage(n)
		w.operate(plan.Pause, "c@r2")
	}
	tight := *w.manifest(spec{channel: "d", ref: "r1", waves: "h9", target: bundles[1], budget: 1})
	tight.Digest, tight.Members = "", [][]string{{"h0", "h1", "h2"}}
	header := *tight.Header
	header.Version++
	tight.Header = &header
	w.release(fleet.Queue, w.docs[w.s.Channels["c"].Latest], w.docs.add(&tight))
	w.tick()
	w.operate(plan.Resume, "c@r2")
	w.tick()
	w.wantRebooting("h0")
	w.whyReboot("h1", gate.Budget)
	w.claimReboot("h0")
	w.tick()
	w.wantRebooting("h0")
	w.hosts["h0"].reboot(true)
	w.hosts["h0"].activated(true)
	w.hosts["h0"].probe()
	w.hosts["h0"].deliver()
	w.tick()
	w.wantRebooting("h1")
}

// TestS10HostThatNeverComesBackFails claims a reboot and stays away: it is given the
// time of an activation, then fails and keeps its slot.
func TestS10HostThatNeverComesBackFails(t *testing.T) {
	w := staging(t, "h0 | h1", spec{budget: 1, confirm: 10 * clock.Second})
	w.tick()
	w.stage("h0")
	w.tick()
	w.claimReboot("h0")
	w.presence("h0", false)
	w.now = w.now.Add(30 * clock.Second)
	w.tick()
	if n := w.count(event.HostFailedSilently{}, ""); n != 0 {
		t.Fatalf("failed for being away %s for its reboot\n%s", 30*clock.Second, w.tail())
	}
	w.now = w.now.Add(31 * clock.Second)
	w.tick()
	h := w.s.Hosts["h0"]
	if !h.SilentFailure || !h.InFlight() {
		t.Fatalf("%+v\n%s", h, w.tail())
	}
	w.phase("c@r2", rollout.Failed) // silence proves nothing: nobody else goes back
}

// TestRebootIntoTheWrongSystemGoesBack fails after the boot and reverts, which needs
// a reboot of its own, without a grant.
func TestRebootIntoTheWrongSystemGoesBack(t *testing.T) {
	w := staging(t, "h0", spec{})
	w.tick()
	w.stage("h0")
	w.tick()
	w.claimReboot("h0")
	m := w.hosts["h0"]
	m.reboot(true)
	m.activated(false)
	m.stagedIn = "" // the way back needs a reboot too
	m.deliver()
	w.live(6)
	w.expect("h0=reverted/one")
	if m.boots != 2 {
		t.Errorf("rebooted %d times, expected there and back", m.boots)
	}
	if n := w.count(event.Granted{}, "h0"); n != 3 { // to one, to two, and one reboot
		t.Errorf("%d grants\n%s", n, w.tail())
	}
}

// TestRevertedRolloutTakesStagedHostsBack sends a staged host back without a reboot.
func TestRevertedRolloutTakesStagedHostsBack(t *testing.T) {
	w := staging(t, "h0 h1", spec{})
	w.hosts["h1"].stages = false
	w.breakOn(bundles[1], "h1")
	w.tick()
	w.stage("h0")
	w.operate(plan.Pause, "c@r2") // the reboot waits
	w.hosts["h1"].poll()
	w.operate(plan.Resume, "c@r2")
	w.hosts["h0"].stages, w.hosts["h0"].stagedIn = false, ""
	w.hosts["h1"].work()
	w.live(12)
	w.phase("c@r2", rollout.Reverted)
	w.expect("h0=reverted/one h1=reverted/one")
}

// TestNextReleaseTakesAStagedHostOn supersedes what is staged: the host is given the
// next release in the slot that it holds, and reboots once, into that.
func TestNextReleaseTakesAStagedHostOn(t *testing.T) {
	w := staging(t, "h0 h1", spec{budget: 1})
	w.tick()
	w.stage("h0")
	w.operate(plan.Pause, "c@r2")
	w.release(fleet.Supersede, w.manifest(spec{ref: "r3", waves: "h0 h1", target: bundles[2], budget: 1}))
	w.tick()
	if g := w.s.Hosts["h0"].Grant; g == nil || g.Purpose != host.Update || g.Target != bundles[2] {
		t.Fatalf("h0 holds %+v\n%s", g, w.tail())
	}
	w.live(14)
	w.phase("c@r3", rollout.Terminal)
	w.expect("h0=converged/three h1=converged/three")
	if n := w.hosts["h0"].boots; n != 1 {
		t.Errorf("h0 was rebooted %d times", n)
	}
}

// TestForeignRebootEndsTheOffer boots what is staged while the grant is offered: it is
// taken back and holds nothing.
func TestForeignRebootEndsTheOffer(t *testing.T) {
	w := staging(t, "h0", spec{})
	w.tick()
	w.stage("h0")
	w.tick()
	w.wantRebooting("h0")
	w.hosts["h0"].restart(true)
	w.hosts["h0"].deliver()
	w.wantRebooting("")
	w.live(3)
	w.expect("h0=converged/two")
}

// TestForeignRebootEndsTheClaimedGrant loses the answer to a claim and boots what is
// staged by another hand: the grant holds nothing, and the next release is given.
func TestForeignRebootEndsTheClaimedGrant(t *testing.T) {
	w := staging(t, "h0", spec{})
	w.tick()
	w.stage("h0")
	w.tick()
	m := w.hosts["h0"]
	m.poll()
	m.claim(true)
	if g := w.s.Hosts["h0"].Grant; g == nil || !g.Claimed || m.rebooting {
		t.Fatalf("the server has %+v\n%s", g, w.tail())
	}
	m.restart(true)
	w.live(3)
	w.wantRebooting("")
	w.expect("h0=converged/two")
	m.stages = false
	w.release(fleet.Queue, w.manifest(spec{ref: "r3", waves: "h0", target: bundles[2]}))
	w.live(6)
	w.expect("h0=converged/three")
	if v := found(w, w.log); len(v) > 0 {
		t.Errorf("the log violates %v", v)
	}
}

// TestAuditOfReboots tampers with a sound log of reboots and expects the invariant by
// its name.
func TestAuditOfReboots(t *testing.T) {
	w := staging(t, "h0 h1", spec{budget: 1})
	w.live(12)
	w.phase("c@r2", rollout.Terminal)
	if v := found(w, w.log); len(v) > 0 {
		t.Fatalf("the sound log violates %v", v)
	}
	offer := slices.IndexFunc(w.log, func(e event.Entry) bool {
		return e.Type == event.Granted{}.EventType() && strings.Contains(string(e.Body), `"purpose":"reboot"`)
	})
	find := func(from int, kind, part string) int {
		return from + slices.IndexFunc(w.log[from:], func(e event.Entry) bool {
			return e.Type == kind && strings.Contains(string(e.Body), part)
		})
	}
	claim := find(offer, event.GrantClaimed{}.EventType(), "")
	took := find(claim, event.HostStepped{}.EventType(), "reboot-claimed")
	drop := func(i int) []event.Entry { return slices.Delete(slices.Clone(w.log), i, i+1) }
	insert := func(i int, ev event.Event) []event.Entry {
		e := testkit.Value(event.NewEntry(w.log[i].At, event.Subject{}, ev))(t)
		return slices.Insert(slices.Clone(w.log), i, e)
	}
	change := func(i int, field string, value any) []event.Entry {
		l := slices.Clone(w.log)
		l[i] = edited(t, l[i], field, value)
		return l
	}
	staged := find(0, event.HostStepped{}.EventType(), "activation-deferred")
	for _, c := range []struct {
		invariant string
		log       []event.Entry
	}{
		{"S17", insert(offer, event.QuarantineAdded{Channel: "c", Digest: bundles[1], Reason: "x"})},
		{"S18", insert(offer, event.RolloutPaused{Rollout: "c@r2", Reason: "x", Actor: "ada"})},
		{"S18", insert(claim, event.RolloutPaused{Rollout: "c@r2", Reason: "x", Actor: "ada"})},
		{"S23", change(offer, "target", bundles[3])},
		{"S23", drop(claim)},
		{"S23", drop(staged)},
		{"S24", change(took, "data", map[string]string{"grant": "another"})},
	} {
		if v := found(w, c.log); !slices.ContainsFunc(v, func(v audit.Violation) bool { return v.Invariant == c.invariant }) {
			t.Errorf("%s: the audit found only %v", c.invariant, v)
		}
	}
}

// TestS23RevokedHostIsNotRebooted: a host whose identity ended is offered nothing,
// not even the reboot that it waits for.
func TestS23RevokedHostIsNotRebooted(t *testing.T) {
	w := staging(t, "h0", spec{})
	w.tick()
	w.stage("h0")
	w.commit(plan.Revoke(w.s, "h0", "stolen", "ada", w.now))
	w.tick()
	w.wantRebooting("")
	w.whyReboot("h0", gate.Identity)
}

// TestS42BlockedRolloutRebootsNobody: controls that begin to fail hold what is
// staged as well, until a later release passes them.
func TestS42BlockedRolloutRebootsNobody(t *testing.T) {
	w := staging(t, "h0", spec{})
	w.tick()
	w.stage("h0")
	m := w.docs[w.s.Find("c@r2").Manifest]
	w.record("", verdict(m, fleet.Enforce))
	w.tick()
	w.wantRebooting("")
	w.whyReboot("h0", gate.Compliance)
	pass := verdict(m, fleet.Enforce)
	pass.Failures = nil
	w.release(fleet.Queue, m)
	w.record("", pass)
	w.tick()
	w.wantRebooting("h0")
}
