package plan_test

import (
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/testkit"
)

// why answers for a host and returns the gate's block.
func (w *world) why(name string, code gate.Code) *gate.Block {
	w.t.Helper()
	a, err := plan.Why(w.s, name, w.now)
	if err != nil {
		w.t.Fatalf("why %s: %v", name, err)
	}
	for _, g := range a.Gates {
		if g.Gate == code {
			return g.Block
		}
	}
	w.t.Fatalf("why %s does not ask gate %s: %+v", name, code, a.Gates)
	return nil
}

// onServer is an instant of the machine's clock on the server's.
func (m *machine) onServer(at clock.Instant) clock.Instant { return m.w.now.Add(at.Sub(m.clock())) }

// TestL5GatesAreAskedInTheDeclaredOrder checks the order of DESIGN 5.4.
func TestL5GatesAreAskedInTheDeclaredOrder(t *testing.T) {
	w := onOne(t, "h0")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0", target: bundles[1]}))
	w.tick()
	a := testkit.Value(plan.Why(w.s, "h0", w.now))(t)
	at := map[gate.Code]int{}
	for i, g := range a.Gates {
		at[g.Gate] = i + 1
	}
	last := 0
	for _, code := range []gate.Code{gate.Freshness, gate.Overlay, gate.Freeze, gate.Quarantine, gate.Window, gate.Wave, gate.HostEdge, gate.Budget, gate.Compliance} {
		if at[code] <= last {
			t.Errorf("gate %s is at %d, after %d: %+v", code, at[code], last, a.Gates)
		}
		last = at[code]
	}
}

// TestL5WaveSaysWhenTheSoakCanEnd checks that a host of a later wave, and what
// holds the rollout, name the end of the soak on the server's clock, though the
// host's own clock shows another time.
func TestL5WaveSaysWhenTheSoakCanEnd(t *testing.T) {
	w := onOne(t, "h0 h1")
	m := w.manifest(spec{ref: "r2", waves: "h0 | h1", target: bundles[1], soak: 10 * clock.Minute})
	w.release(fleet.Queue, m)
	w.tick()
	h0 := w.hosts["h0"]
	for h0.agent.Machine.Phase != host.Soaking {
		h0.work()
		w.now = w.now.Add(clock.Second)
	}
	h0.work()
	w.tick()
	soaked := h0.onServer(h0.agent.Machine.SoakFrom.Add(10 * clock.Minute))
	a, err := plan.Why(w.s, "h1", w.now)
	if err != nil || a.Block == nil || a.Block.Code != gate.Wave {
		t.Fatalf("why says %+v, %v", a, err)
	}
	if a.Block.Earliest != soaked {
		t.Fatalf("the wave opens at %s at the earliest, it says %s", soaked, a.Block.Earliest)
	}
	if len(a.WaveBlocks) != 2 || a.WaveBlocks[0].Detail != gate.InFlight || a.WaveBlocks[0].Earliest != a.Block.Earliest || a.WaveBlocks[1].Detail != gate.Unproven {
		t.Fatalf("the wave is held by %+v", a.WaveBlocks)
	}
	w.now = a.Block.Earliest.Add(clock.Minute) // its time has come, and the host says nothing
	w.tick()
	h := w.s.Hosts["h0"]
	given := h.Work.Since.Add(m.Header.Policy.ActivationDeadline + m.Header.Policy.ConfirmWindow + 10*clock.Minute + 3*clock.Minute)
	if b := w.why("h1", gate.Wave); b == nil || b.Earliest != given {
		t.Fatalf("after the soak it says %+v, and the host is given up at %s", b, given)
	}
	w.live(4)
	w.expect("h0=converged/two")
}

// TestL5BudgetSaysWhenASlotCanComeFree checks the expiry of an offered grant and
// the soak of one that is claimed.
func TestL5BudgetSaysWhenASlotCanComeFree(t *testing.T) {
	w := onOne(t, "h0 h1")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 h1", target: bundles[1], budget: 1, soak: 10 * clock.Minute}))
	w.tick()
	if b := w.why("h1", gate.Budget); b == nil || b.Earliest != w.s.Hosts["h0"].Grant.Expires {
		t.Fatalf("beside an offer it says %+v", b)
	}
	h0 := w.hosts["h0"]
	for h0.agent.Machine.Phase != host.Soaking {
		h0.work()
	}
	h0.work()
	w.tick()
	if b := w.why("h1", gate.Budget); b == nil || b.Earliest != h0.onServer(h0.agent.Machine.SoakFrom.Add(10*clock.Minute)) {
		t.Fatalf("beside a soak it says %+v", b)
	}
}

// TestL5SilentDeadlineIsNamed checks that a wave whose host went silent says when
// the patience with it ends.
func TestL5SilentDeadlineIsNamed(t *testing.T) {
	w := onOne(t, "h0 h1")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 | h1", target: bundles[1], confirm: 90 * clock.Second}))
	w.tick()
	h0 := w.hosts["h0"]
	h0.poll()
	h0.prepare(true)
	h0.claim(false)
	w.presence("h0", false)
	w.tick()
	if b := w.why("h1", gate.Wave); b == nil || b.Earliest != w.now.Add(90*clock.Second) {
		t.Fatalf("it says %+v at %s", b, w.now)
	}
}

// TestL5PendingRolloutAnswersEveryGate checks a ref that waits for its channel.
func TestL5PendingRolloutAnswersEveryGate(t *testing.T) {
	w := onOne(t, "h0")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0", target: bundles[1], soak: 10 * clock.Minute}))
	w.tick()
	w.release(fleet.Queue, w.manifest(spec{ref: "r3", waves: "h0", target: bundles[2]}))
	w.tick()
	a, err := plan.Why(w.s, "h0", w.now)
	if err != nil || a.Pending != "c@r3" || len(a.PendingGates) != 2 || a.PendingGates[0].Gate != gate.Queue || a.PendingGates[0].Block == nil ||
		a.PendingGates[1].Gate != gate.ChannelEdge || a.PendingGates[1].Block != nil || a.PendingBlock != a.PendingGates[0].Block {
		t.Fatalf("it says %+v, %v", a, err)
	}
}
