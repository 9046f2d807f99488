package plan_test

import (
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

func (w *world) blocked(name string, code gate.Code, detail, clearedBy string) {
	w.t.Helper()
	a, err := plan.Why(w.s, name, w.now)
	if err != nil {
		w.t.Fatalf("why: %v", err)
	}
	if b := a.Block; b == nil || b.Code != code || b.Detail != detail || !strings.Contains(b.ClearedBy, clearedBy) {
		w.t.Fatalf("host %s is held by %+v, expected %s %s cleared by %q", name, a.Block, code, detail, clearedBy)
	}
}

// A host whose identity is forked or revoked is given nothing, holds nobody up, and
// says who can clear that; enrolling again does.
func TestT11ForkedHostIsGivenNothingUntilItEnrolsAgain(t *testing.T) {
	for standing, end := range map[string]func(*world){
		gate.Forked: func(w *world) { w.record("h1", event.HostForked{Incarnation: 1, Seq: 3}) },
		gate.Revoked: func(w *world) {
			w.commit(plan.Revoke(w.s, "h1", "lost", "ada", w.now))
		},
	} {
		t.Run(standing, func(t *testing.T) {
			w := onOne(t, "h0 h1")
			end(w)
			granted := w.count(event.Granted{}, "h1")
			w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 | h1", target: bundles[1]}))
			w.live(6)
			w.expect("h0=converged/two h1=converged/one")
			w.phase("c@r2", rollout.Terminal)
			if n := w.count(event.Granted{}, "h1"); n != granted {
				t.Fatalf("a host that is %s was granted something", standing)
			}
			w.blocked("h1", gate.Identity, standing, "steady token create h1")
			w.enrol("h1")
			w.presence("h1", true)
			w.live(4)
			w.expect("h1=converged/two")
		})
	}
}

func TestForkedHostClaimsNothing(t *testing.T) {
	w := onOne(t, "h0")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0", target: bundles[1]}))
	w.tick()
	grant := w.s.Hosts["h0"].Grant.ID
	w.record("h0", event.HostForked{Incarnation: 1, Seq: 3})
	if _, err := plan.Claim(w.s, "h0", grant, w.now); err == nil || !strings.Contains(err.Error(), "two agents share") {
		t.Fatalf("the claim of a forked host: %v", err)
	}
}

// A host that was revoked while it acts cannot say how that ended: its slot stays
// taken until it enrols again or is decommissioned, and why names both.
func TestS1RevokedHostKeepsItsSlotUntilItsEnd(t *testing.T) {
	for name, end := range map[string]func(*world){
		"enrolled again": func(w *world) {
			w.enrol("h0")
			w.presence("h0", true)
		},
		"decommissioned": func(w *world) { w.commit(plan.Decommission(w.s, "h0", "sold", "ada", w.now)) },
	} {
		t.Run(name, func(t *testing.T) {
			w := onOne(t, "h0 h1")
			w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 h1", target: bundles[1], budget: 1, maxFailures: 1, confirm: 20 * clock.Second}))
			w.tick()
			w.hosts["h0"].poll()
			w.hosts["h0"].prepare(true)
			w.hosts["h0"].claim(false)
			w.hosts["h0"].online = false
			w.commit(plan.Revoke(w.s, "h0", "lost", "ada", w.now))
			w.presence("h0", false)
			for range 60 {
				w.tick()
				w.hosts["h1"].work()
				w.now = w.now.Add(10 * clock.Second)
				if !w.s.Hosts["h0"].InFlight() || w.s.Hosts["h1"].Grant != nil {
					t.Fatalf("the slot of a revoked host was given away\n%s", w.tail())
				}
			}
			w.blocked("h0", gate.Identity, gate.Revoked, "steady host decommission h0, which gives back the slot")
			granted := w.count(event.Granted{}, "h0") + w.count(event.Granted{}, "h1")
			end(w)
			for range 12 {
				w.tick()
				w.now = w.now.Add(10 * clock.Second)
			}
			if n := w.count(event.Granted{}, "h0") + w.count(event.Granted{}, "h1"); n == granted {
				t.Fatalf("nobody was given the slot\n%s", w.tail())
			}
		})
	}
}

// A decommissioned host keeps its slot for as long as it may still act, and not
// longer, whether it is heard from or not.
func TestS1DecommissionedHostFreesItsSlotOnceItsGrantIsOver(t *testing.T) {
	w := onOne(t, "h0 h1")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 h1", target: bundles[1], budget: 1, maxFailures: 1, confirm: 20 * clock.Second}))
	w.tick()
	w.hosts["h0"].poll()
	w.hosts["h0"].prepare(true)
	w.hosts["h0"].claim(false)
	w.hosts["h0"].online = false // it acts, and is not heard from
	w.commit(plan.Decommission(w.s, "h0", "sold", "ada", w.now))
	w.presence("h0", false)
	until := w.s.Hosts["h0"].Ended.SlotUntil
	if left := until.Sub(w.now); left != clock.Minute+20*clock.Second {
		t.Fatalf("the slot is kept for %s, expected the activation deadline and the confirm window", left)
	}
	w.s = w.restored() // a server that starts again frees it as well
	for w.now.Add(10*clock.Second) < until {
		w.tick()
		w.hosts["h1"].work()
		w.now = w.now.Add(10 * clock.Second)
		if w.s.Hosts["h1"].Grant != nil || w.count(event.HostSlotFreed{}, "h0") != 0 {
			t.Fatalf("the slot was given away %s early\n%s", until.Sub(w.now), w.tail())
		}
	}
	w.now = until
	w.live(4)
	if w.count(event.HostSlotFreed{}, "h0") != 1 || w.count(event.HostFailedSilently{}, "h0") != 1 {
		t.Fatalf("the slot was not freed by an event\n%s", w.tail())
	}
	w.expect("h1=converged/two")
	w.retired(t)
	if _, err := plan.Decommission(w.s, "h0", "again", "ada", w.now); err == nil {
		t.Error("a decommissioned host was decommissioned again")
	}
	if _, err := plan.Revoke(w.s, "nobody", "x", "ada", w.now); err == nil {
		t.Error("a host that never enrolled was revoked")
	}
	if a, b := w.json(w.s), w.json(w.fold(len(w.log))); string(a) != string(b) {
		t.Error("S25: the folded log is not the live state")
	}
}

// retired checks the decommissioned host.
func (w *world) retired(t *testing.T) {
	t.Helper()
	h := w.s.Hosts["h0"]
	if h.InFlight() || h.Reachable() || h.IdentityStatus() != gate.Decommissioned {
		t.Fatalf("host h0 is in flight %t, reachable %t, %s", h.InFlight(), h.Reachable(), h.IdentityStatus())
	}
}

// An offer that nobody took frees the slot when it expires, and a host with
// nothing to do at once.
func TestDecommissionOfAnIdleHost(t *testing.T) {
	w := onOne(t, "h0 h1")
	w.commit(plan.Decommission(w.s, "h1", "sold", "ada", w.now))
	w.tick()
	if w.count(event.HostSlotFreed{}, "h1") != 1 {
		t.Fatal("an idle host kept a slot")
	}
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 h1", target: bundles[1]}))
	w.tick()
	w.commit(plan.Decommission(w.s, "h0", "sold", "ada", w.now))
	if until, g := w.s.Hosts["h0"].Ended.SlotUntil, w.s.Hosts["h0"].Grant; g == nil || until != g.Expires {
		t.Fatalf("the slot is kept until %s, the offer %+v", until, g)
	}
}

// A certificate that was issued while the server's clock was ahead ends with the
// others, and an earlier revocation stands whatever a later one names.
func TestS38ClockSetBackLoosensNoRevocation(t *testing.T) {
	for name, end := range map[string]func(*plan.State, string, string, string, clock.Instant) ([]event.Entry, error){
		gate.Revoked: plan.Revoke, gate.Decommissioned: plan.Decommission,
	} {
		w := onOne(t, "h0")
		issued := w.s.Hosts["h0"].IssuedAt
		back := issued.Add(-10 * clock.Minute)
		w.commit(end(w.s, "h0", "lost", "ada", back))
		h := w.s.Hosts["h0"]
		if h.RevokedBefore <= issued || h.IdentityStatus() != name {
			t.Errorf("%s: the certificate of %s is good: those from before %s ended", name, issued, h.RevokedBefore)
		}
		before := h.RevokedBefore
		w.record("h0", event.HostRevoked{NotBefore: back, Reason: "signed earlier", Actor: "release"})
		if h.RevokedBefore != before {
			t.Errorf("%s: certificates from before %s were ended, now only those from before %s", name, before, h.RevokedBefore)
		}
	}
}

// A host that died at work in one rollout delays none that opens later, whether it
// comes back or not: it never took a grant of that one.
func TestS12HostThatDiedAtWorkDelaysNoLaterRollout(t *testing.T) {
	w := onOne(t, "h0 h1")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 h1", target: bundles[1], maxFailures: 1, confirm: 20 * clock.Second}))
	w.tick()
	w.hosts["h0"].poll()
	w.hosts["h0"].prepare(true)
	w.hosts["h0"].claim(true)
	w.hosts["h0"].deliver()
	w.presence("h0", false)
	w.live(12)
	w.phase("c@r2", rollout.Terminal)
	w.release(fleet.Queue, w.manifest(spec{ref: "r3", waves: "h0 h1", target: bundles[2], maxFailures: 1}))
	w.live(6)
	w.phase("c@r3", rollout.Terminal)
	w.presence("h0", true) // and is not given another bundle in the middle of its work
	w.tick()
	if g := w.s.Hosts["h0"].Grant; g == nil || g.Rollout != "c@r2" {
		t.Fatalf("a host that is activating was granted %+v", g)
	}
	w.live(20)
	w.expect("h0=converged/three h1=converged/three")
}

// What a host failed to prove holds nothing once it is retired.
func TestS42RetiredHostHasNothingToProve(t *testing.T) {
	w := onOne(t, "h0 h1 h2")
	w.release(fleet.Queue, w.evidenced("r2", "h0 h1 | h2", fleet.Enforce))
	for n := 0; w.s.Hosts["h0"].Machine.Phase != host.Converged || w.s.Hosts["h0"].Machine.Rollout != "c@r2"; n++ {
		if n > 40 {
			t.Fatalf("h0 does not converge\n%s", w.tail())
		}
		w.tick()
		w.hosts["h0"].work()
		w.now = w.now.Add(5 * clock.Second)
	}
	w.hosts["h0"].deliver()
	w.hosts["h0"].scan("BP28-R1")
	w.working(6, "h1")
	if r := w.phase("c@r2", rollout.Active); r.Cursor != 0 || r.Blocked != "0/evidence" {
		t.Fatalf("wave %d is open, held by %q", r.Cursor, r.Blocked)
	}
	w.commit(plan.Revoke(w.s, "h0", "lost", "ada", w.now))
	w.tick()
	if r := w.phase("c@r2", rollout.Active); r.Cursor != 0 {
		t.Fatal("a host that may come back has nothing to prove")
	}
	w.commit(plan.Decommission(w.s, "h0", "sold", "ada", w.now))
	w.tick()
	if r := w.s.Find("c@r2"); r.Cursor == 0 {
		t.Fatalf("a retired host holds the first wave: %s\n%s", r.Blocked, w.tail())
	}
}
