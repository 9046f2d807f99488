package plan_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
	"github.com/steadyfleet/steady/internal/testkit"
)

// takes has a host claim what it was offered, and no more.
func (m *machine) takes() {
	m.poll()
	m.prepare(true)
	m.claim(false)
}

// TestS1S16S21SupersededHostFinishesWhatItClaimed supersedes a rollout with a host
// that activates: it finishes and holds the only slot over both rollouts, a failed
// one gets the fix inside it, and each goes back to where it came from itself.
func TestS1S16S21SupersededHostFinishesWhatItClaimed(t *testing.T) {
	for _, broken := range []bool{false, true} {
		w := onOne(t, "h0 h1 h2")
		h0, was, from := w.hosts["h0"], "converged/two", bundles[1]
		if broken {
			w.breakOn(bundles[1], "h0")
			was, from = "failed/two", bundles[0]
		}
		w.release(fleet.Supersede, w.manifest(spec{ref: "r2", waves: "h0 h1 h2", target: bundles[1], policy: fleet.Halt, budget: 1}))
		w.tick()
		h0.takes()
		w.release(fleet.Supersede, w.manifest(spec{ref: "r3", waves: "h0 h1 h2", target: bundles[2], policy: fleet.Halt, budget: 1}))
		w.tick()
		w.phase("c@r2", rollout.Superseded)
		if b := w.s.Budgets(); b[0].InFlight != 1 || w.s.Hosts["h1"].Grant != nil || w.s.Hosts["h2"].Grant != nil {
			t.Fatalf("S1: beside a host that activates there are %+v", b)
		}
		h0.activated(true)
		h0.deliver()
		h0.probe()
		h0.deliver()
		w.expect("h0=" + was)
		w.tick()
		if g := w.s.Hosts["h0"].Grant; broken && (g == nil || g.Rollout != "c@r3" || w.s.Budgets()[0].InFlight != 1) {
			t.Fatalf("the fix does not reach the failed host inside its slot: %+v", g)
		}
		w.live(12)
		w.phase("c@r2", rollout.Superseded) // the policy of what is over does not fire
		w.phase("c@r3", rollout.Terminal)
		w.expect("h0=converged/three h1=converged/three h2=converged/three")
		if got := h0.agent.Machine.From; got != from {
			t.Fatalf("S21: h0 would go back to %s", bundleName(got))
		}
		if got := w.hosts["h1"].agent.Machine.From; got != bundles[0] {
			t.Fatalf("S21: h1 would go back to %s", bundleName(got))
		}
	}
}

// TestHostEdgeNamesWhoNeverEnrolled: order between hosts is kept, and what clears it is
// not a host that will never come by itself.
func TestHostEdgeNamesWhoNeverEnrolled(t *testing.T) {
	w := scene(t, "h1")
	w.release(fleet.Queue, w.manifest(spec{ref: "r1", waves: "h0 h1", target: bundles[0], after: map[string][]string{"h1": {"h0"}}}))
	w.tick()
	b := w.why("h1", gate.HostEdge)
	if !strings.Contains(b.Message, "no agent is enrolled as h0") || !strings.Contains(b.ClearedBy, "whoever runs h0: enrol it") {
		t.Fatalf("h1 waits: %s; cleared by %s", b.Message, b.ClearedBy)
	}
	w.enrol("h0")
	w.presence("h0", true)
	w.tick()
	if b = w.why("h1", gate.HostEdge); strings.Contains(b.Message, "enrolled") || b.ClearedBy != "those hosts as they converge" {
		t.Fatalf("h1 waits: %s; cleared by %s", b.Message, b.ClearedBy)
	}
}

// TestS12LateJoinerIsServed enrols a declared host after the rollout opened, after
// its wave passed, and after the rollout ended.
func TestS12LateJoinerIsServed(t *testing.T) {
	for _, when := range []string{"open", "passed", "terminal"} {
		w := scene(t, "h0 h2")
		w.release(fleet.Queue, w.manifest(spec{ref: "r1", waves: "h0 h1 | h2", target: bundles[0]}))
		w.tick()
		if a, err := plan.Why(w.s, "h1", w.now); err != nil || a.Block == nil {
			t.Fatalf("%s: why says of a host that never enrolled %+v, %v", when, a, err)
		}
		switch when {
		case "passed":
			for w.s.Find("c@r1").Cursor == 0 {
				w.hosts["h0"].work()
				w.tick()
			}
			w.phase("c@r1", rollout.Converging)
		case "terminal":
			w.live(5)
			w.phase("c@r1", rollout.Terminal)
		}
		w.enrol("h1")
		w.presence("h1", true)
		w.live(6)
		w.phase("c@r1", rollout.Terminal)
		w.expect("h0=converged/one h1=converged/one h2=converged/one")
		if n := w.count(event.Granted{}, "h1"); n != 1 {
			t.Fatalf("%s: h1 was granted %d times", when, n)
		}
	}
}

// TestS13ReturningHostGetsTheActiveRolloutOnceItsWaveIsOpen is the other half of
// TestS13ReturningHostGetsLastConvergedUntilItsWaveOpens.
func TestS13ReturningHostGetsTheActiveRolloutOnceItsWaveIsOpen(t *testing.T) {
	w := onOne(t, "h0 h1 h2")
	w.presence("h1", false)
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 | h1 h2", target: bundles[1]}))
	w.live(6)
	w.phase("c@r2", rollout.Terminal)
	w.release(fleet.Queue, w.manifest(spec{ref: "r3", waves: "h0 | h1 h2", target: bundles[2]}))
	w.tick()
	for w.s.Find("c@r3").Cursor == 0 {
		w.hosts["h0"].work()
		w.tick()
	}
	w.presence("h1", true) // h2 has an offer: the rollout goes on
	w.tick()
	if g := w.s.Hosts["h1"].Grant; g == nil || g.Rollout != "c@r3" {
		t.Fatalf("the host that returned has grant %+v", g)
	}
	w.live(6)
	w.phase("c@r3", rollout.Terminal)
	w.expect("h0=converged/three h1=converged/three h2=converged/three")
}

