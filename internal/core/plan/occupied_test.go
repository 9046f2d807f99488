package plan_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
	managed "github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/testkit"
)

// sit has a session set an entry on a host until an instant; zero is no end.
func (w *world) sit(name, session, entry string, until clock.Instant) {
	w.t.Helper()
	w.record(name, event.ManagedSet{Kind: "workspace", Name: entry, Spec: []byte("{}"), NotAfter: until, Owner: managed.SessionOwner(session), Actor: "server", Reason: "provisioned"})
}

func (w *world) leave(name, entry string) {
	w.t.Helper()
	w.record(name, event.ManagedRemoved{Kind: "workspace", Name: entry, Actor: "server", Reason: "torn down"})
}

func TestS55UpdateWaitsForTheSession(t *testing.T) {
	w := onOne(t, "h0 h1")
	end := w.now.Add(clock.Hour)
	w.sit("h1", "lab", "desk", end)
	w.sit("h1", "lab", "bench", end.Add(-clock.Minute))
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 h1", target: bundles[1]}))
	w.live(4)
	w.expect("h0=converged/two h1=converged/one")
	w.phase("c@r2", rollout.Active)
	b := w.why("h1", gate.Occupied)
	if b == nil || b.Earliest != end || !strings.Contains(b.Message, "session lab until") || !strings.Contains(b.ClearedBy, "steady session stop lab") {
		t.Fatalf("why says %+v", b)
	}
	a := testkit.Value(plan.Why(w.s, "h1", w.now))(t)
	for _, g := range a.Gates {
		if (g.Gate == gate.Occupied) != (g.State == plan.Closed) {
			t.Errorf("the ladder says %s of gate %s", g.State, g.Gate)
		}
	}
	w.leave("h1", "desk")
	w.live(2)
	w.expect("h1=converged/one")
	w.leave("h1", "bench")
	w.live(6)
	w.expect("h1=converged/two")
	w.phase("c@r2", rollout.Terminal)
}

// The end of an entry opens the gate by itself: the planner looks then, also one that was restored
// meanwhile, and nobody has to have removed the entry.
func TestS55EndOfAnEntryOpensTheGate(t *testing.T) {
	for _, restored := range []bool{false, true} {
		w := onOne(t, "h0")
		end := w.now.Add(10 * clock.Minute)
		w.sit("h0", "lab", "desk", end)
		w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0", target: bundles[1]}))
		w.live(2)
		if restored {
			w.s = w.restored()
		}
		if next := testkit.Value(plan.Next(w.s, w.now))(t).Next; next == 0 || next > end {
			t.Fatalf("the planner looks again at %s, the entry ends at %s", next, end)
		}
		w.now = end - 1
		w.tick()
		if w.s.Hosts["h0"].Grant != nil {
			t.Fatalf("granted before the end\n%s", w.tail())
		}
		w.now = end
		w.tick()
		if w.s.Hosts["h0"].Grant == nil {
			t.Fatalf("not granted at the end\n%s", w.tail())
		}
	}
}

func TestS55ClaimWaitsForTheSession(t *testing.T) {
	w := onOne(t, "h0")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0", target: bundles[1]}))
	w.tick()
	grant := w.s.Hosts["h0"].Grant.ID
	w.sit("h0", "lab", "desk", 0)
	if _, err := plan.Claim(w.s, "h0", grant, w.now); err == nil || !strings.Contains(err.Error(), "session lab") {
		t.Fatalf("the claim gets %v", err)
	}
	if b := w.why("h0", gate.Occupied); b == nil || b.Earliest != 0 || strings.Contains(b.ClearedBy, "time") {
		t.Fatalf("of a session without an end why says %+v", b)
	}
	w.leave("h0", "desk")
	w.commit(plan.Claim(w.s, "h0", grant, w.now))
}

// TestS55SessionBlocksNoWayBack: a host that fails goes back by itself, and one that converged is
// sent back, whatever sessions have on them.
func TestS55SessionBlocksNoWayBack(t *testing.T) {
	w := onOne(t, "h0 h1")
	w.breakOn(bundles[1], "h1")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 | h1", target: bundles[1]}))
	for range 30 {
		w.live(1)
		if w.s.Hosts["h1"].Grant != nil {
			break
		}
	}
	w.hosts["h1"].work()
	w.sit("h0", "lab", "desk", 0)
	w.sit("h1", "lab", "desk", 0)
	w.live(12)
	w.phase("c@r2", rollout.Reverted)
	w.expect("h0=reverted/one h1=reverted/one")
}

