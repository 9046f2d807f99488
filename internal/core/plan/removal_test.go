package plan_test

import (
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// TestS22NothingWipedIsSentBack: a rollout that reverts does not wait for a host that it
// wiped: nothing is left there to go back to, neither by a policy nor by a signature.
func TestS22NothingWipedIsSentBack(t *testing.T) {
	for _, signed := range []bool{false, true} {
		w := onOne(t, "h0 h1 h2")
		if !signed {
			w.breakOn(bundles[1], "h2")
		}
		m := w.manifest(spec{ref: "r2", waves: "h0 h1 | h2", target: bundles[1], wiped: "h0", soak: 20 * clock.Second})
		w.release(fleet.Queue, m)
		w.live(5)
		w.expect("h0=converged/two")
		if signed {
			w.push(w.word(fleet.OverrideRollback, m.Digest))
		}
		w.live(30)
		w.phase("c@r2", rollout.Reverted)
		w.expect("h0=converged/two h1=reverted/one")
		if n := w.count(event.Granted{}, "h0"); n != 2 {
			t.Fatalf("h0 was given %d grants", n)
		}
	}
}

// TestS28WipedHostIsRepairedWhereOthersGoBack: a repair waits for the way back of a host that
// has one. A host that was wiped has none: its drift is mended while others go back, and after.
func TestS28WipedHostIsRepairedWhereOthersGoBack(t *testing.T) {
	for name, c := range map[string]struct{ signed, over bool }{
		"by policy, under way": {}, "by policy, over": {over: true}, "signed, under way": {signed: true}, "signed, over": {signed: true, over: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := onOne(t, "h0 h1 h2 h3")
			if !c.signed {
				w.breakOn(bundles[1], "h3")
			}
			m := w.manifest(spec{ref: "r2", waves: "h0 h1 h2 | h3", target: bundles[1], wiped: "h0", soak: 20 * clock.Second})
			w.release(fleet.Queue, m)
			if c.signed {
				w.live(5)
				w.push(w.word(fleet.OverrideRollback, m.Digest))
			}
			is := func() bool {
				r := w.s.Find("c@r2")
				return r.Reverting && (r.Phase == rollout.Reverted) == c.over
			}
			for range 10 {
				if w.tick(); is() {
					break
				}
				w.live(1)
			}
			if !is() {
				t.Fatalf("c@r2 does not go back\n%s", w.tail())
			}
			w.expect("h0=converged/two")
			if !c.signed { // what failed elsewhere is repaired nowhere
				w.commit(plan.ClearQuarantine(w.s, "c", string(bundles[1]), "mended", "ada", w.now))
			}
			w.drift("h0")
			w.wantRepairing("h0")
			w.live(3)
			w.wantRepairing("")
			w.expect("h0=converged/two")
			if w.s.Hosts["h0"].Repair != nil {
				t.Fatalf("the drift of h0 waits\n%s", w.tail())
			}
		})
	}
}

// TestS21WipedHostsGoNowhere: a host whose wipe fails stays failed, whatever the policy.
func TestS21WipedHostsGoNowhere(t *testing.T) {
	w := onOne(t, "h0 h1")
	w.breakOn(bundles[1], "h0")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 | h1", target: bundles[1], wiped: "h0"}))
	w.live(30)
	w.expect("h0=failed/two h1=converged/one")
	if n := w.count(event.BundleQuarantined{}, "h0"); n != 0 {
		t.Fatal("it refuses to be wiped from now on")
	}
}

// TestS43SignedRemoval: a host that a signed override removes is given nothing more and holds
// nobody up, also while it has yet to take its workloads away; what it told outlives the key
// epoch of the override. It is of one incarnation: enrolling again brings the name back.
func TestS43SignedRemoval(t *testing.T) {
	for name, told := range map[string]bool{"told": true, "not told": false} {
		t.Run(name, func(t *testing.T) {
			w := onOne(t, "h0 h1")
			o := w.word(fleet.OverrideFreeze, "")
			o.Action, o.Host, o.Incarnation, o.Workloads = fleet.OverrideRemove, "h1", 2, fleet.Stop
			if _, err := plan.Override(w.s, o, "ada", w.now); err == nil {
				t.Fatal("an incarnation that there is not is removed")
			}
			o.Incarnation = 1
			w.push(o)
			if told {
				w.hosts["h1"].report(event.WorkloadsRemoved{Override: o.Digest, Workloads: o.Workloads, OK: true})
				w.hosts["h1"].deliver()
			}
			if l := w.s.Hosts["h1"].Leaving; l == nil || l.Done != told {
				t.Fatalf("leaving is %+v", l)
			}
			granted := w.count(event.Granted{}, "h1")
			w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 | h1", target: bundles[1]}))
			w.live(6)
			w.expect("h0=converged/two h1=converged/one")
			w.phase("c@r2", rollout.Terminal)
			if w.count(event.Granted{}, "h1") != granted {
				t.Fatal("a host that leaves was granted something")
			}
			w.blocked("h1", gate.Identity, gate.Leaving, "steady host decommission h1")
			w.record("", event.RootTrusted{Version: 2, Epoch: w.s.Root.Epoch + 1})
			if (w.s.Hosts["h1"].Leaving != nil) != told {
				t.Fatalf("in the next key epoch leaving is %+v", w.s.Hosts["h1"].Leaving)
			}
			w.enrol("h1")
			if w.s.Hosts["h1"].Leaving != nil {
				t.Fatal("who enrolled again leaves still")
			}
		})
	}
}

// TestS43RemovalThatTheHostToldOfFirst: a restored log hears from the host that it is gone, once, and
// then takes the override again. The host is gone still, and what another override asks for is not done.
func TestS43RemovalThatTheHostToldOfFirst(t *testing.T) {
	w := onOne(t, "h0 h1")
	backup := len(w.log)
	o := w.word(fleet.OverrideFreeze, "")
	o.Action, o.Host, o.Incarnation, o.Workloads = fleet.OverrideRemove, "h1", 1, fleet.Stop
	w.push(o)
	w.hosts["h1"].report(event.WorkloadsRemoved{Override: o.Digest, Workloads: o.Workloads, OK: true})
	w.hosts["h1"].deliver()
	w.restore(backup)
	w.hosts["h1"].deliver()
	w.push(o)
	if l := w.s.Hosts["h1"].Leaving; l == nil || !l.Done || !l.Reported || l.Version != o.Version {
		t.Fatalf("leaving is %+v", l)
	}
	w.now = w.now.Add(clock.Second)
	wipe := w.word(fleet.OverrideFreeze, "")
	wipe.Action, wipe.Host, wipe.Incarnation, wipe.Workloads = fleet.OverrideRemove, "h1", 1, fleet.Wipe
	w.push(wipe)
	if l := w.s.Hosts["h1"].Leaving; l.Done || !l.Reported || l.Workloads != fleet.Wipe {
		t.Fatalf("leaving is %+v", l)
	}
}
