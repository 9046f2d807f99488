package plan_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// refused wants a verb to be refused with words.
func refused(t *testing.T, err error, words string) {
	t.Helper()
	var verb *plan.VerbError
	if !errors.As(err, &verb) || !strings.Contains(err.Error(), words) {
		t.Fatalf("the verb says %v, expected a refusal with %q", err, words)
	}
}

func (w *world) promote(id, wave string) {
	w.commit(plan.Promote(w.s, id, wave, "go on", "ada", w.now))
}

func TestS8OperatorPromotesOverMissingEvidence(t *testing.T) {
	w := onOne(t, "h0 h1 h2")
	w.presence("h0", false)
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 | h1 | h2", target: bundles[1]}))
	w.live(3)
	if r := w.phase("c@r2", rollout.Active); r.Blocked != "0/evidence" {
		t.Fatalf("held by %q", r.Blocked)
	}
	_, err := plan.Promote(w.s, "c@r2", "w1", "go on", "ada", w.now)
	refused(t, err, "is at wave w0, not w1")
	w.promote("c@r2", "w0")
	w.live(6)
	w.phase("c@r2", rollout.Terminal)
	w.expect("h0=converged/one h1=converged/two h2=converged/two")
	if n := w.count(event.WaveForced{}, ""); n != 1 {
		t.Fatalf("%d waves were forced", n)
	}
	w.presence("h0", true)
	w.live(3)
	w.expect("h0=converged/two")
}

// A rollout that passed its waves on an operator's word alone does not end by
// itself: what hosts that return are given has to be proven, or accepted, too.
func TestS8ForcedWavesAreNoEvidenceForTheEnd(t *testing.T) {
	w := onOne(t, "h0 h1")
	w.presence("h0", false)
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 | h1", target: bundles[1], targets: map[string]digest.Digest{"h1": bundles[0]}}))
	w.live(2)
	w.promote("c@r2", "w0")
	w.live(3)
	if r := w.phase("c@r2", rollout.Active); r.Blocked != "1/evidence" {
		t.Fatalf("held by %q", r.Blocked)
	}
	w.promote("c@r2", "w1")
	w.phase("c@r2", rollout.Terminal)
}

func TestS8OperatorEndsTheLastWaveOverWaitingHosts(t *testing.T) {
	w := onOne(t, "h0 h1")
	w.commit(plan.Freeze(w.s, "h1", w.now.Add(clock.Hour), "disk swap", "ada", w.now))
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 h1", target: bundles[1]}))
	w.live(4)
	w.phase("c@r2", rollout.Active)
	w.promote("c@r2", "w0")
	r := w.phase("c@r2", rollout.Terminal)
	if !strings.Contains(r.Reason, "by hand") {
		t.Fatalf("it ended because %q", r.Reason)
	}
	w.live(2)
	w.expect("h0=converged/two h1=converged/one")
	w.now = w.now.Add(clock.Hour)
	w.refresh()
	w.live(3)
	w.expect("h1=converged/two") // the hosts left behind are served
}

func TestS8NobodyIsPromotedOverHostsInFlight(t *testing.T) {
	w := onOne(t, "h0 h1")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 | h1", target: bundles[1], soak: clock.Hour}))
	w.tick()
	_, err := plan.Promote(w.s, "c@r2", "w0", "go on", "ada", w.now) // an offer
	refused(t, err, "in flight")
	w.live(3)
	_, err = plan.Promote(w.s, "c@r2", "w0", "go on", "ada", w.now) // a soak
	refused(t, err, "in flight")
	w.operate(plan.Pause, "c@r2")
	_, err = plan.Promote(w.s, "c@r2", "w0", "go on", "ada", w.now)
	refused(t, err, "paused")
}

func TestS8NobodyIsPromotedOverFailuresAboveThePolicy(t *testing.T) {
	w := onOne(t, "h0 h1")
	w.breakOn(bundles[1], "h0")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 | h1", target: bundles[1], policy: fleet.Halt}))
	for w.s.Hosts["h0"].Machine.Phase != host.Failed {
		w.tick()
		w.hosts["h0"].work()
		w.now = w.now.Add(clock.Second)
	}
	_, err := plan.Promote(w.s, "c@r2", "w0", "go on", "ada", w.now) // before a tick could halt
	refused(t, err, "more failed hosts than the policy allows")
	w.tick()
	w.phase("c@r2", rollout.Failed)
	_, err = plan.Promote(w.s, "c@r2", "w0", "go on", "ada", w.now)
	refused(t, err, "is halted")
}

