package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
	"github.com/steadyfleet/steady/internal/testkit"
)

// tells has a host report what no agent did. Whatever the audit finds names the host.
func (w *world) tells(name string, events ...event.Event) {
	w.t.Helper()
	m := w.hosts[name]
	for _, ev := range events {
		m.report(ev)
	}
	entries, err := plan.Ingest(w.s, name, m.outbox, nil, event.HostHead{Incarnation: m.incarnation, Seq: m.seq}, 0, w.now)
	if err != nil {
		w.t.Fatalf("%v\n%s", err, w.tail())
	}
	m.outbox = nil
	for _, e := range entries {
		w.log = append(w.log, e)
		for _, v := range w.audit.Observe(uint64(len(w.log)), e) {
			if v.Host != name {
				w.t.Fatalf("%s\n%s", v, w.tail())
			}
		}
	}
	w.ends = append(w.ends, len(w.log))
}

// stepped is a report of a step from where the server takes the host to be.
func (w *world) stepped(name string, in host.Input, to host.Phase, manifest digest.Digest) event.HostStepped {
	w.t.Helper()
	data, err := host.EncodeInput(in)
	if err != nil {
		w.t.Fatal(err)
	}
	ev := event.HostStepped{Manifest: manifest, Input: in.Kind(), Data: data, From: w.s.Hosts[name].Machine.Phase, To: to}
	if r := w.s.Rollouts[manifest]; r != nil {
		ev.Rollout = r.Name
	}
	if to == host.Failed {
		ev.Cause = host.ActivationFailedCause
	}
	return ev
}

const ofNobody = "g99-1.x-0123456789ab-update"

// TestS23NobodyGoesOnByAClaimThatTheLogLacks: whatever a host says that it begins, and from
// wherever, by grants that this server never gave it or whose claim it never took: it stays
// where it is, whoever waits for it, and what it failed to take is counted on.
func TestS23NobodyGoesOnByAClaimThatTheLogLacks(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := onOne(t, "h0 h1")
		w.s.Lead(plan.Run(1, "x"))
		w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 h1", target: bundles[1], maxFailures: 1}))
		w.tick()
		if rapid.Bool().Draw(rt, "fails first") {
			h := w.claimed("h0")
			h.activated(false)
			h.deliver()
			w.tick()
		}
		h := w.s.Hosts["h0"]
		h.Declines = 3
		before, r1, r2 := h.Machine, w.s.Find("c@r1").Manifest, w.s.Find("c@r2").Manifest
		grants := []string{ofNobody, "", "g1"}
		if h.Grant != nil {
			grants = append(grants, h.Grant.ID) // which it did not claim
		}
		grant, manifest := rapid.SampledFrom(grants).Draw(rt, "grant"), rapid.SampledFrom([]digest.Digest{r1, r2, digest.Of([]byte("tomorrow"))}).Draw(rt, "manifest")
		to := rapid.SampledFrom(host.Phases).Draw(rt, "to")
		var in host.Input
		switch rapid.IntRange(0, 2).Draw(rt, "begins") {
		case 0:
			in = host.Claimed{Grant: grant, Rollout: "c@r2", Manifest: manifest, Target: bundles[1], From: bundles[0], Release: fleet.ReleaseVersion{Epoch: 1, Version: 99}}
		case 1:
			in, manifest = host.RevertClaimed{Grant: grant, Reason: "it says"}, before.Manifest
		default:
			in, manifest = host.RebootClaimed{Grant: grant}, before.Manifest
		}
		if grant == "g1" || grant == "" {
			h.Replayed.Times = 8 // it was believed often enough that the log was set back
		}
		w.tells("h0", w.stepped("h0", in, to, manifest))
		after := w.s.Hosts["h0"].Machine
		after.Reboot = before.Reboot // one at rest may answer the grant of a reboot
		if fmt.Sprintf("%+v", after) != fmt.Sprintf("%+v", before) {
			rt.Fatalf("%s by grant %q brought it from\n%+v to\n%+v", in.Kind(), grant, before, after)
		}
		if h.Declines != 3 {
			rt.Fatalf("%s by grant %q has it forgotten what the host did not take", in.Kind(), grant)
		}
	})
}

