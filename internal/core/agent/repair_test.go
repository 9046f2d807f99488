package agent_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/agent"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/host"
)

// resting is a host that converged on fresh.
func resting() *agent.State {
	p := planTo(fresh)
	return &agent.State{Plan: p, Machine: host.State{Phase: host.Converged, Manifest: p.Manifest, Rollout: p.Rollout, Current: fresh, Target: fresh}}
}

func blocked(names ...string) agent.RepairsObserved {
	return agent.RepairsObserved{Blocked: names, Reason: "the check fails"}
}

// opened is a host with an open window, from instant 1000 on.
func opened(t *testing.T) *agent.State {
	a := resting()
	reported[event.RepairNeeded](t, step(t, a, blocked("exec/app"), 900))
	only[agent.Claim](t, step(t, a, grantOf(host.Repair, "g", fresh), 950))
	if o := only[agent.BeginRepairs](t, step(t, a, agent.ClaimAnswered{Grant: "g", Accepted: true}, 1000)); o.Grant != "g" || o.Until != clock.Instant(1000).Add(clock.Minute) {
		t.Fatalf("opened %+v", o)
	}
	return a
}

func TestRepairIsReportedOnceAndExtendedSeldom(t *testing.T) {
	a := resting()
	n := reported[event.RepairNeeded](t, step(t, a, blocked("exec/app"), 1000))
	if n.Manifest != a.Machine.Manifest || n.Bundle != fresh || n.Reason == "" || !slices.Equal(n.Resources, []string{"exec/app"}) {
		t.Fatalf("reported %+v", n)
	}
	if again := step(t, a, blocked("exec/app"), 2000); again.Save || a.Due() != 0 {
		t.Fatalf("the same was reported again: %+v", again)
	}
	if soon := step(t, a, blocked("exec/app", "exec/b"), 2000); len(soon.Events) > 0 {
		t.Fatalf("reported too soon: %+v", soon)
	}
	next := clock.Instant(1000).Add(agent.RepairEvery)
	if a.Due() != next {
		t.Fatalf("due at %d, not at %d", a.Due(), next)
	}
	if n := reported[event.RepairNeeded](t, step(t, a, blocked("exec/app", "exec/b"), next)); len(n.Resources) != 2 || a.Due() != 0 {
		t.Fatalf("reported %+v, due %d", n, a.Due())
	}
	if end := reported[event.RepairOver](t, step(t, a, agent.RepairsObserved{}, next+1)); !end.OK || end.Grant != "" {
		t.Fatalf("ended %+v", end)
	}
	if step(t, a, agent.RepairsObserved{}, next+2).Save {
		t.Fatal("ended twice")
	}
}

func TestRepairReportsAreBounded(t *testing.T) {
	var names []string
	for i := range 40 {
		names = append(names, fmt.Sprintf("exec/%02d", i))
	}
	a := resting()
	if n := reported[event.RepairNeeded](t, step(t, a, blocked(names...), 1)); len(n.Resources) != host.MaxRepairNames || n.More != 40-host.MaxRepairNames {
		t.Fatalf("reported %d and %d more", len(n.Resources), n.More)
	}
	if len(a.Repairs.Names) != 40 {
		t.Fatalf("%d are known here", len(a.Repairs.Names))
	}
}

// TestS1WindowClosesWhenNothingRuns checks that a host gives its slot back only
// when no act under it runs, and that nothing begins after its time.
func TestS1WindowClosesWhenNothingRuns(t *testing.T) {
	until := clock.Instant(1000).Add(clock.Minute)
	for name, c := range map[string]struct {
		drift agent.RepairsObserved
		at    clock.Instant
		over  bool
		ok    bool
	}{
		"nothing left":                {agent.RepairsObserved{}, 1001, true, true},
		"held, not asked again yet":   {blocked("exec/app"), 1001, false, false},
		"waits to be seen as working": {agent.RepairsObserved{Pending: true}, 1001, false, false},
		"runs":                        {agent.RepairsObserved{Pending: true, Running: true}, 1001, false, false},
		"runs, and time is over":      {agent.RepairsObserved{Pending: true, Running: true}, until, false, false},
		"pending, and time is over":   {agent.RepairsObserved{Pending: true}, until, true, false},
		"given up":                    {agent.RepairsObserved{Failed: []string{"exec/app"}}, 1001, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			a := opened(t)
			turn := step(t, a, c.drift, c.at)
			if !c.over {
				if len(turn.Events) > 0 || a.Repairs.Grant != "g" || a.Repairs.Open(c.at) != (c.at < until) {
					t.Fatalf("went on with %+v: %+v", turn, a.Repairs)
				}
				return
			}
			if end := reported[event.RepairOver](t, turn); end.Grant != "g" || end.OK != c.ok || end.Detail == "" || a.Repairs.Open(c.at) {
				t.Fatalf("ended with %+v", end)
			}
			if again := step(t, a, grantOf(host.Repair, "g", fresh), c.at); again.Save {
				t.Fatalf("S24: a window is opened twice: %+v", again)
			}
		})
	}
}

