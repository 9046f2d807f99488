package api_test

import (
	"testing"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/testkit"
)

// A rollout that was followed by another shows its waves and hosts as they were when it ended, and
// reports it; the newest shows them as they are, in the words of the list of hosts.
func TestEndedRolloutShowsWhatWasThen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.release("r1", plan{hosts: 2, content: "one"})
	agents := w.agents(2)
	stop := runAgents(t, agents...)
	w.until("r1 to converge", func() bool { return w.standing("stable@r1") == "done" })
	stop()
	w.release("r2", plan{hosts: 2, content: "two", waves: twoWaves})
	agents[0].fail = true
	agents[0].follow(agents[0].offered())
	w.until("r2 to be reverted", func() bool { return w.standing("stable@r2") == "reverted" })
	agents[0].fail = false
	w.release("r3", plan{hosts: 2, content: "three", waves: twoWaves})
	stop = runAgents(t, agents...)
	w.until("r3 to converge", func() bool { return w.standing("stable@r3") == "done" })
	stop()
	for name, want := range map[string]struct {
		status, state []string
		waves         int
		then          bool
	}{
		"stable@r1": {status: []string{"converged", "converged"}, state: []string{"converged", "converged"}, waves: 1, then: true},
		"stable@r2": {status: []string{"reverted", "waiting"}, state: []string{"reverted", "converged"}, waves: 2, then: true},
		"stable@r3": {status: []string{"converged", "converged"}, state: []string{"converged", "converged"}, waves: 2},
	} {
		r := testkit.Value(w.op.Rollout(w.ctx(), name))(t)
		if len(r.Waves) != want.waves || len(r.Members) != 2 || (r.AsOf != nil) != want.then || want.then && (r.AsOf.Record == 0 || r.AsOf.At > r.EndedAt) {
			t.Errorf("%s has %d waves, %d hosts, as of %+v; it ended at %s", name, len(r.Waves), len(r.Members), r.AsOf, r.EndedAt)
			continue
		}
		var hosts []operator.Host
		if want.then {
			hosts = at[operator.Page[operator.Host]](w, "/host-list", r.AsOf.Record).Items
		} else {
			hosts = testkit.Value(w.op.Hosts(w.ctx()))(t)
		}
		states := map[string]int{}
		for i, m := range r.Members {
			if m.Status != want.status[i] || string(m.State) != want.state[i] || m.State != hosts[i].State {
				t.Errorf("%s: host %s was %s, %s; in the list %s; expected %s, %s", name, m.Host, m.Status, m.State, hosts[i].State, want.status[i], want.state[i])
			}
			states[string(m.State)]++
		}
		for _, wave := range r.Waves {
			for state, n := range wave.States {
				states[state] -= n
			}
		}
		for state, n := range states {
			if n != 0 {
				t.Errorf("%s: the waves count %d hosts less that are %s than the list", name, n, state)
			}
		}
	}
}
