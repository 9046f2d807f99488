package plan_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/agent"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// fails opens r2 on hosts on one and has it fail on some.
func fails(t *testing.T, hosts, broken string, sp spec) *world {
	w := onOne(t, hosts)
	w.breakOn(bundles[1], broken)
	sp.ref, sp.target = "r2", bundles[1]
	w.release(fleet.Queue, w.manifest(sp))
	w.live(30)
	return w
}

// cure takes the cause away that was outside.
func (w *world) cure() {
	for _, m := range w.hosts {
		clear(m.broken)
	}
}

func (w *world) retry(id string) event.RolloutRetried {
	w.t.Helper()
	w.now = w.now.Add(clock.Second)
	w.commit(plan.Retry(w.s, id, "the registry is back", "ada", w.now))
	return w.retried()
}

// retrySigned has all agents take a signed retry too, and the server first.
func (w *world) retrySigned(id string) event.RolloutRetried {
	w.t.Helper()
	w.now = w.now.Add(clock.Second)
	o := w.word(fleet.OverrideRetry, w.s.Find(id).Manifest)
	w.push(o)
	for _, n := range w.names() {
		_ = w.hosts[n].step(agent.OverridesReceived{Host: n, Epoch: 1, Overrides: []gate.AcceptedOverride{o}})
	}
	return w.retried()
}

func (w *world) retried() event.RolloutRetried {
	w.t.Helper()
	for _, e := range slices.Backward(w.log) {
		if ev, err := event.Decode(e); err == nil && e.Type == (event.RolloutRetried{}).EventType() {
			return ev.(event.RolloutRetried)
		}
	}
	w.t.Fatalf("nothing was tried again\n%s", w.tail())
	return event.RolloutRetried{}
}

// TestS18RetryOfAHalt: hosts that failed under halt take the same release again.
func TestS18RetryOfAHalt(t *testing.T) {
	w := fails(t, "h0 h1 h2 h3", "h1", spec{waves: "h0 h1 | h2 h3", policy: fleet.Halt})
	w.phase("c@r2", rollout.Failed)
	w.cure()
	if ev := w.retry("c@r2"); ev.WaveName != "w0" || !slices.Equal(ev.Hosts, []string{"h1"}) || ev.Refusing != nil {
		t.Fatalf("tried again: %+v", ev)
	}
	w.live(30)
	w.phase("c@r2", rollout.Terminal)
	w.expect("h0=converged/two h1=converged/two h2=converged/two h3=converged/two")
	if n := w.count(event.Granted{}, "h0"); n != 2 { // one each
		t.Fatalf("h0, which had converged, got %d grants", n)
	}
}

// TestS17RetryOfARevert: what went back quarantined the bundle itself. A token is refused
// where it would reach nobody else, and a signature reaches all.
func TestS17RetryOfARevert(t *testing.T) {
	w := fails(t, "h0 h1 h2 h3", "h1", spec{waves: "h0 h1 | h2 h3"})
	w.phase("c@r2", rollout.Reverted)
	_, err := plan.Operate(w.s, plan.Resume, "c@r2", "because", "ada", w.now)
	refused(t, err, "steady rollout retry c@r2")
	w.cure()
	_, err = plan.Retry(w.s, "c@r2", "the registry is back", "ada", w.now)
	refused(t, err, "h0, h1 went back from c@r2 and have its bundle quarantined, which no token ends: steady rollout retry c@r2 --sign")
	w.phase("c@r2", rollout.Reverted)
	if ev := w.retrySigned("c@r2"); !slices.Equal(ev.Hosts, []string{"h0", "h1"}) || ev.Refusing != nil {
		t.Fatalf("tried again by signature: %+v", ev)
	}
	w.live(30)
	w.phase("c@r2", rollout.Terminal)
	w.expect("h0=converged/two h1=converged/two h2=converged/two h3=converged/two")
}

// TestS18RetryEndsASignedRollback: no token undoes a rollback; a retry signed later does, and
// the rollback that was signed before is none any more, for the server and for hosts.
func TestS18RetryEndsASignedRollback(t *testing.T) {
	w := onOne(t, "h0 h1")
	m := w.manifest(spec{ref: "r2", waves: "h0 | h1", target: bundles[1], soak: clock.Hour})
	w.release(fleet.Queue, m)
	w.live(4)
	back := w.word(fleet.OverrideRollback, m.Digest)
	w.push(back)
	w.live(10)
	w.phase("c@r2", rollout.Reverted)
	_, err := plan.Retry(w.s, "c@r2", "it was right", "ada", w.now)
	refused(t, err, "steady rollout retry c@r2 --sign")
	early := w.word(fleet.OverrideRetry, m.Digest)
	w.now = w.now.Add(clock.Second)
	again := w.word(fleet.OverridePause, m.Digest)
	w.push(again)
	_, err = plan.Override(w.s, early, "ada", w.now)
	refused(t, err, "stops the rollout since")
	w.retrySigned("c@r2")
	_, err = plan.Override(w.s, back, "eve", w.now)
	if err != nil { // known: it changes nothing
		t.Fatal(err)
	}
	w.live(400)
	w.live(400)
	w.phase("c@r2", rollout.Terminal)
	w.expect("h0=converged/two h1=converged/two")
	h := w.hosts["h0"]
	old := agent.OverridesReceived{Host: "h0", Epoch: 1, Overrides: []gate.AcceptedOverride{back}}
	_ = h.step(agent.Granted{Grant: "gx", Purpose: host.Rollback, TTL: clock.Minute, Plan: h.agent.Plan, Overrides: &old})
	if h.agent.Offer != nil {
		t.Fatal("a host goes back on a rollback that a later retry ended")
	}
}