// TestS9ConvergedWithoutAClaimSoaksFromItsReport has a new host come with a past on what is
// rolled out now: it is no canary, and its wave not proven, before its soak has passed since then.
func TestS9ConvergedWithoutAClaimSoaksFromItsReport(t *testing.T) {
	w := onOne(t, "h0 h1")
	w.enrol("h2")
	w.enrol("h3")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h2 h3 | h0 h1", target: bundles[1], soak: clock.Hour, canaryMax: 1}))
	w.tick()
	r, came := w.s.Find("c@r2"), w.now
	w.tells("h2", w.stepped("h2", host.Booted{BootID: "b", Current: bundles[1]}, host.Converged, r.Manifest))
	if r.SoakedAt != came.Add(clock.Hour) {
		t.Fatalf("the bound of canaries opens at %s, it came at %s", r.SoakedAt, came)
	}
	w.now = came.Add(clock.Hour) - 1
	w.refresh()
	w.tick()
	if r.Cursor != 0 {
		t.Fatalf("promoted without a soak\n%s", w.tail())
	}
	w.now++
	w.tick()
	if r.Cursor != 1 || w.s.Hosts["h0"].Grant == nil {
		t.Fatalf("held by %+v\n%s", plan.FirstBlock(w.s, r, w.now), w.tail())
	}
}

// TestS10RepairThatNeverEndsHoldsNoWave claims a repair and never ends it: in the time that
// a policy allows its wave goes on without it. It keeps its slot until it reports.
func TestS10RepairThatNeverEndsHoldsNoWave(t *testing.T) {
	w := onOne(t, "h0 h1")
	w.drift("h0")
	h0, began := w.hosts["h0"], w.now
	h0.poll()
	h0.claim(false)
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 h1", target: bundles[1]}))
	w.tick()
	for range 3 {
		w.hosts["h1"].work()
		w.tick()
	}
	due := began.Add(clock.Minute + 3*clock.Minute)
	w.now = due - 1
	w.tick()
	if b := plan.FirstBlock(w.s, w.phase("c@r2", rollout.Converging), w.now); b == nil || b.Detail != gate.InFlight {
		t.Fatalf("held by %+v", b)
	}
	w.now = due
	w.tick()
	w.phase("c@r2", rollout.Terminal)
	h := w.s.Hosts["h0"]
	if h.Presence(true) != gate.Overdue || !h.InFlight() || h.SilentFailure || w.count(event.HostFailedSilently{}, "h0") != 1 {
		t.Fatalf("%+v\n%s", h, w.tail())
	}
	if a := w.whyRepair("h0"); !strings.Contains(a.Message, "did not report in time") {
		t.Fatal(a.Message)
	}
	w.live(8)
	if w.expect("h0=converged/two h1=converged/two"); h.Overdue || h.InFlight() {
		t.Fatalf("it reported: %+v", h)
	}
}

// TestS10RepairsOfAnUnwillingHostHoldNothing: who did not take five offers is waited for as little
// while it repairs, however often.
func TestS10RepairsOfAnUnwillingHostHoldNothing(t *testing.T) {
	w := onOne(t, "h0 h1")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 h1", target: bundles[1], soak: clock.Minute}))
	w.tick()
	w.hosts["h1"].work()
	for range 5 {
		g := w.s.Hosts["h0"].Grant
		w.tells("h0", event.GrantDeclined{Grant: g.ID, Code: host.DeclineBusy, Detail: "no time"})
		w.now = w.s.Hosts["h0"].NotBefore
		w.tick()
	}
	g := w.s.Hosts["h0"].Grant
	if a, err := plan.Why(w.s, "h0", w.now); err != nil || !strings.Contains(a.Message, "did not take 5 offers in a row") {
		t.Fatalf("why: %+v, %v", a, err)
	}
	w.tells("h0", event.GrantDeclined{Grant: g.ID, Code: host.DeclineBusy, Detail: "no time"})
	w.drift("h0")
	if a, err := plan.Why(w.s, "h0", w.now); err != nil || !strings.Contains(a.Message, "did not take 6 offers in a row, so that nobody waits for it, and declined its last offer: busy: no time") {
		t.Fatalf("why: %+v, %v", a, err)
	}
	w.wantRepairing("h0")
	w.hosts["h0"].poll()
	w.hosts["h0"].claim(false)
	for range 8 {
		w.hosts["h1"].work()
		w.tick()
		w.now = w.now.Add(10 * clock.Second)
	}
	if w.phase("c@r2", rollout.Terminal); !w.s.Hosts["h0"].Repairing() {
		t.Fatal("it should be repairing")
	}
}

