package api_test

import (
	"testing"

	reducer "github.com/steadyfleet/steady/internal/core/agent"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/testkit"
)

// TestS1RepairsAreGrantedInsideTheBudget has every host of a budget of one need a
// repair at once: the server grants one after the other, and says why the others
// wait.
func TestS1RepairsAreGrantedInsideTheBudget(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.release("r1", plan{hosts: 3, content: "one", more: "disruptionBudgets:\n  - {selector: {all: true}, maxInFlight: 1}\n"})
	agents := w.agents(3)
	stop := runAgents(t, agents...)
	w.until("r1 to converge", func() bool { return w.standing("stable@r1") == "done" })
	stop()
	for _, a := range agents {
		a.clock += 60_000
		a.run(a.step(reducer.RepairsObserved{Blocked: []string{"exec/app"}, Reason: "the check fails"}))
		testkit.Must(t, a.send())
	}
	granted, waiting := 0, 0
	w.until("one grant and two waits", func() bool {
		granted, waiting = 0, 0
		for _, a := range agents {
			answer := testkit.Value(w.op.Why(w.ctx(), a.name))(t)
			switch r := answer.Repair; {
			case r == nil:
			case r.Grant != "":
				granted++
			case r.Block != nil && r.Block.Code == gate.Budget:
				waiting++
			}
		}
		return granted+waiting == 3
	})
	if granted != 1 {
		t.Fatalf("%d grants in a budget of one", granted)
	}
	stop = runAgents(t, agents...)
	w.until("all to be repaired", func() bool {
		for _, a := range agents {
			if answer, err := w.op.Why(w.ctx(), a.name); err != nil || answer.Repair != nil {
				return false
			}
		}
		return true
	})
	stop()
	for _, a := range agents {
		if a.a.Repairs.Last == "" || a.a.Repairs.Need != nil || a.a.Machine.Phase != host.Converged {
			t.Errorf("%s: %+v", a.name, a.a.Repairs)
		}
	}
}
