package agent_test

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/agent"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// inActivation is a host that activates fresh under grant g, as loaded after a crash.
func inActivation(t testkit.T) *agent.State {
	t.Helper()
	s := &agent.State{}
	step(t, s, agent.Started{BootID: "b", Current: old}, 1000)
	step(t, s, grant("g", fresh), 1000)
	step(t, s, agent.Prepared{Grant: "g"}, 1000)
	only[agent.Activate](t, step(t, s, agent.ClaimAnswered{Grant: "g", Accepted: true}, 1000))
	return s
}

// acts lists the effects that change something on the host.
func acts(turn agent.Turn) (out []agent.Effect) {
	for _, e := range turn.Effects {
		switch e.(type) {
		case agent.Activate, agent.Revert, agent.Prepare, agent.Claim, agent.BeginRepairs, agent.BeginReboot, agent.Sweep, agent.RunResources, agent.StartProbes:
			out = append(out, e)
		}
	}
	return out
}

// TestS23ParkedHostDoesNothing gives a parked host any inputs in any order: it acts on
// none, records no event, and stays parked over restarts.
func TestS23ParkedHostDoesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := inActivation(t)
		now := clock.Instant(2000)
		setBack := agent.Parked{Code: host.ParkedBehind, Detail: "the anchor names event 17 and agent.db ends at event 12"}
		stop := only[agent.StopResources](t, step(t, s, agent.Started{BootID: "b", SetBack: &setBack, Confirm: rapid.Bool().Draw(t, "asks")}, now))
		if setBack.Since = now; stop.Parked != setBack {
			t.Fatalf("parked for %+v", stop.Parked)
		}
		g := s.Generation
		inputs := rapid.SampledFrom([]agent.Input{
			agent.Started{BootID: "b"}, agent.Started{BootID: "c", Confirm: true}, agent.Elapsed{}, grant("h", newest), grantOf(host.Rollback, "r", fresh),
			agent.Prepared{Grant: "g"}, agent.ClaimAnswered{Grant: "g", Accepted: true}, agent.Contact{}, agent.RebootFailed{},
			agent.GenerationObserved{Generation: g, Outcome: agent.Complete}, agent.GenerationObserved{Generation: g, Outcome: agent.Broken},
			agent.RepairsObserved{Blocked: []string{"exec/app"}}, agent.ServerChain{Newest: 1, Last: 12}, agent.Refused{Check: "x"}, agent.OverridesReceived{},
		})
		for range 20 {
			now = now.Add(clock.Duration(rapid.Int64Range(0, int64(clock.Hour)).Draw(t, "later")))
			turn := step(t, s, inputs.Draw(t, "input"), now)
			if a := acts(turn); len(a) > 0 || len(turn.Events) > 0 || turn.Desired != nil {
				t.Fatalf("a parked host does %+v and reports %+v", a, turn.Events)
			}
			if s.Parked == nil || *s.Parked != setBack || s.Due() != 0 {
				t.Fatalf("parked is %+v, due at %s", s.Parked, s.Due())
			}
		}
		if turn := step(t, s, grant("i", newest), now); !errors.Is(turn.Dropped, agent.ErrParked) {
			t.Fatalf("an offer was dropped for %v", turn.Dropped)
		}
	})
}

func TestOnlyAProvenHeadParks(t *testing.T) {
	for name, c := range map[string]struct {
		in    agent.ServerChain
		parks bool
	}{
		"the server has less":              {agent.ServerChain{Newest: 3, Last: 5, Proven: true}, false},
		"the same":                         {agent.ServerChain{Newest: 5, Last: 5, Proven: true}, false},
		"more, and anybody can say so":     {agent.ServerChain{Newest: 9, Last: 5}, false},
		"more, signed by this host":        {agent.ServerChain{Newest: 6, Last: 5, Proven: true}, true},
		"another event under a number":     {agent.ServerChain{Newest: 4, Last: 5, Differs: true, Proven: true}, true},
		"another event, and not signed so": {agent.ServerChain{Newest: 4, Last: 5, Differs: true}, false},
	} {
		for _, asks := range []bool{false, true} {
			s := inActivation(t)
			step(t, s, agent.Started{BootID: "b", Confirm: asks}, 2000)
			turn := step(t, s, c.in, 2001)
			if parked := s.Parked != nil && s.Parked.Code == host.ParkedByServer; parked != c.parks {
				t.Errorf("%s, asks %v: parked is %+v", name, asks, s.Parked)
			}
			if c.parks {
				only[agent.StopResources](t, turn)
			}
			if behind := c.in.Newest > c.in.Last || c.in.Differs; asks && !c.parks && s.Unconfirmed() != behind {
				t.Errorf("%s: asks on is %v", name, s.Unconfirmed())
			}
		}
	}
}