// TestS10SilentHostOfTheFirstWaveCounts has a host of the first wave claim and fall
// silent: it is a failure, which the policy allows or not.
func TestS10SilentHostOfTheFirstWaveCounts(t *testing.T) {
	for allowed, want := range map[int]rollout.Phase{0: rollout.Failed, 1: rollout.Terminal} {
		w := onOne(t, "h0 h1 h2")
		w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 h1 | h2", target: bundles[1], confirm: 30 * clock.Second, maxFailures: allowed}))
		w.tick()
		w.hosts["h0"].takes()
		w.presence("h0", false)
		silent := w.hosts["h0"]
		delete(w.hosts, "h0") // it does nothing more
		w.live(8)
		w.hosts["h0"] = silent
		w.phase("c@r2", want)
		if !w.s.Hosts["h0"].SilentFailure || !w.s.Hosts["h0"].InFlight() {
			t.Fatalf("allowed %d: the silent host is not failed, or its slot is free", allowed)
		}
		if got := w.count(event.Granted{}, "h2"); got != 1+allowed {
			t.Fatalf("allowed %d: h2 was granted %d times", allowed, got)
		}
	}
}

// TestS27DeferralIsLoggedAgainOnlyForAnotherReason drives two channels, one behind
// the other, and compares every deferral with the one before it.
func TestS27DeferralIsLoggedAgainOnlyForAnotherReason(t *testing.T) {
	deferrals := 0
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		for _, n := range []string{"h0", "h1"} {
			w.enrol(n)
			w.presence(n, true)
		}
		w.edges = []fleet.Edge{{Gates: "a", Gated: "b", Reason: "a first"}}
		release := func(i int, channel, hostName string) {
			w.release(fleet.Queue, w.manifest(spec{channel: channel, ref: fmt.Sprintf("r%d", i), waves: hostName, target: bundles[i%len(bundles)]}))
		}
		release(0, "a", "h0")
		for i := range rapid.IntRange(5, 25).Draw(t, "steps") {
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0:
				w.now = w.now.Add(7 * clock.Second)
			case 1:
				w.live(1)
			case 2, 3:
				verb := rapid.SampledFrom([]plan.Verb{plan.Pause, plan.Resume, plan.Cancel}).Draw(t, "verb")
				if c := w.s.Channels["a"]; c.Active != "" {
					if entries, err := plan.Operate(w.s, verb, string(c.Active), "because", "ada", w.now); err == nil {
						w.commit(entries, nil)
					}
				}
			case 4:
				release(i+1, "a", "h0")
			case 5:
				release(i+1, "b", "h1")
			}
			w.tick()
		}
		var last event.RolloutDeferred
		for _, e := range w.log {
			switch e.Type {
			case event.RolloutOpened{}.EventType():
				var opened event.RolloutOpened
				testkit.Must(t, json.Unmarshal(e.Body, &opened))
				if opened.Channel == "b" {
					last = event.RolloutDeferred{}
				}
			case event.RolloutDeferred{}.EventType():
				var ev event.RolloutDeferred
				testkit.Must(t, json.Unmarshal(e.Body, &ev))
				if deferrals++; ev == last {
					t.Fatalf("%+v was logged twice\n%s", ev, w.tail())
				}
				last = ev
			}
		}
	})
	if deferrals == 0 {
		t.Fatal("nothing was deferred")
	}
}

// TestS26LateHostIsWaitedForByAGatedChannel: nobody waits for a rollout without any host. Once one
// enrols, the channels behind wait for it, and say so at once.
func TestS26LateHostIsWaitedForByAGatedChannel(t *testing.T) {
	w := newWorld(t)
	w.edges = []fleet.Edge{{Gates: "a", Gated: "b", Reason: "a first"}}
	w.enrol("h1")
	w.presence("h1", true)
	w.release(fleet.Queue, w.manifest(spec{channel: "a", ref: "r1", waves: "h0", target: bundles[0]}), w.manifest(spec{channel: "b", ref: "r1", waves: "h1", target: bundles[0]}))
	w.live(5)
	w.phase("b@r1", rollout.Terminal)
	w.phase("a@r1", rollout.Active)
	m := w.manifest(spec{channel: "a", ref: "r2", waves: "h0", target: bundles[1]})
	w.record("", event.ComplianceEvaluated{Channel: "a", Rollout: "a@r2", Manifest: m.Digest, Controls: 1,
		Failures: []fleet.ControlFailure{{Control: "enforced", Mode: "enforce", Hosts: []string{"h0"}}}})
	w.release(fleet.Queue, m, w.manifest(spec{channel: "b", ref: "r2", waves: "h1", target: bundles[1]}))
	w.tick()
	if d := w.s.Channels["b"].Deferral; !strings.Contains(d, "a@r2 is about to open") {
		t.Fatalf("b waits for %q\n%s", d, w.tail())
	}
	w.enrol("h0")
	w.tick()
	if d := w.s.Channels["b"].Deferral; !strings.Contains(d, "a@r1 is active") {
		t.Fatalf("b waits for %q\n%s", d, w.tail())
	}
}