func TestS55RepairAndRebootWaitForTheSession(t *testing.T) {
	w := onOne(t, "h0 h1")
	m := w.hosts["h1"]
	m.stages = true
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 h1", target: bundles[1]}))
	w.tick()
	m.poll()
	m.prepare(true)
	m.claim(false)
	w.sit("h1", "lab", "desk", 0)
	w.live(4)
	w.sit("h0", "lab", "desk", 0)
	w.hosts["h0"].drifts(true, "exec/app")
	w.live(3)
	w.expect("h0=converged/two h1=deferred/one")
	for name, message := range map[string]string{"h0": w.answer("h0").Repair.Message, "h1": w.answer("h1").Reboot.Message} {
		if !strings.Contains(message, "session lab") {
			t.Errorf("%s: %s", name, message)
		}
	}
	w.leave("h0", "desk")
	w.leave("h1", "desk")
	w.live(4)
	if a := w.answer("h0"); a.Repair != nil {
		t.Errorf("h0 still waits: %s", a.Repair.Message)
	}
	w.expect("h1=converged/two")
}

func (w *world) answer(name string) *plan.Answer {
	w.t.Helper()
	a, err := plan.Why(w.s, name, w.now)
	if err != nil {
		w.t.Fatalf("why %s: %v", name, err)
	}
	return a
}

// TestS55RenamedHostIsOccupiedToo: what sessions have on a machine counts under its next name, and
// no more once another machine has the name before; a new incarnation of a name keeps it.
func TestS55RenamedHostIsOccupiedToo(t *testing.T) {
	s := plan.New(documents{})
	at := clock.Instant(1)
	add := func(name string, evs ...event.Event) {
		for _, ev := range evs {
			at++
			e := testkit.Value(event.NewEntry(at, event.HostSubject(name), ev))(t)
			testkit.Must(t, s.Apply(e))
		}
	}
	occupied := func(name string, want bool) {
		t.Helper()
		if got := plan.Occupied(s, name, at); (got != nil) != want {
			t.Errorf("%s: %+v, expected occupied %t", name, got, want)
		}
	}
	key := []byte("key")
	add("old", event.HostEnrolled{Incarnation: 1, Token: "a", EventKey: key})
	s.Hosts["old"].Seq = 1 // it reported with its key
	add("old", event.ManagedSet{Kind: "workspace", Name: "desk", Owner: managed.SessionOwner("lab")})
	add("new", event.HostEnrolled{Incarnation: 1, Token: "b", EventKey: key})
	occupied("new", true)
	add("new", event.HostEnrolled{Incarnation: 2, Token: "c", EventKey: key})
	occupied("new", true)
	add("old", event.HostEnrolled{Incarnation: 2, Token: "d", EventKey: []byte("another")})
	occupied("new", false)
	occupied("old", true)
	add("old", event.ManagedRemoved{Kind: "workspace", Name: "desk"})
	occupied("old", false)
	if s.Hosts["old"].Occupied != nil {
		t.Error("what is over leaves something behind")
	}
}

// TestS55OccupiedIsWhatTheLayerHolds: for any history of a layer a host is occupied exactly while
// an entry of a session is in it whose end has not come, from a snapshot too; entries of
// operators keep nothing back.
func TestS55OccupiedIsWhatTheLayerHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, now := plan.New(documents{}), clock.Instant(1000)
		type entry struct {
			owner managed.Owner
			until clock.Instant
		}
		layer := map[string]entry{}
		for range rapid.IntRange(0, 20).Draw(t, "events") {
			name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name")
			var ev event.Event = event.ManagedRemoved{Kind: "volume", Name: name}
			if rapid.IntRange(0, 2).Draw(t, "set") > 0 {
				x := entry{rapid.SampledFrom([]managed.Owner{managed.Operators, "session/lab", "session/class"}).Draw(t, "owner"), 0}
				if rapid.Bool().Draw(t, "ends") {
					x.until = now.Add(clock.Duration(rapid.IntRange(1, 5).Draw(t, "until")))
				}
				layer[name], ev = x, event.ManagedSet{Kind: "volume", Name: name, Owner: x.owner, NotAfter: x.until}
			} else {
				delete(layer, name)
			}
			testkit.Must(t, s.Apply(testkit.Value(event.NewEntry(now, event.HostSubject("h"), ev))(t)))
			if rapid.IntRange(0, 4).Draw(t, "restored") == 0 {
				s = testkit.Value(plan.Clone(s, documents{}))(t)
			}
			now = now.Add(clock.Duration(rapid.IntRange(0, 2).Draw(t, "passes")))
			want := false
			for _, x := range layer {
				want = want || x.owner != managed.Operators && (x.until == 0 || x.until > now)
			}
			if b := plan.Occupied(s, "h", now); (b != nil) != want {
				t.Fatalf("occupied by %+v of %+v at %d, expected %t", b, layer, now, want)
			}
		}
	})
}