// TestRepairLeftOverAsksAgain checks that what the window had no time for waits
// for the next one.
func TestRepairLeftOverAsksAgain(t *testing.T) {
	a := opened(t)
	turn := step(t, a, blocked("exec/app"), clock.Instant(1000).Add(clock.Minute))
	if only[agent.CloseRepairs](t, turn); reported[event.RepairOver](t, turn).OK || reported[event.RepairNeeded](t, turn).Resources[0] != "exec/app" {
		t.Fatalf("went on with %+v", turn)
	}
}

// TestS23OneThingAtATime declines whatever comes while a window is open.
func TestS23OneThingAtATime(t *testing.T) {
	a := opened(t)
	for _, o := range []agent.Granted{grant("g2", newest), grantOf(host.Rollback, "g3", fresh), grantOf(host.Repair, "g4", fresh)} {
		if d := reported[event.GrantDeclined](t, step(t, a, o, 1001)); d.Code != host.DeclineBusy {
			t.Fatalf("%s is declined as %s", o.Purpose, d.Code)
		}
	}
	if open := only[agent.BeginRepairs](t, step(t, a, agent.Started{}, 1002)); open.Grant != "g" {
		t.Fatalf("after a restart %+v", open)
	}
}

// TestRepairEndsWhenTheHostGoesOn checks that an activation takes over what
// waited, and says so.
func TestRepairEndsWhenTheHostGoesOn(t *testing.T) {
	a := resting()
	step(t, a, blocked("exec/app"), 900)
	step(t, a, grant("g2", newest), 950)
	step(t, a, agent.Prepared{Grant: "g2"}, 960)
	turn := step(t, a, agent.ClaimAnswered{Grant: "g2", Accepted: true}, 970)
	only[agent.Activate](t, turn)
	if end := reported[event.RepairOver](t, turn); end.Grant != "" || end.OK || a.Repairs.Need != nil {
		t.Fatalf("ended with %+v", end)
	}
	if step(t, a, blocked("exec/app"), 980).Save {
		t.Fatal("a host in flight asks for a grant")
	}
}

func TestRepairRefusedWaitsOn(t *testing.T) {
	a := resting()
	step(t, a, blocked("exec/app"), 900)
	step(t, a, grantOf(host.Repair, "g", fresh), 950)
	nothing(t, step(t, a, agent.ClaimAnswered{Grant: "g"}, 1000), "a refused claim")
	if a.Repairs.Grant != "" || a.Offer != nil || a.Repairs.Need == nil {
		t.Fatalf("a refused claim leaves %+v", a.Repairs)
	}
}

// TestS24EveryWindowEndsOnce drives a host at random: every claimed grant is
// answered by exactly one end, no report comes sooner than allowed, and whenever
// the host is due, a look helps.
func TestS24EveryWindowEndsOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, now, grants := resting(), clock.Instant(1), 0
		open, told := "", clock.Instant(0)
		run := func(turn agent.Turn) {
			for _, e := range turn.Effects {
				if e, ok := e.(agent.BeginRepairs); ok {
					open = e.Grant
				}
			}
			for _, e := range turn.Events {
				switch e := e.(type) {
				case event.RepairOver:
					if e.Grant != open {
						t.Fatalf("ended %q while %q is open", e.Grant, open)
					}
					open = ""
				case event.RepairNeeded:
					if told != 0 && now.Sub(told) < agent.RepairEvery {
						t.Fatalf("reported after %s", now.Sub(told))
					}
					told = now
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"look": func(t *rapid.T) {
				d := agent.RepairsObserved{Running: rapid.Bool().Draw(t, "running")}
				d.Pending = d.Running || rapid.Bool().Draw(t, "pending")
				d.Blocked = rapid.SampledFrom([][]string{nil, {"exec/a"}, {"exec/a", "exec/b"}}).Draw(t, "held")
				run(step(t, a, d, now))
			},
			"advance": func(t *rapid.T) { now = now.Add(clock.Duration(rapid.IntRange(1, 40).Draw(t, "s")) * clock.Second) },
			"grant": func(t *rapid.T) {
				grants++
				run(step(t, a, grantOf(host.Repair, fmt.Sprint("g", grants), fresh), now))
			},
			"answer": func(t *rapid.T) {
				if a.Offer != nil {
					run(step(t, a, agent.ClaimAnswered{Grant: a.Offer.Grant, Accepted: rapid.Bool().Draw(t, "accepted")}, now))
				}
			},
			"restart": func(t *rapid.T) { run(step(t, a, agent.Started{}, now)) },
			"": func(t *rapid.T) {
				if a.Repairs.Grant != open {
					t.Fatalf("%q is open, the host says %q", open, a.Repairs.Grant)
				}
				if due := a.Due(); due.Reached(now) {
					if turn := step(t, a, agent.Elapsed{}, now); len(turn.Effects) != 1 || a.Due() != 0 {
						t.Fatalf("due at %d, and nothing is asked for: %+v", due, turn)
					}
					run(step(t, a, agent.RepairsObserved{Running: a.Repairs.Grant != "", Blocked: a.Repairs.Names}, now))
					if a.Due().Reached(now) {
						t.Fatalf("due at %d, and a look does not help: %+v", due, a.Repairs)
					}
				}
			},
		})
	})
}