func TestS18FrozenHostHoldsItsWaveAndSaysUntilWhen(t *testing.T) {
	w := onOne(t, "h0 h1 h2")
	until := w.now.Add(2 * clock.Hour)
	w.commit(plan.Freeze(w.s, "h0", until, "disk swap", "ada", w.now))
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 h1 | h2", target: bundles[1]}))
	w.live(4)
	w.expect("h0=converged/one h1=converged/two h2=converged/one")
	r := w.phase("c@r2", rollout.Active)
	if r.Blocked != "0/waiting" {
		t.Fatalf("the wave is held by %q", r.Blocked)
	}
	a, err := plan.Why(w.s, "h0", w.now)
	if err != nil || a.Block == nil || a.Block.Code != gate.Freeze || a.Block.Earliest != until || !strings.Contains(a.Message, "disk swap (ada)") {
		t.Fatalf("why says %+v, %v", a, err)
	}
	if b := w.why("h2", gate.Wave); b == nil || b.Earliest != until {
		t.Fatalf("the next wave says %+v", b)
	}
	w.now = until
	w.live(6)
	w.phase("c@r2", rollout.Terminal)
	w.expect("h0=converged/two h2=converged/two")
	if w.s.Hosts["h0"].Freeze != nil || w.count(event.HostUnfrozen{}, "h0") != 1 {
		t.Fatal("the freeze did not end by itself")
	}
}

func TestS18FreezeTakesBackOffersAndRefusesClaims(t *testing.T) {
	w := onOne(t, "h0 h1")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 h1", target: bundles[1], budget: 1}))
	w.tick()
	grant := w.s.Hosts["h0"].Grant.ID
	w.commit(plan.Freeze(w.s, "h0", w.now.Add(clock.Hour), "disk swap", "ada", w.now))
	if w.s.Hosts["h0"].Grant != nil {
		t.Fatal("a frozen host keeps its offer")
	}
	if _, err := plan.Claim(w.s, "h0", grant, w.now); err == nil {
		t.Fatal("a frozen host's claim was taken")
	}
	w.live(4)
	w.expect("h0=converged/one h1=converged/two") // the slot came free
	w.commit(plan.Unfreeze(w.s, "h0", "swapped", "ada", w.now))
	w.live(4)
	w.expect("h0=converged/two")
	_, err := plan.Unfreeze(w.s, "h0", "again", "ada", w.now)
	refused(t, err, "not frozen")
}

func TestS22FrozenHostIsStillSentBack(t *testing.T) {
	w := onOne(t, "h0 h1")
	w.breakOn(bundles[1], "h1")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 | h1", target: bundles[1]}))
	for w.s.Hosts["h0"].Machine.Current != bundles[1] {
		w.live(1)
	}
	w.commit(plan.Freeze(w.s, "h0", w.now.Add(clock.Hour), "hands off", "ada", w.now))
	w.live(8)
	w.phase("c@r2", rollout.Reverted)
	w.expect("h0=reverted/one h1=reverted/one")
}

func TestS18FrozenHostIsNotRepaired(t *testing.T) {
	w := onOne(t, "h0")
	w.commit(plan.Freeze(w.s, "h0", w.now.Add(clock.Hour), "hands off", "ada", w.now))
	w.hosts["h0"].drifts(true, "exec/app")
	w.live(3)
	a, err := plan.Why(w.s, "h0", w.now)
	if err != nil || a.Repair == nil || a.Repair.Block == nil || a.Repair.Block.Code != gate.Freeze {
		t.Fatalf("why says %+v, %v", a.Repair, err)
	}
	w.commit(plan.Unfreeze(w.s, "h0", "done", "ada", w.now))
	w.live(3)
	if w.s.Hosts["h0"].Repair != nil {
		t.Fatal("not repaired after the freeze")
	}
}

func TestS18FreezeIsBounded(t *testing.T) {
	w := onOne(t, "h0")
	for words, until := range map[string]clock.Instant{"is over already": w.now, "ends within": w.now.Add(plan.MaxFreeze + 1)} {
		_, err := plan.Freeze(w.s, "h0", until, "why", "ada", w.now)
		refused(t, err, words)
	}
	_, err := plan.Freeze(w.s, "h9", w.now.Add(1), "why", "ada", w.now)
	refused(t, err, "no host")
	w.commit(plan.Freeze(w.s, "h0", w.now.Add(clock.Hour), "why", "ada", w.now))
	w.enrol("h0") // a new disk under the same name
	if w.s.Hosts["h0"].Freeze == nil {
		t.Fatal("enrolling ended the freeze")
	}
}

func TestS17OperatorQuarantinesBeforeItFails(t *testing.T) {
	w := onOne(t, "h0 h1")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 | h1", target: bundles[1]}))
	w.tick()
	w.commit(plan.AddQuarantine(w.s, "c", bundles[1].Short(), "CVE", "ada", w.now))
	if w.s.Hosts["h0"].Grant != nil {
		t.Fatal("what was offered of it stays")
	}
	w.live(3)
	w.expect("h0=converged/one h1=converged/one")
	if b := w.why("h0", gate.Quarantine); b == nil || !strings.Contains(b.Message, "CVE") {
		t.Fatalf("why says %+v", b)
	}
	_, err := plan.AddQuarantine(w.s, "c", string(bundles[1]), "CVE", "ada", w.now)
	refused(t, err, "already")
	_, err = plan.AddQuarantine(w.s, "c", "0123456789ab", "CVE", "ada", w.now)
	refused(t, err, "whole digest")
	_, err = plan.AddQuarantine(w.s, "x", string(bundles[1]), "CVE", "ada", w.now)
	refused(t, err, "no channel")
	w.commit(plan.AddQuarantine(w.s, "c", string(digest.Of([]byte("never seen"))), "CVE", "ada", w.now))
}
