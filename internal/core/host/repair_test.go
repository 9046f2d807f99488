package host_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/host"
)

// resting is a host that converged on fresh.
func resting() *host.Agent {
	p := planTo(fresh)
	return &host.Agent{Plan: p, Machine: host.State{Phase: host.Converged, Manifest: p.Manifest, Rollout: p.Rollout, Current: fresh, Target: fresh}}
}

func held(names ...string) host.Drift { return host.Drift{Held: names, Reason: "the check fails"} }

// opened is a host with an open window, from instant 1000 on.
func opened(t *testing.T) *host.Agent {
	a := resting()
	only[host.NeedRepair](t, a.Drifted(held("exec/app"), 900))
	only[host.Claim](t, a.Granted(repair("g", fresh), 950))
	if o := only[host.OpenRepair](t, a.RepairAnswered("g", true, 1000)); o.Grant != "g" || o.Until != clock.Instant(1000).Add(clock.Minute) {
		t.Fatalf("opened %+v", o)
	}
	return a
}

func TestRepairIsReportedOnceAndExtendedSeldom(t *testing.T) {
	a := resting()
	n := only[host.NeedRepair](t, a.Drifted(held("exec/app"), 1000))
	if n.Manifest != a.Machine.Manifest || n.Bundle != fresh || n.Reason == "" || !slices.Equal(n.Resources, []string{"exec/app"}) {
		t.Fatalf("reported %+v", n)
	}
	if again := a.Drifted(held("exec/app"), 2000); again != nil || a.Due() != 0 {
		t.Fatalf("the same was reported again: %+v", again)
	}
	if soon := a.Drifted(held("exec/app", "exec/b"), 2000); soon != nil {
		t.Fatalf("reported too soon: %+v", soon)
	}
	next := clock.Instant(1000).Add(host.RepairEvery)
	if a.Due() != next {
		t.Fatalf("due at %d, not at %d", a.Due(), next)
	}
	if n := only[host.NeedRepair](t, a.Drifted(held("exec/app", "exec/b"), next)); len(n.Resources) != 2 || a.Due() != 0 {
		t.Fatalf("reported %+v, due %d", n, a.Due())
	}
	if end := only[host.EndRepair](t, a.Drifted(host.Drift{}, next+1)); !end.OK || end.Grant != "" {
		t.Fatalf("ended %+v", end)
	}
	if a.Drifted(host.Drift{}, next+2) != nil {
		t.Fatal("ended twice")
	}
}

func TestRepairReportsAreBounded(t *testing.T) {
	var names []string
	for i := range 40 {
		names = append(names, fmt.Sprintf("exec/%02d", i))
	}
	a := resting()
	if n := only[host.NeedRepair](t, a.Drifted(held(names...), 1)); len(n.Resources) != host.MaxRepairNames || n.More != 40-host.MaxRepairNames {
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
		drift host.Drift
		at    clock.Instant
		over  bool
		ok    bool
	}{
		"nothing left":                {host.Drift{}, 1001, true, true},
		"held, not asked again yet":   {held("exec/app"), 1001, false, false},
		"waits to be seen as working": {host.Drift{Pending: true}, 1001, false, false},
		"runs":                        {host.Drift{Pending: true, Running: true}, 1001, false, false},
		"runs, and time is over":      {host.Drift{Pending: true, Running: true}, until, false, false},
		"pending, and time is over":   {host.Drift{Pending: true}, until, true, false},
		"given up":                    {host.Drift{Failed: []string{"exec/app"}}, 1001, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			a := opened(t)
			effects := a.Drifted(c.drift, c.at)
			if !c.over {
				if len(effects) > 0 || a.Repairs.Grant != "g" || a.Repairs.Open(c.at) != (c.at < until) {
					t.Fatalf("went on with %+v: %+v", effects, a.Repairs)
				}
				return
			}
			if end := only[host.EndRepair](t, effects); end.Grant != "g" || end.OK != c.ok || end.Detail == "" || a.Repairs.Open(c.at) {
				t.Fatalf("ended with %+v", end)
			}
			if again := a.Granted(repair("g", fresh), c.at); again != nil {
				t.Fatalf("S24: a window is opened twice: %+v", again)
			}
		})
	}
}

