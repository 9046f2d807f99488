package plan_test

import (
	"slices"
	"testing"

	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
	"github.com/steadyfleet/steady/internal/testkit"
)

func TestS8WaveWithToleratedFailuresPromotes(t *testing.T) {
	w := onOne(t, "h0 h1 h2")
	w.breakOn(bundles[1], "h0")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 h1 | h2", target: bundles[1], maxFailures: 1}))
	w.live(6)
	w.phase("c@r2", rollout.Terminal)
	w.expect("h0=reverted/one h1=converged/two h2=converged/two")
}

func TestS8LastWaveOfToleratedFailuresEnds(t *testing.T) {
	w := onOne(t, "h0 h1")
	w.breakOn(bundles[1], "h1")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 | h1", target: bundles[1], maxFailures: 1}))
	w.live(6)
	w.phase("c@r2", rollout.Terminal)
	w.expect("h0=converged/two h1=reverted/one")
}

func TestS8NobodyConvergedNeverPromotes(t *testing.T) {
	w := onOne(t, "h0 h1")
	w.breakOn(bundles[1], "h0")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 | h1", target: bundles[1], maxFailures: 1}))
	w.live(6)
	if r := w.phase("c@r2", rollout.Active); r.Blocked != "0/evidence" || r.Cursor != 0 {
		t.Fatalf("rollout is held by %q at wave %d", r.Blocked, r.Cursor)
	}
	w.expect("h1=converged/one")
}

func TestS8AllOfFirstWaveOfflineHolds(t *testing.T) {
	w := onOne(t, "h0 h1 h2")
	w.presence("h0", false)
	w.presence("h1", false)
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 h1 | h2", target: bundles[1]}))
	w.live(4)
	if r := w.phase("c@r2", rollout.Active); r.Blocked != "0/evidence" {
		t.Fatalf("held by %q", r.Blocked)
	}
	w.expect("h2=converged/one")
	w.presence("h1", true)
	w.live(6)
	w.phase("c@r2", rollout.Terminal)
	w.expect("h1=converged/two h2=converged/two")
}

func TestS11S12OfflineHostIsSkippedAndServedWhenItReturns(t *testing.T) {
	w := onOne(t, "h0 h1 h2")
	w.presence("h0", false)
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 h1 | h2", target: bundles[1]}))
	w.live(5)
	w.phase("c@r2", rollout.Terminal)
	w.expect("h0=converged/one h1=converged/two h2=converged/two")
	for i, e := range w.log {
		ev, isPromotion := testkit.Value(event.Decode(e))(t).(event.WavePromoted)
		if isPromotion && ev.Rollout == "c@r2" && (ev.Skipped != 1 || !slices.Equal(ev.SkippedHosts, []string{"h0"})) {
			t.Fatalf("event %d skips %d hosts: %v", i, ev.Skipped, ev.SkippedHosts)
		}
		if moved, ok := testkit.Value(event.Decode(e))(t).(event.RolloutMoved); ok && moved.Rollout == "c@r2" && moved.To == string(rollout.Terminal) && !slices.Equal(moved.SkippedHosts, []string{"h0"}) {
			t.Fatalf("the rollout ends without %v", moved.SkippedHosts)
		}
	}
	for i := range 3 {
		r := w.s.Find("c@r2")
		if name := r.Plan.Leaves[i].Host; r.SkippedMember(i) != (name == "h0") {
			t.Fatalf("member %s of a rollout that is over: skipped %t", name, r.SkippedMember(i))
		}
	}
	w.presence("h0", true)
	w.live(3)
	w.expect("h0=converged/two")
}

func TestS18ResumeAcknowledgesWhatFailed(t *testing.T) {
	w := onOne(t, "h0 h1 h2")
	w.breakOn(bundles[1], "h0")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 h1 | h2", target: bundles[1], policy: fleet.Halt}))
	w.live(4)
	w.phase("c@r2", rollout.Failed)
	w.expect("h0=failed/two h1=converged/two h2=converged/one")
	w.operate(plan.Resume, "c@r2")
	w.commit(plan.ClearQuarantine(w.s, "c", string(bundles[1]), "looked at", "ada", w.now))
	w.live(4)
	w.phase("c@r2", rollout.Terminal)
	w.expect("h0=failed/two h2=converged/two")
}