// TestS18FailuresAfterARetryCountAnew: failures of before are forgotten, those after it stop
// the rollout as they would have.
func TestS18FailuresAfterARetryCountAnew(t *testing.T) {
	w := fails(t, "h0 h1 h2", "h0", spec{waves: "h0 | h1 h2", policy: fleet.Halt})
	w.cure()
	w.retry("c@r2")
	w.breakOn(bundles[1], "h1")
	w.live(30)
	if r := w.phase("c@r2", rollout.Failed); !strings.Contains(r.Reason, "wave w1 has 1 failed host") {
		t.Fatalf("halted: %s", r.Reason)
	}
	w.expect("h0=converged/two h1=failed/two")
	w.operate(plan.Cancel, "c@r2")
	w.cure()
	w.retry("c@r2") // what was cancelled too
	w.live(30)
	w.phase("c@r2", rollout.Terminal)
}

// TestS18RetryAfterTheEnd: a host that failed within the limit is served after the end.
func TestS18RetryAfterTheEnd(t *testing.T) {
	w := fails(t, "h0 h1 h2", "h2", spec{waves: "h0 | h1 h2", policy: fleet.Halt, maxFailures: 1})
	w.phase("c@r2", rollout.Terminal)
	w.cure()
	w.retry("c@r2")
	w.live(10)
	w.phase("c@r2", rollout.Terminal)
	w.expect("h2=converged/two")
}

// TestS17RetryReachesWhoDidNotTry: a host that waits in a wave which a retry opens takes the
// bundle, and one that went back refuses it by name until the retry is signed.
func TestS17RetryReachesWhoDidNotTry(t *testing.T) {
	w := fails(t, "h0 h1 h2", "h0", spec{waves: "h0 h1 h2", budget: 1})
	w.phase("c@r2", rollout.Reverted)
	w.cure()
	if ev := w.retry("c@r2"); ev.Hosts != nil || !slices.Equal(ev.Refusing, []string{"h0"}) {
		t.Fatalf("tried again by token: %+v", ev)
	}
	if q := w.s.Channels["c"].Quarantine; len(q) != 0 {
		t.Fatalf("the channel still refuses %v", q)
	}
	w.live(20)
	w.expect("h0=reverted/one h1=converged/two h2=converged/two")
	if a, err := plan.Why(w.s, "h0", w.now); err != nil || a.Block == nil || a.Block.Code != gate.Quarantine || !strings.Contains(a.Block.ClearedBy, "steady rollout retry c@r2 --sign") {
		t.Fatalf("h0 is told %+v, %v", a, err)
	}
}

func TestS19RetryIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		make  func(t *testing.T) *world
		words string
	}{
		"of nothing":        {func(t *testing.T) *world { return onOne(t, "h0") }, "there is no rollout"},
		"of what goes well": {func(t *testing.T) *world { return fails(t, "h0", "", spec{waves: "h0"}) }, "there is nothing to retry"},
		"on the way back": {func(t *testing.T) *world {
			w := onOne(t, "h0 h1")
			w.breakOn(bundles[1], "h1")
			w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 h1", target: bundles[1], budget: 1}))
			for w.s.Find("c@r2") == nil || !w.s.Find("c@r2").Reverting {
				w.live(1)
			}
			return w
		}, "retry it when its hosts are back"},
		"of what was replaced": {func(t *testing.T) *world {
			w := fails(t, "h0", "h0", spec{waves: "h0"})
			w.release(fleet.Queue, w.manifest(spec{ref: "r3", waves: "h0", target: bundles[2]}))
			w.live(1)
			return w
		}, "was followed by another"},
		"of a bundle that was quarantined by signature": {func(t *testing.T) *world {
			w := fails(t, "h0", "h0", spec{waves: "h0"})
			w.push(w.word(fleet.OverrideQuarantine, bundles[1]))
			return w
		}, "steady quarantine clear c"},
	} {
		t.Run(name, func(t *testing.T) {
			w := c.make(t)
			_, err := plan.Retry(w.s, "c@r2", "again", "ada", w.now)
			refused(t, err, c.words)
		})
	}
}

// TestS40SecondRetryForgetsNobody: a host that failed and still has what the rollout brought is
// one of those that try it, and goes back with the others, however often it was tried again.
func TestS40SecondRetryForgetsNobody(t *testing.T) {
	for retries := range 3 {
		w := fails(t, "h0 h1 h2 h3", "h0 h1", spec{waves: "h0 h1 h2 h3", policy: fleet.Halt, maxFailures: 1, canaryMax: 2})
		w.expect("h0=failed/two h1=failed/two h2=converged/one h3=converged/one")
		w.presence("h1", false)
		for range retries {
			w.retry("c@r2")
			w.live(20)
			w.expect("h0=failed/two h1=failed/two h2=converged/one h3=converged/one")
		}
		w.push(w.word(fleet.OverrideRollback, w.s.Find("c@r2").Manifest))
		w.live(5)
		w.presence("h1", true)
		w.live(20)
		w.expect("h0=reverted/one h1=reverted/one h2=converged/one h3=converged/one")
	}
}
