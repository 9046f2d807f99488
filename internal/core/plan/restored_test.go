package plan_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/plan"
)

// behind is a server to which a host owes a part of the log.
func (w *world) behind() plan.Restored {
	return plan.Restored{Behind: gate.CheckBehind("h9", 0, w.now.Add(clock.Minute))}
}

func (w *world) ask(name string, r plan.Restored) *plan.Answer {
	w.t.Helper()
	a, err := plan.Explain(w.s, w.now).Restored(r).Why(name)
	if err != nil {
		w.t.Fatalf("why %s: %v", name, err)
	}
	return a
}

// wantRestore checks that the server's own gate is asked first and is the answer.
func (w *world) wantRestore(what string, words string, b *gate.Block, gates []plan.Gate, detail string) {
	w.t.Helper()
	if b == nil || b.Code != gate.Restore || b.Detail != detail || !strings.Contains(words, b.Message) {
		w.t.Fatalf("%s: %+v, %q", what, b, words)
	}
	if gates != nil && (gates[0].Gate != gate.Restore || gates[0].Block != b || len(gates) < 3) {
		w.t.Fatalf("%s asks %+v first", what, gates[0])
	}
}

// TestL5ServerThatLacksAPartOfItsLogSaysSo asks why of every kind of wait while the
// state alone knows of nothing that holds it back.
func TestL5ServerThatLacksAPartOfItsLogSaysSo(t *testing.T) {
	w := scene(t, "h0 h1")
	w.release(fleet.Queue, w.manifest(spec{ref: "r1", waves: "h0 h1", target: bundles[0], budget: 1}))
	a := w.ask("h0", w.behind())
	w.wantRestore("a rollout that is not open", a.Message, a.PendingBlock, a.PendingGates, "behind")

	w.tick() // h0 has the offer
	a = w.ask("h0", w.behind())
	w.wantRestore("an offer", a.Message, a.Block, a.Gates, "behind")
	unheard := plan.Restored{Missing: slices.Values([]string{"h1"}), Until: w.now.Add(clock.Minute)}
	a = w.ask("h0", unheard)
	w.wantRestore("an offer that another may be in the way of", a.Message, a.Block, a.Gates, "roll-call")
	if a.Block.Earliest != unheard.Until {
		t.Errorf("clears at %s", a.Block.Earliest)
	}
	if b := unheard.Claim(w.s, "h0", w.s.Hosts["h0"].Grant.ID); b == nil || b.Message != a.Block.Message {
		t.Errorf("the claim is held by %+v", b)
	}
	if a = w.ask("h1", unheard); a.Block == nil || a.Block.Code != gate.Budget || a.Gates[0].Gate != gate.Restore || a.Gates[0].Block != nil {
		t.Errorf("no claim of h1 waits: %+v, %+v", a.Block, a.Gates[0])
	}
	if a = w.ask("h0", plan.Restored{}); a.Block != nil || a.Gates[0].Gate != gate.Restore {
		t.Errorf("a server that lacks nothing holds h0 back: %+v", a)
	}
	if a, err := plan.Why(w.s, "h0", w.now); err != nil || a.Gates[0].Gate != gate.Freshness {
		t.Errorf("the state alone: %+v, %v", a, err)
	}
}

// TestL5RestoredServerSaysWhatRepairsAndRebootsWaitFor is the same of grants that are
// no rollout's.
func TestL5RestoredServerSaysWhatRepairsAndRebootsWaitFor(t *testing.T) {
	w := budgeted(t, "h0 h1", 1)
	w.drift("h0 h1")
	w.wantRepairing("h0")
	for _, n := range w.names() {
		a := w.ask(n, w.behind())
		w.wantRestore("the repair of "+n, a.Repair.Message, a.Repair.Block, a.Repair.Gates, "behind")
		if !strings.HasSuffix(a.Message, a.Repair.Message) {
			t.Errorf("%s: %q", n, a.Message)
		}
	}

	w = staging(t, "h0", spec{})
	w.tick()
	w.stage("h0")
	a := w.ask("h0", w.behind())
	w.wantRestore("a reboot", a.Message, a.Reboot.Block, a.Reboot.Gates, "behind")
	w.tick()
	a = w.ask("h0", w.behind())
	w.wantRestore("an offer to reboot", a.Message, a.Reboot.Block, nil, "behind")
	w.claimReboot("h0")
	if a = w.ask("h0", w.behind()); a.Reboot != nil && a.Reboot.Block != nil {
		t.Errorf("what the host does by itself waits for nothing: %+v", a.Reboot)
	}
}

// TestL6WaysBackGoOnWhileAHostIsWaitedFor: what one host claims to know keeps nobody on
// what failed. The failure policy fires, hosts are sent back, and they may claim it;
// nothing goes forward meanwhile.
func TestL6WaysBackGoOnWhileAHostIsWaitedFor(t *testing.T) {
	w := onOne(t, "h0 h1 h2")
	w.breakOn(bundles[1], "h0")
	w.release(fleet.Queue, w.manifest(spec{ref: "r2", waves: "h0 h1 h2", target: bundles[1], budget: 2}))
	w.tick()
	for range 2 {
		w.hosts["h0"].work()
		w.hosts["h1"].work()
	}
	p, err := plan.NextRollbacks(w.s, w.now)
	w.commit(p.Events, err)
	back := w.s.Hosts["h1"].Grant
	if back == nil || back.Purpose != host.Rollback || w.s.Hosts["h2"].Grant != nil {
		t.Fatalf("h1 has %+v and h2 %+v\n%s", back, w.s.Hosts["h2"].Grant, w.tail())
	}
	if again, err := plan.NextRollbacks(w.s, w.now); err != nil || len(again.Events) > 0 {
		t.Fatalf("S27: decided again: %+v, %v", again.Events, err)
	}
	if b := w.behind().Claim(w.s, "h1", back.ID); b != nil {
		t.Fatalf("the way back waits: %s", b.Message)
	}
}

// TestS23ClaimOfAnEarlierProcessWaitsForItsHost: in a restored log a host may have claimed
// an offer already, and have gone on. Until it has said how far its events go, neither
// an offer nor a claim that the log has lets it act; what this process offers does, and
// so does a way back.
func TestS23ClaimOfAnEarlierProcessWaitsForItsHost(t *testing.T) {
	w := scene(t, "h0")
	w.s.Lead(plan.Run(1, "first"))
	w.release(fleet.Queue, w.manifest(spec{ref: "r1", waves: "h0", target: bundles[0]}))
	w.tick()
	heard := false
	r := plan.Restored{Reported: func(string) bool { return heard }, Until: w.now.Add(clock.Minute)}
	claims := func() string {
		if b := r.Claim(w.s, "h0", w.s.Hosts["h0"].Grant.ID); b != nil {
			return b.Detail
		}
		return ""
	}
	if got := claims(); got != "" {
		t.Fatalf("the process that offered holds the claim: %s", got)
	}
	w.s.Lead(plan.Run(1, "second"))
	if got := claims(); got != "unheard" {
		t.Fatalf("an offer of another process: %q", got)
	}
	if a := w.ask("h0", r); a.Block == nil || a.Block.Detail != "unheard" || a.Block.Earliest != r.Until {
		t.Errorf("why says %+v", a.Block)
	}
	w.commit(plan.Claim(w.s, "h0", w.s.Hosts["h0"].Grant.ID, w.now))
	if got := claims(); got != "unheard" {
		t.Fatalf("a claim that the log has: %q", got)
	}
	heard = true
	if got := claims(); got != "" {
		t.Fatalf("the host was heard: %q", got)
	}
}
