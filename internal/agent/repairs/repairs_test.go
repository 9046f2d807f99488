package repairs

import (
	"context"
	"slices"
	"testing"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/docker/layer"
	"github.com/steadyfleet/steady/reconcile"
	"github.com/steadyfleet/steady/reconcile/engine"
)

type action bool // whether it disrupts

func (action) ActionName() string { return "act" }
func (a action) Disrupts() bool   { return bool(a) }

type listed []engine.Row

func (l listed) List(_ context.Context, f reconcile.Filter) ([]engine.Row, error) {
	if f.Phases == nil {
		return l, nil
	}
	return slices.DeleteFunc(slices.Clone(l), func(r engine.Row) bool { return !slices.Contains(f.Phases, r.Phase) }), nil
}

var web, db = Ref("exec/web"), Ref("exec/db")

// TestGateAsksForAWindow asks the gate in every standing of a host.
func TestGateAsksForAWindow(t *testing.T) {
	open := host.Repairs{Grant: "g", Until: 100}
	for name, c := range map[string]struct {
		s       Standing
		rep     reconcile.Repair
		at      clock.Instant
		through bool
	}{
		"no window":            {Standing{Settled: true}, reconcile.Repair{Ref: web, Action: action(true)}, 1, false},
		"nothing stops":        {Standing{Settled: true}, reconcile.Repair{Ref: web, Action: action(false)}, 1, true},
		"of the managed layer": {Standing{Settled: true}, reconcile.Repair{Ref: web, Parent: layer.Current, Action: action(true)}, 1, true},
		"in flight":            {Standing{}, reconcile.Repair{Ref: web, Action: action(true)}, 1, true},
		"open":                 {Standing{Settled: true, Repairs: open}, reconcile.Repair{Ref: web, Action: action(true)}, 1, true},
		"over":                 {Standing{Settled: true, Repairs: open}, reconcile.Repair{Ref: web, Action: action(true)}, 100, false},
		"closing":              {Standing{Settled: true, Repairs: host.Repairs{Grant: "g", Until: 100, Closing: true}}, reconcile.Repair{Ref: web, Action: action(true)}, 1, false},
	} {
		g := New(func() Standing { return c.s }, func() clock.Instant { return c.at })
		if hold := g.Ask(t.Context(), c.rep); (hold.Reason.Code == "") != c.through {
			t.Errorf("%s: %+v", name, hold)
		}
	}
}

// TestLookShutsTheGate lets nothing begin between a look and its end, and forgets
// what never began.
func TestLookShutsTheGate(t *testing.T) {
	s := Standing{Settled: true, Repairs: host.Repairs{Grant: "g", Until: clock.Instant(clock.Hour), Names: []string{"exec/db"}}}
	now := clock.Instant(1)
	g := New(func() Standing { return s }, func() clock.Instant { return now })
	ask := func() bool {
		return g.Ask(t.Context(), reconcile.Repair{Ref: web, Action: action(true)}).Reason.Code == ""
	}
	look := func(rows ...engine.Row) (host.Drift, bool) {
		d, again, err := g.Look(t.Context(), listed(rows), &s.Repairs, now)
		if err != nil {
			t.Fatal(err)
		}
		return d, again
	}
	if !ask() {
		t.Fatal("held in a window")
	}
	held := engine.Row{Ref: db, Phase: engine.Drifted, Reason: engine.Because(CodeNeedsGrant, "gone")}
	if d, again := look(held); !again || !d.Running || !slices.Equal(d.Held, []string{"exec/db"}) || d.Reason == "" {
		t.Errorf("what was let through is not under way: %+v", d)
	}
	if ask() {
		t.Error("something began during a look")
	}
	g.Reopen(false)
	if !g.Seen([]engine.Transition{{Ref: web, From: engine.Converged, To: engine.Acting}}) {
		t.Error("a transition in a window is no news")
	}
	if d, again := look(engine.Row{Ref: web, Phase: engine.Acting}); again || !d.Running {
		t.Errorf("an act is not under way: %+v", d)
	}
	g.Reopen(false)
	if d, _ := look(engine.Row{Ref: web, Phase: engine.Failed}); d.Running || !slices.Equal(d.Failed, []string{"exec/web"}) {
		t.Errorf("a failure is not told: %+v", d)
	}
	g.Reopen(false)
	if !ask() {
		t.Fatal("held in a window")
	}
	now = now.Add(BeginWithin)
	if _, again := look(); again {
		t.Error("what never began is waited for")
	}
	g.Reopen(true)
	if d, _ := look(engine.Row{Ref: web, Phase: engine.Failed}); len(d.Failed) != 0 {
		t.Errorf("a window before is told: %+v", d)
	}
}
