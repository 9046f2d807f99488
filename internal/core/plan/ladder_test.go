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

// TestL5LadderSaysWhatWasPassed: what is open before the gate that holds was passed, what comes
// after was not reached, and who has its grant passed all.
func TestL5LadderSaysWhatWasPassed(t *testing.T) {
	w := onOne(t, "h0 h1")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 | h1", target: bundles[1], soak: clock.Minute}))
	w.tick()
	states := func(name string) map[gate.Code]plan.GateState {
		out := map[gate.Code]plan.GateState{}
		for _, g := range testkit.Value(plan.Why(w.s, name, w.now))(t).Gates {
			out[g.Gate] = g.State
		}
		return out
	}
	if s := states("h1"); s[gate.Freshness] != plan.Passed || s[gate.Wave] != plan.Closed || s[gate.Budget] != plan.NotReached {
		t.Errorf("the host of the later wave stands %v", s)
	}
	if s := states("h0"); s[gate.Freshness] != plan.Passed || s[gate.Budget] != plan.Passed {
		t.Errorf("the host that was granted stands %v", s)
	}
	gates := plan.WaveGates(w.s, w.s.Find("c@r2"), w.now)
	first := gates[1]
	if gates[0].Gate != gate.Overlay || gates[0].State != plan.Passed || first.Rule != "in-flight" || first.State != plan.Closed || gates[2].State != plan.NotReached {
		t.Errorf("the wave stands %+v", gates)
	}
	step := plan.NextStep(w.s, w.s.Find("c@r2"), w.now)
	if step == nil || step.Wave != "w1" || step.Block == nil || step.Block != nil && step.Block.Code != first.Gate {
		t.Errorf("next comes %+v", step)
	}
	opens := clock.Instant(0)
	for range 30 {
		if step := plan.NextStep(w.s, w.s.Find("c@r2"), w.now); step != nil && step.Wave == "w1" && step.Comes.Latest != 0 {
			opens = step.Comes.Latest
		}
		was := w.s.Find("c@r2").Cursor
		w.live(1)
		if now := w.s.Find("c@r2").Cursor; now != was && was == 0 && (opens == 0 || w.now > opens.Add(10*clock.Second)) {
			t.Errorf("wave w1 opened at %s, and was estimated for %s at the latest", w.now, opens)
		}
	}
	if step := plan.NextStep(w.s, w.s.Find("c@r2"), w.now); step != nil {
		t.Errorf("after its end comes %+v", step)
	}
	if s := states("h1"); s[gate.Wave] != plan.Passed {
		t.Errorf("the host that converged stands %v", s)
	}
}

// TestL5UpcomingHostsAreGrantedNext: of the hosts in line the first gets the next slot, and one
// that its operator froze is not in line.
func TestL5UpcomingHostsAreGrantedNext(t *testing.T) {
	w := onOne(t, "h0 h1 h2 h3 h4")
	w.commit(plan.Freeze(w.s, "h1", w.now.Add(clock.Day), "disk swap", "ada", w.now))
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 h1 h2 h3 | h4", target: bundles[1], budget: 1, soak: clock.Minute}))
	w.tick()
	r := w.s.Find("c@r2")
	for left := 2; left > 0; left-- {
		line := plan.Explain(w.s, w.now).Upcoming(r, 10)
		if len(line) != left || line[0].Block == nil || line[0].Block.Code != gate.Budget || line[0].Wave != "w0" {
			t.Fatalf("%d hosts are left, and the line is %+v", left, line)
		}
		if first := plan.Explain(w.s, w.now).Upcoming(r, 1); len(first) != 1 || first[0].Host != line[0].Host {
			t.Fatalf("the first of %+v is %+v", line, first)
		}
		for tries := 0; w.s.Hosts[line[0].Host].Grant == nil && w.s.Hosts[line[0].Host].Machine.Phase != host.Soaking; tries++ {
			if tries == 50 {
				t.Fatalf("%s was not granted; in line are %+v", line[0].Host, plan.Explain(w.s, w.now).Upcoming(r, 10))
			}
			for _, name := range w.names() {
				w.hosts[name].work()
			}
			w.now = w.now.Add(10 * clock.Second)
			w.tick()
			for _, later := range line[1:] {
				if g := w.s.Hosts[later.Host].Grant; g != nil && w.s.Hosts[line[0].Host].Machine.Current != bundles[1] && w.s.Hosts[line[0].Host].Grant == nil {
					t.Fatalf("%s was granted before %s", later.Host, line[0].Host)
				}
			}
		}
	}
}