// TestS10HostThatRebootsForEverIsGivenUp has a host stage what it booted, again and again, and claim a
// reboot each time.
func TestS10HostThatRebootsForEverIsGivenUp(t *testing.T) {
	w := staging(t, "h0 h1", spec{soak: clock.Second, maxFailures: 1})
	w.hosts["h1"].stages = false
	w.tick()
	w.hosts["h1"].work()
	w.stage("h0")
	m, last := w.s.Find("c@r2").Manifest, w.now.Add(clock.Hour)
	for n := 0; w.now < last && !w.s.Hosts["h0"].Overdue; n++ {
		w.tick()
		h := w.s.Hosts["h0"]
		if g := h.Grant; g != nil && !g.Claimed {
			w.commit(plan.Claim(w.s, "h0", g.ID, w.now))
			w.tells("h0", w.stepped("h0", host.RebootClaimed{Grant: g.ID}, host.Deferred, m))
		}
		if h.Machine.Phase == host.Deferred {
			w.tells("h0", w.stepped("h0", host.Booted{BootID: fmt.Sprint(n), Current: bundles[0]}, host.Activating, m))
			w.tells("h0", w.stepped("h0", host.ActivationDeferred{Component: "kernel"}, host.Deferred, m))
		}
		w.hosts["h1"].work()
		w.now = w.now.Add(20 * clock.Second)
	}
	w.live(1)
	if w.phase("c@r2", rollout.Terminal); !w.s.Hosts["h0"].Overdue {
		t.Fatal("nobody gave it up")
	}
}

// ahead has a host say that it runs a release which the log lacks, by a claim that it lacks.
func (w *world) ahead(name string, n int) {
	of := digest.Of([]byte("tomorrow"))
	say := func(in host.Input, to host.Phase) {
		ev := w.stepped(name, in, to, of)
		ev.Rollout = "c@tomorrow"
		w.tells(name, ev)
	}
	say(host.Claimed{Grant: fmt.Sprintf("g%d-0.y-0123456789ab-update", n), Rollout: "c@tomorrow", Manifest: of, From: bundles[0], Target: bundles[3],
		Release: fleet.ReleaseVersion{Epoch: 1, Version: 999}}, host.Activating)
	say(host.Activated{Observed: bundles[3]}, host.Soaking)
	say(host.Elapsed{}, host.Converged)
}

// TestS16OneHostsWordEndsNoRollout has a host say that it is ahead of what is rolled out while
// another release waits: the rollout goes on with the others, and gives way only where nobody is
// left who could prove it.
func TestS16OneHostsWordEndsNoRollout(t *testing.T) {
	for waves, ends := range map[string]rollout.Phase{"h0 h1 | h2": rollout.Terminal, "h0 | h1 h2": rollout.Superseded} {
		w := onOne(t, "h0 h1 h2")
		w.s.Lead(plan.Run(1, "x"))
		w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: waves, target: bundles[1]}))
		w.tick()
		w.release(fleet.Queue, w.manifest(spec{ref: "r3", waves: "h1 h2 | h0", target: bundles[2]}))
		w.ahead("h0", 1)
		if len(strings.Fields(waves)) == 4 && strings.HasPrefix(waves, "h0 h1") {
			w.tick()
			w.phase("c@r2", rollout.Active)
		}
		for range 12 {
			w.tick()
			for _, name := range []string{"h1", "h2"} {
				w.hosts[name].work()
			}
			w.now = w.now.Add(10 * clock.Second)
		}
		if r := w.s.Find("c@r2"); r.Phase != ends {
			t.Fatalf("%s: c@r2 is %s, expected %s\n%s", waves, r.Phase, ends, w.tail())
		}
		w.expect("h1=converged/three h2=converged/three")
	}
}

// TestL5WhySaysThatOffersExpire: a host that ignores its offers is told apart from one that
// cannot prepare.
func TestL5WhySaysThatOffersExpire(t *testing.T) {
	w := onOne(t, "h0 h1")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 h1", target: bundles[1]}))
	w.tick()
	w.now = w.s.Hosts["h0"].Grant.Expires
	w.tick()
	a := testkit.Value(plan.Why(w.s, "h0", w.now))(t)
	if a.Block == nil || a.Block.Code != gate.Backoff || a.Block.Message != "the host let its last offer expire" {
		t.Fatalf("%+v", a.Block)
	}
}
