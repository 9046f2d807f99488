package plan_test

import (
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

func (w *world) foresee(bundle digest.Digest, hosts string) string {
	var words []string
	for _, r := range plan.Foresee(w.s, []plan.Given{{Channel: "c", Bundle: bundle, Hosts: strings.Fields(hosts)}}) {
		words = append(words, strings.Join(r.Hosts, " ")+": "+r.Reason+"; "+r.Next)
	}
	return strings.Join(words, "\n")
}

// TestS18WhatWasRolledBackIsRefusedByName: a release that gives a bundle again which an
// operator had rolled back reports it before, and names that cause when it has failed.
func TestS18WhatWasRolledBackIsRefusedByName(t *testing.T) {
	w := onOne(t, "h0 h1")
	m := w.manifest(spec{ref: "r2", waves: "h0 | h1", target: bundles[1], soak: clock.Hour})
	w.release(fleet.Queue, m)
	w.live(4)
	back := w.word(fleet.OverrideRollback, m.Digest)
	back.Reason = "incident 7"
	w.push(back)
	w.live(10)
	w.phase("c@r2", rollout.Reverted)
	if got := w.foresee(bundles[1], "h0 h1"); !strings.HasPrefix(got, "h0 h1: an operator had c@") || !strings.Contains(got, "incident 7") ||
		!strings.Contains(got, "steady quarantine clear c "+string(bundles[1])+" --reason R --sign KEYS") {
		t.Errorf("foreseen: %s", got)
	}
	if got := w.foresee(bundles[2], "h0 h1"); got != "" {
		t.Errorf("another bundle: %s", got)
	}
	w.release(fleet.Queue, w.manifest(spec{ref: "r3", waves: "h0 | h1", target: bundles[1]}))
	w.live(10)
	r := w.phase("c@r3", rollout.Failed)
	if !strings.Contains(r.Reason, "h0 refuses the bundle: an operator had c@") || !strings.Contains(r.Reason, "incident 7") || strings.Contains(r.Reason, "silent") {
		t.Errorf("failed: %s", r.Reason)
	}
	for _, name := range []string{"h0", "h1"} {
		if a, err := plan.Why(w.s, name, w.now); err != nil || !strings.Contains(a.Message, "incident 7") {
			t.Errorf("why %s: %v, %v", name, a.Message, err)
		}
	}
	if got := w.foresee(bundles[1], "h0"); !strings.HasPrefix(got, "h0: it is quarantined on the channel: refused by host h0 in c@r3: an operator had c@") {
		t.Errorf("foreseen once it failed: %s", got)
	}
}

// TestS18RefusedByNobodyOnceAllowed: what an operator allowed again since is refused no more.
func TestS18RefusedByNobodyOnceAllowed(t *testing.T) {
	w := fails(t, "h0 h1", "h0", spec{waves: "h0 | h1"})
	if got := w.foresee(bundles[1], "h0 h1"); !strings.HasPrefix(got, "h0 h1: it is quarantined on the channel: failed on host h0 in c@r2; steady quarantine clear c") {
		t.Errorf("foreseen: %s", got)
	}
	w.commit(plan.ClearQuarantine(w.s, "c", bundles[1].Short(), "because", "ada", w.now))
	if got := w.foresee(bundles[1], "h0 h1"); !strings.HasPrefix(got, "h0: the host went back from it in c@r2 and quarantined it; ") || !strings.HasSuffix(got, "--sign KEYS") {
		t.Errorf("foreseen once a token cleared it: %s", got)
	}
	w.now = w.now.Add(clock.Second)
	w.push(w.word(fleet.OverrideUnquarantine, bundles[1]))
	if got := w.foresee(bundles[1], "h0 h1"); got != "" {
		t.Errorf("foreseen once it was signed: %s", got)
	}
}

// A cancel opens exactly the rollouts that AfterCancel lists.
func TestCancelSaysWhatItOpens(t *testing.T) {
	w := scene(t, "h0 h1")
	w.edges = []fleet.Edge{{Gates: "c", Gated: "d", Reason: "c first"}}
	w.release(fleet.Queue, w.manifest(spec{ref: "r1", waves: "h0", target: bundles[0]}), w.manifest(spec{channel: "d", ref: "r1", waves: "h1", target: bundles[0]}))
	w.live(20)
	w.phase("d@r1", rollout.Terminal)
	w.breakOn(bundles[1], "h0")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0", target: bundles[1]}), w.manifest(spec{channel: "d", ref: "r2", waves: "h1", target: bundles[1]}))
	w.live(20)
	r := w.phase("c@r2", rollout.Reverted)
	after := plan.AfterCancel(w.s, r, w.now)
	if len(after) != 1 || after[0].Rollout != "d@r2" || len(after[0].Failed) != 1 {
		t.Fatalf("a cancel opens %+v", after)
	}
	if f := after[0].Failed[0]; f.Bundle != bundles[1] || f.On != "c" || len(f.Hosts) != 1 || !strings.Contains(f.Reason, "failed on host h0") {
		t.Errorf("what failed beside it: %+v", f)
	}
	if w.s.Find("d@r2") != nil || r.Final {
		t.Fatal("asking changed the state")
	}
	w.operate(plan.Cancel, "c@r2")
	w.tick()
	w.phase("d@r2", rollout.Converging)
	if again := plan.AfterCancel(w.s, r, w.now); again != nil {
		t.Errorf("cancelled already, and it would open %+v", again)
	}
}

func TestWhatIsDroppedFromTheQueueIsNamed(t *testing.T) {
	w := onOne(t, "h0 h1")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 | h1", target: bundles[1], soak: clock.Hour}))
	w.live(3)
	for _, ref := range []string{"r3", "r4"} {
		w.release(fleet.Queue, w.manifest(spec{ref: ref, waves: "h0 | h1", target: bundles[2]}))
		w.tick()
	}
	for i := len(w.log) - 1; i >= 0; i-- {
		if ev, err := event.Decode(w.log[i]); err == nil && w.log[i].Type == (event.RolloutQueued{}).EventType() {
			queued := ev.(event.RolloutQueued)
			about := event.About(&w.log[i])
			if queued.TargetRef != "c@r4" || queued.DroppedRollout != "c@r3" || about[len(about)-1] != (event.Subject{Kind: event.KindRollout, Name: "c@r3"}) {
				t.Fatalf("queued %+v, about %v", queued, about)
			}
			return
		}
	}
	t.Fatal("nothing was queued")
}
