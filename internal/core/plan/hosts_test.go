package plan_test

import (
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

func TestS16SupersedeEndsOffersAndRefusesClaims(t *testing.T) {
	w := onOne(t, "h0 h1")
	w.release(fleet.Supersede, w.manifest(spec{ref: "r2", waves: "h0 h1", target: bundles[1]}))
	w.tick()
	grant := w.s.Hosts["h0"].Grant.ID
	w.hosts["h1"].poll()
	w.hosts["h1"].prepare(true)
	w.hosts["h1"].claim(false)
	w.release(fleet.Supersede, w.manifest(spec{ref: "r3", waves: "h0 h1", target: bundles[2]}))
	w.tick()
	w.phase("c@r2", rollout.Superseded)
	if _, err := plan.Claim(w.s, "h0", grant, w.now); err == nil {
		t.Fatal("a claim of a superseded rollout was accepted")
	}
	w.live(6)
	w.phase("c@r3", rollout.Terminal)
	w.expect("h0=converged/three h1=converged/three")
}

func TestS13ReturningHostGetsLastConvergedUntilItsWaveOpens(t *testing.T) {
	w := onOne(t, "h0 h1")
	w.presence("h1", false)
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 | h1", target: bundles[1]}))
	w.live(4)
	w.phase("c@r2", rollout.Terminal)
	w.hosts["h0"].online = false
	w.release(fleet.Queue, w.manifest(spec{ref: "r3", waves: "h0 | h1", target: bundles[2]}))
	w.tick() // h0 is granted and does nothing
	w.presence("h1", true)
	w.hosts["h0"].online = false
	w.live(2)
	w.expect("h1=converged/two")
	w.presence("h0", true)
	w.live(8)
	w.expect("h0=converged/three h1=converged/three")
}

func TestS13HaltDoesNotTakeHealthyHostsBack(t *testing.T) {
	w := onOne(t, "h0 h1 h2")
	w.breakOn(bundles[1], "h1")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 | h1 | h2", target: bundles[1], policy: fleet.Halt}))
	w.live(8)
	w.phase("c@r2", rollout.Failed)
	w.expect("h0=converged/two h1=failed/two h2=converged/one")
}

// TestS10FailedHostThatClaimsAFixAndGoesSilentFails: a host that failed and stayed there
// acts again from the claim of the next rollout on.
func TestS10FailedHostThatClaimsAFixAndGoesSilentFails(t *testing.T) {
	w := onOne(t, "h0")
	w.breakOn(bundles[1], "h0")
	w.release(fleet.Supersede, w.manifest(spec{ref: "r2", waves: "h0", target: bundles[1], policy: fleet.Halt}))
	w.live(4)
	w.phase("c@r2", rollout.Failed)
	w.release(fleet.Supersede, w.manifest(spec{ref: "r3", waves: "h0", target: bundles[2], confirm: 30 * clock.Second}))
	w.tick()
	h0 := w.hosts["h0"]
	h0.poll()
	h0.prepare(true)
	h0.claim(false)
	w.presence("h0", false)
	w.now = w.now.Add(30 * clock.Second)
	w.tick()
	if !w.s.Hosts["h0"].SilentFailure {
		t.Fatalf("the silent host is not failed\n%s", w.tail())
	}
	w.phase("c@r3", rollout.Failed)
}

func TestS10SilentHostFailsAndKeepsItsSlotUntilItReports(t *testing.T) {
	w := onOne(t, "h0 h1")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 h1", target: bundles[1], budget: 1, confirm: 30 * clock.Second}))
	w.tick()
	h0 := w.hosts["h0"]
	h0.poll()
	h0.prepare(true)
	h0.claim(false)
	w.presence("h0", false)
	w.now = w.now.Add(29 * clock.Second)
	w.tick()
	if w.s.Hosts["h0"].SilentFailure {
		t.Fatal("failed before its deadline")
	}
	w.now = w.now.Add(clock.Second)
	w.tick()
	if !w.s.Hosts["h0"].SilentFailure || w.s.Budgets()[0].InFlight != 1 {
		t.Fatal("the silent host is not failed, or its slot is free")
	}
	w.phase("c@r2", rollout.Failed) // nobody is sent back on the word of silence
	if n := w.count(event.Granted{}, "h1"); n != 1 {
		t.Fatalf("h1 was granted %d times", n)
	}
	h0.activated(true)
	w.presence("h0", true)
	w.live(2)
	if w.s.Hosts["h0"].SilentFailure || w.s.Budgets()[0].InFlight != 0 {
		t.Fatalf("the host reported and still counts as silent\n%s", w.tail())
	}
}

func TestS22FailureProvenLateStillSendsTheOthersBack(t *testing.T) {
	w := onOne(t, "h0 h1")
	w.breakOn(bundles[1], "h0")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 h1", target: bundles[1], confirm: 30 * clock.Second}))
	w.tick()
	for _, n := range []string{"h0", "h1"} {
		w.hosts[n].poll()
		w.hosts[n].prepare(true)
		w.hosts[n].claim(false)
	}
	w.presence("h0", false)
	w.now = w.now.Add(31 * clock.Second)
	w.tick()
	w.phase("c@r2", rollout.Failed)
	w.live(2)
	w.expect("h1=converged/two")
	w.presence("h0", true)
	w.live(6)
	w.phase("c@r2", rollout.Reverted)
	w.expect("h0=reverted/one h1=reverted/one")
}

func TestS8AllAtTargetEndsWithoutAGrant(t *testing.T) {
	w := onOne(t, "h0 h1")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 | h1", target: bundles[0]}))
	w.live(2)
	w.phase("c@r2", rollout.Terminal)
	if n := w.count(event.Granted{}, ""); n != 2 {
		t.Fatalf("%d grants, of which two were for the first release", n)
	}
}

func TestS1NewIncarnationFreesTheSlot(t *testing.T) {
	w := onOne(t, "h0 h1")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 h1", target: bundles[1], budget: 1}))
	w.tick()
	w.hosts["h0"].poll()
	w.hosts["h0"].prepare(true)
	w.hosts["h0"].claim(false)
	w.enrol("h0")
	if w.s.Budgets()[0].InFlight != 0 {
		t.Fatal("the slot is still held")
	}
	w.live(3)
	w.expect("h1=converged/two")
	w.presence("h0", true)
	w.live(4)
	w.expect("h0=converged/two")
}

func TestS18PauseRefusesClaimsAndResumeGoesOn(t *testing.T) {
	w := onOne(t, "h0")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0", target: bundles[1]}))
	w.tick()
	w.operate(plan.Pause, "c@r2")
	w.hosts["h0"].poll()
	w.hosts["h0"].prepare(true)
	w.hosts["h0"].claim(false)
	w.expect("h0=converged/one")
	w.live(8)
	w.expect("h0=converged/one")
	w.operate(plan.Resume, "c@r2")
	w.live(4)
	w.expect("h0=converged/two")
}

func TestS13HostThatMovedIsNotPassedToAndFro(t *testing.T) {
	w := scene(t, "h0 h1 h2")
	w.release(fleet.Queue, w.manifest(spec{channel: "a", ref: "r1", waves: "h0 h1", target: bundles[0]}),
		w.manifest(spec{channel: "b", ref: "r1", waves: "h2", target: bundles[1]}))
	w.live(4)
	w.hosts["h0"].online = false // keeps channel a's next rollout from ending
	w.presence("h0", false)
	w.release(fleet.Queue, w.manifest(spec{channel: "a", ref: "r2", waves: "h0", target: bundles[2]}),
		w.manifest(spec{channel: "b", ref: "r2", waves: "h1 h2", target: bundles[3]}))
	w.live(12)
	w.expect("h1=converged/four h2=converged/four")
	if n := w.count(event.Granted{}, "h1"); n != 2 {
		t.Fatalf("S13: h1 was granted %d times\n%s", n, w.tail())
	}
}

func TestS22HostThatReturnsAfterTheRevertGoesBackToo(t *testing.T) {
	w := onOne(t, "h0 h1 h2")
	w.breakOn(bundles[1], "h1")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 | h1 h2", target: bundles[1]}))
	for w.s.Hosts["h0"].Machine.Phase != host.Converged || w.s.Hosts["h0"].Machine.Current != bundles[1] {
		w.live(1)
	}
	w.presence("h0", false)
	w.live(8)
	w.phase("c@r2", rollout.Reverted)
	w.expect("h0=converged/two h1=reverted/one")
	w.presence("h0", true)
	w.live(4)
	w.expect("h0=reverted/one")
}

func TestS13HostLeftOnARevertedReleaseGetsTheLastConverged(t *testing.T) {
	w := onOne(t, "h0 h1 h2")
	w.breakOn(bundles[1], "h1")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 | h1 h2", target: bundles[1]}))
	for w.s.Hosts["h0"].Machine.Current != bundles[1] || w.s.Hosts["h0"].Machine.Phase != host.Converged {
		w.live(1)
	}
	w.presence("h0", false)
	w.live(8)
	w.phase("c@r2", rollout.Reverted)
	w.presence("h1", false) // so that the first wave of the fix cannot be proven
	w.release(fleet.Queue, w.manifest(spec{ref: "r3", waves: "h1 | h0 h2", target: bundles[2]}))
	w.live(2)
	w.presence("h0", true)
	w.live(4)
	w.expect("h0=converged/one h2=reverted/one")
	w.presence("h1", true)
	w.live(6)
	w.expect("h0=converged/three h1=converged/three h2=converged/three")
}

func TestS15RevertedPredecessorKeepsItsChannelShut(t *testing.T) {
	w := scene(t, "h0 h1")
	w.edges = []fleet.Edge{{Gates: "a", Gated: "b", Reason: "a first"}}
	w.breakOn(bundles[1], "h0")
	both := func(ref string, d digest.Digest) {
		w.release(fleet.Queue, w.manifest(spec{channel: "a", ref: ref, waves: "h0", target: d}),
			w.manifest(spec{channel: "b", ref: ref, waves: "h1", target: d}))
	}
	both("r1", bundles[0])
	w.live(6)
	both("r2", bundles[1])
	w.live(8)
	w.phase("a@r2", rollout.Reverted)
	w.expect("h0=reverted/one h1=converged/one")
	both("r3", bundles[2])
	w.live(8)
	w.expect("h0=converged/three h1=converged/three")
}

func TestS15CancelOpensTheWayPastARevertedPredecessor(t *testing.T) {
	w := scene(t, "h0 h1")
	w.edges = []fleet.Edge{{Gates: "a", Gated: "b", Reason: "a first"}}
	w.breakOn(bundles[1], "h0")
	w.release(fleet.Queue, w.manifest(spec{channel: "a", ref: "r2", waves: "h0", target: bundles[1]}),
		w.manifest(spec{channel: "b", ref: "r2", waves: "h1", target: bundles[1]}))
	w.live(6)
	w.phase("a@r2", rollout.Reverted)
	if w.s.Find("b@r2") != nil {
		t.Fatal("the gated channel opened")
	}
	w.operate(plan.Cancel, "a@r2")
	w.live(4)
	w.phase("b@r2", rollout.Terminal)
}

func TestS14EdgeWaitsForItsPredecessor(t *testing.T) {
	w := onOne(t, "h0 h1")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 h1", target: bundles[1], after: map[string][]string{"h0": {"h1"}}}))
	w.tick()
	if w.s.Hosts["h0"].Grant != nil || w.s.Hosts["h1"].Grant == nil {
		t.Fatal("the gated host went first")
	}
	a, err := plan.Why(w.s, "h0", w.now)
	if err != nil || a.Block == nil || a.Block.Code != "host-edge" || !strings.Contains(a.Block.WaitsFor, "h1") {
		t.Fatalf("L5: why says %+v, %v", a, err)
	}
	w.live(4)
	w.expect("h0=converged/two h1=converged/two")
}