// TestStartAsksBeforeItResumes: a start in the middle of an activation resumes nothing
// before the server answered or the time for that is over, and tells the latter.
func TestStartAsksBeforeItResumes(t *testing.T) {
	for name, c := range map[string]struct {
		in          agent.Input
		at          clock.Instant
		goesOn      bool
		unconfirmed bool
	}{
		"the server has no more":       {agent.ServerChain{Newest: 1, Last: 1}, 2010, true, false},
		"the time is not over":         {agent.Elapsed{}, 11_999, false, false},
		"the server does not answer":   {agent.Elapsed{}, 12_000, true, true},
		"a claim of more proves none":  {agent.ServerChain{Newest: 2, Last: 1}, 2010, false, false},
		"what a worker of before says": {agent.ClaimAnswered{Grant: "g", Accepted: true}, 2010, false, false},
		"contact alone":                {agent.Contact{}, 2010, false, false},
		"an offer":                     {grant("h", newest), 2010, false, false},
	} {
		s := inActivation(t)
		if a := acts(step(t, s, agent.Started{BootID: "b", Confirm: true}, 2000)); len(a) > 0 || s.Due() != 12_000 {
			t.Fatalf("before it asked the host does %+v, due at %s", a, s.Due())
		}
		turn := step(t, s, c.in, c.at)
		if !c.goesOn {
			if len(acts(turn)) > 0 || !s.Unconfirmed() {
				t.Errorf("%s: the host does %+v", name, turn.Effects)
			}
			continue
		}
		only[agent.Activate](t, turn)
		only[agent.RunResources](t, turn)
		if booted := reported[event.HostStepped](t, turn); s.Unconfirmed() || booted.Unconfirmed != c.unconfirmed {
			t.Errorf("%s: the host reports %+v", name, booted)
		}
		if end := reported[event.HostStepped](t, step(t, s, outcome(s, agent.Complete, ""), c.at+1)); end.Unconfirmed {
			t.Errorf("%s: it is told again", name)
		}
	}
}

// TestStartAtRestWaitsForNothing: what is stopped starts at once, and only what puts
// something right waits for the server.
func TestStartAtRestWaitsForNothing(t *testing.T) {
	s := resting()
	turn := step(t, s, agent.Started{BootID: "b", Confirm: true}, 2000)
	only[agent.RunResources](t, turn)
	for _, e := range turn.Effects {
		if _, sweeps := e.(agent.Sweep); sweeps {
			t.Error("it sweeps before the server answered")
		}
	}
	admit := func(a engine.Action) agent.RepairAnswer {
		return s.AdmitRepair(engine.Ref{Kind: "generation"}, a, false, 2001)
	}
	if got := admit(quiet{starts: true}); got != agent.RepairFree {
		t.Errorf("a start is answered %d", got)
	}
	if got := admit(quiet{}); got != agent.RepairUnconfirmed {
		t.Errorf("a repair is answered %d", got)
	}
	after := step(t, s, agent.ServerChain{Newest: 1, Last: 1}, 2002)
	only[agent.RunResources](t, after)
	only[agent.Sweep](t, after)
	if got := admit(quiet{}); got != agent.RepairFree {
		t.Errorf("then a repair is answered %d", got)
	}
}

// quiet is an action that disrupts nothing.
type quiet struct{ starts bool }

func (q quiet) ActionName() string { return "quiet" }
func (q quiet) StartsOnly() bool   { return q.starts }