func TestS8PauseForgivesNoFailure(t *testing.T) {
	w := onOne(t, "h0 h1 h2 h3")
	w.breakOn(bundles[1], "h0 h1")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 h1 h2 h3", target: bundles[1], maxFailures: 1, budget: 1}))
	for w.count(event.BundleQuarantined{}, "") == 0 {
		w.live(1)
	}
	w.operate(plan.Pause, "c@r2")
	w.operate(plan.Resume, "c@r2")
	w.live(10)
	w.phase("c@r2", rollout.Reverted)
}

func TestS22RollbackBringsEveryGrantedHostBack(t *testing.T) {
	w := onOne(t, "h0 h1 h2")
	w.breakOn(bundles[1], "h1")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 | h1 h2", target: bundles[1]}))
	w.live(8)
	w.phase("c@r2", rollout.Reverted)
	w.expect("h0=reverted/one h1=reverted/one h2=reverted/one")
}

func TestS16NewReleaseWaitsForTheRevertAndOpensAfter(t *testing.T) {
	for _, mode := range []fleet.OnNewRef{fleet.Queue, fleet.Supersede} {
		w := onOne(t, "h0 h1 h2")
		w.breakOn(bundles[1], "h1")
		w.release(mode, w.manifest(spec{ref: "r2", waves: "h0 | h1 h2", target: bundles[1]}))
		for w.count(event.RolloutReverting{}, "") == 0 {
			w.live(1)
		}
		w.release(mode, w.manifest(spec{ref: "r3", waves: "h0 h1 h2", target: bundles[2]}))
		w.tick()
		if w.s.Find("c@r3") != nil {
			t.Fatalf("%s: r3 opened while r2 reverts", mode)
		}
		w.live(10)
		w.phase("c@r2", rollout.Reverted)
		w.phase("c@r3", rollout.Terminal)
		w.expect("h0=converged/three h1=converged/three h2=converged/three")
	}
}

func TestS1FixReachesFailedHostInTheSlotItHolds(t *testing.T) {
	for failed, other := range map[string]string{"h0": "h1", "h1": "h0"} {
		w := onOne(t, "h0 h1")
		w.breakOn(bundles[1], failed)
		w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: failed + " | " + other, target: bundles[1], policy: fleet.Halt, budget: 1}))
		w.live(4)
		w.phase("c@r2", rollout.Failed)
		w.expect(failed + "=failed/two")
		if b := w.s.Budgets()[0]; b.InFlight != 1 {
			t.Fatalf("the failed host holds %d slots", b.InFlight)
		}
		w.release(fleet.Queue, w.manifest(spec{ref: "r3", waves: "h0 h1", target: bundles[2], policy: fleet.Halt, budget: 1}))
		w.live(8)
		w.phase("c@r3", rollout.Terminal)
		w.expect("h0=converged/three h1=converged/three")
		if got := w.hosts[failed].agent.Machine.From; got != bundles[0] {
			t.Fatalf("S21: the fix would go back to %s", bundleName(got))
		}
	}
}

func TestS8HostBackInAnEarlierWaveIsWaitedFor(t *testing.T) {
	w := onOne(t, "h0 h1 h2 h3")
	w.presence("h0", false)
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 h1 | h2 | h3", target: bundles[1]}))
	for w.s.Find("c@r2") == nil || w.s.Find("c@r2").Cursor == 0 {
		w.live(1)
	}
	w.presence("h0", true)
	h0 := w.hosts["h0"]
	w.tick()
	h0.poll()
	h0.prepare(true)
	h0.claim(false)
	h0.online = false // it is activating, and says nothing more
	w.live(2)
	if r := w.phase("c@r2", rollout.Active); r.Cursor != 1 {
		t.Fatalf("wave %d is open while a host of the first is activating", r.Cursor)
	}
	h0.online = true
	w.live(6)
	w.phase("c@r2", rollout.Terminal)
	w.expect("h0=converged/two h3=converged/two")
}

func TestS16QueueKeepsTheLatest(t *testing.T) {
	w := onOne(t, "h0")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0", target: bundles[1]}))
	w.tick()
	for _, r := range []string{"r3", "r4"} {
		w.release(fleet.Queue, w.manifest(spec{ref: r, waves: "h0", target: bundles[2]}))
		w.tick()
	}
	w.live(6)
	w.phase("c@r4", rollout.Terminal)
	if w.s.Find("c@r3") != nil {
		t.Fatal("a ref that was replaced in the queue was opened")
	}
}
