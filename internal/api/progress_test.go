package api_test

import (
	"testing"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// TestRolloutShowsWhatAHostInFlightLacks has a host soak while a container of it
// does not run yet.
func TestRolloutShowsWhatAHostInFlightLacks(t *testing.T) {
	w := newWorld(t)
	w.release("r1", plan{hosts: 1, content: "one", host: delegating, waves: "    waves: [{name: all, selector: {all: true}, soak: 1h}]\n"})
	a := enrolled(w, hostName(0))
	a.follow(a.offered())
	report := func(phase engine.Phase, state spec.State) {
		a.append(event.ResourceReported{Resource: "workspace/api", Phase: phase, State: string(state), Layer: event.LayerBundle})
		testkit.Must(t, a.send())
	}
	report(engine.Verifying, spec.Starting)
	var d operator.RolloutDetail
	member := func() operator.Member {
		var err error
		d, err = w.op.Rollout(w.ctx(), "stable@r1")
		testkit.Must(t, err)
		return d.Members[0]
	}
	var m operator.Member
	w.until("the container to be reported", func() bool { m = member(); return len(m.Unready) == 1 })
	if m.Unready[0].Resource != "workspace/api" || m.Progress == nil || m.Progress.Phase != host.Soaking || m.Progress.Soak != clock.Hour || d.Now == 0 {
		t.Errorf("a host that soaks: %+v, %+v at %s", m, m.Progress, d.Now)
	}
	report(engine.Converged, spec.RunningState)
	w.until("the container to run", func() bool { m = member(); return len(m.Unready) == 0 })
	if m.Progress == nil {
		t.Error("it soaks no more")
	}
}
