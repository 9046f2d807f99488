package daemon

import (
	"context"
	"slices"
	"testing"

	core "github.com/steadyfleet/steady/internal/core/agent"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/deploy"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/testkit"
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

var web, db = core.RepairRef("exec/web"), core.RepairRef("exec/db")

var settled = core.State{Machine: host.State{Phase: host.Converged}}

// in is a settled host whose window for repairs is as given.
func in(r core.Repairs) core.State {
	s := settled
	s.Repairs = r
	return s
}

// TestGateAsksForAWindow asks the gate in every state of a host.
func TestGateAsksForAWindow(t *testing.T) {
	open := core.Repairs{Grant: "g", Until: 100}
	for name, c := range map[string]struct {
		s       core.State
		rep     reconcile.Repair
		at      clock.Instant
		through bool
	}{
		"no window":            {settled, reconcile.Repair{Ref: web, Action: action(true)}, 1, false},
		"nothing stops":        {settled, reconcile.Repair{Ref: web, Action: action(false)}, 1, true},
		"of the managed layer": {settled, reconcile.Repair{Ref: web, Parent: deploy.ManagedLayer, Action: action(true)}, 1, true},
		"in flight":            {core.State{}, reconcile.Repair{Ref: web, Action: action(true)}, 1, true},
		"open":                 {in(open), reconcile.Repair{Ref: web, Action: action(true)}, 1, true},
		"over":                 {in(open), reconcile.Repair{Ref: web, Action: action(true)}, 100, false},
		"closing":              {in(core.Repairs{Grant: "g", Until: 100, Closing: true}), reconcile.Repair{Ref: web, Action: action(true)}, 1, false},
	} {
		g := newRepairGate(func() *core.State { return &c.s }, func() clock.Instant { return c.at })
		if hold := g.Admit(t.Context(), c.rep); (hold == nil) != c.through {
			t.Errorf("%s: %+v", name, hold)
		}
	}
}

// TestLookShutsTheGate lets nothing begin between a look and its end, and forgets
// what never began.
func TestLookShutsTheGate(t *testing.T) {
	s := in(core.Repairs{Grant: "g", Until: clock.Instant(clock.Hour), Names: []string{"exec/db"}})
	now := clock.Instant(1)
	g := newRepairGate(func() *core.State { return &s }, func() clock.Instant { return now })
	ask := func() bool {
		return g.Admit(t.Context(), reconcile.Repair{Ref: web, Action: action(true)}) == nil
	}
	look := func(rows ...engine.Row) (core.RepairsObserved, bool) {
		d, again, err := g.Observe(t.Context(), listed(rows).List, &s.Repairs, now)
		testkit.Must(t, err)
		return d, again
	}
	if !ask() {
		t.Fatal("held in a window")
	}
	held := engine.Row{Ref: db, Phase: engine.Drifted, Reason: engine.NewReason(core.CodeNeedsGrant, "gone")}
	if d, again := look(held); !again || !d.Running || !slices.Equal(d.Blocked, []string{"exec/db"}) || d.Reason == "" {
		t.Errorf("what was let through is not under way: %+v", d)
	}
	if ask() {
		t.Error("something began during a look")
	}
	g.Reopen()
	if !g.Seen([]engine.Transition{{Ref: web, From: engine.Converged, To: engine.Acting}}) {
		t.Error("a transition in a window is no news")
	}
	if d, again := look(engine.Row{Ref: web, Phase: engine.Acting}); again || !d.Running {
		t.Errorf("an act is not under way: %+v", d)
	}
	g.Reopen()
	if d, _ := look(engine.Row{Ref: web, Phase: engine.Failed}); d.Running || !slices.Equal(d.Failed, []string{"exec/web"}) {
		t.Errorf("a failure is not told: %+v", d)
	}
	g.Reopen()
	if !ask() {
		t.Fatal("held in a window")
	}
	now = now.Add(core.RepairBeginWithin)
	if _, again := look(); again {
		t.Error("what never began is waited for")
	}
	g.Clear()
	if d, _ := look(engine.Row{Ref: web, Phase: engine.Failed}); len(d.Failed) != 0 {
		t.Errorf("a window before is told: %+v", d)
	}
}