// TestRepairLeftOverAsksAgain checks that what the window had no time for waits
// for the next one.
func TestRepairLeftOverAsksAgain(t *testing.T) {
	a := opened(t)
	effects := a.Drifted(held("exec/app"), clock.Instant(1000).Add(clock.Minute))
	if len(effects) != 2 || effects[0].(host.EndRepair).OK || effects[1].(host.NeedRepair).Resources[0] != "exec/app" {
		t.Fatalf("went on with %+v", effects)
	}
}

// TestS23OneThingAtATime declines whatever comes while a window is open.
func TestS23OneThingAtATime(t *testing.T) {
	a := opened(t)
	for _, o := range []host.Offer{forward("g2", newest), {Grant: "g3", Purpose: host.Back, Term: 3, Plan: planTo(fresh)}, repair("g4", fresh)} {
		if d := only[host.Decline](t, a.Granted(o, 1001)); d.Code != host.DeclineBusy {
			t.Fatalf("%s is declined as %s", o.Purpose, d.Code)
		}
	}
	if open := only[host.OpenRepair](t, a.Resume()); open.Grant != "g" {
		t.Fatalf("after a restart %+v", open)
	}
}

// TestRepairEndsWhenTheHostGoesOn checks that an activation takes over what
// waited, and says so.
func TestRepairEndsWhenTheHostGoesOn(t *testing.T) {
	a := resting()
	a.Drifted(held("exec/app"), 900)
	a.Granted(forward("g2", newest), 950)
	a.Prepared("g2", 960)
	effects, _, err := a.Step(a.ClaimAnswered("g2", true, "b"), 970)
	if err != nil || len(effects) != 2 {
		t.Fatalf("%+v, %v", effects, err)
	}
	if end := effects[1].(host.EndRepair); end.Grant != "" || end.OK || a.Repairs.Need != nil {
		t.Fatalf("ended with %+v", end)
	}
	if a.Drifted(held("exec/app"), 980) != nil {
		t.Fatal("a host in flight asks for a grant")
	}
}

func TestRepairRefusedWaitsOn(t *testing.T) {
	a := resting()
	a.Drifted(held("exec/app"), 900)
	a.Granted(repair("g", fresh), 950)
	if a.ClaimAnswered("g", true, "b") != nil || a.Offer == nil {
		t.Fatal("the answer was taken for that of an activation")
	}
	if a.RepairAnswered("g", false, 1000) != nil || a.Repairs.Grant != "" || a.Offer != nil || a.Repairs.Need == nil {
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
		run := func(effects []host.Effect) {
			for _, e := range effects {
				switch e := e.(type) {
				case host.OpenRepair:
					open = e.Grant
				case host.EndRepair:
					if e.Grant != open {
						t.Fatalf("ended %q while %q is open", e.Grant, open)
					}
					open = ""
				case host.NeedRepair:
					if told != 0 && now.Sub(told) < host.RepairEvery {
						t.Fatalf("reported after %s", now.Sub(told))
					}
					told = now
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"look": func(t *rapid.T) {
				d := host.Drift{Running: rapid.Bool().Draw(t, "running")}
				d.Pending = d.Running || rapid.Bool().Draw(t, "pending")
				d.Held = rapid.SampledFrom([][]string{nil, {"exec/a"}, {"exec/a", "exec/b"}}).Draw(t, "held")
				run(a.Drifted(d, now))
			},
			"advance": func(t *rapid.T) { now = now.Add(clock.Duration(rapid.IntRange(1, 40).Draw(t, "s")) * clock.Second) },
			"grant": func(*rapid.T) {
				grants++
				run(a.Granted(repair(fmt.Sprint("g", grants), fresh), now))
			},
			"answer": func(t *rapid.T) {
				if a.Offer != nil {
					run(a.RepairAnswered(a.Offer.Grant, rapid.Bool().Draw(t, "accepted"), now))
				}
			},
			"restart": func(*rapid.T) { run(a.Resume()) },
			"": func(t *rapid.T) {
				if a.Repairs.Grant != open {
					t.Fatalf("%q is open, the host says %q", open, a.Repairs.Grant)
				}
				if due := a.Repairs.Due(); due.Reached(now) {
					run(a.Drifted(host.Drift{Running: a.Repairs.Grant != "", Held: a.Repairs.Names}, now))
					if a.Repairs.Due().Reached(now) {
						t.Fatalf("due at %d, and a look does not help: %+v", due, a.Repairs)
					}
				}
			},
		})
	})
}
