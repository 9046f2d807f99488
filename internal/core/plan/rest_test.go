package plan_test

import (
	"pgregory.net/rapid"

	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// atRest checks a world in which nothing happens any more.
func atRest(t *rapid.T, w *world) {
	for _, name := range w.names() {
		m, h := w.hosts[name], w.s.Hosts[name]
		if a, err := plan.Why(w.s, name, w.now); err == nil && h.Machine.Staged() && a.Reboot.Block != nil && h.Grant == nil {
			continue // its rollout is over: the next release takes it on
		}
		if h.Grant != nil || h.Acting() || h.SilentFailure {
			t.Fatalf("L3: host %s is at rest with grant %+v in phase %s\n%s", name, h.Grant, h.Machine.Phase, w.tail())
		}
		if a, err := plan.Why(w.s, name, w.now); err != nil || len(m.drift) > 0 && (a.Repair == nil || a.Repair.Block == nil) {
			t.Fatalf("L3: the drift %v of host %s was not repaired, and nothing holds it: %+v, %v\n%s", m.drift, name, a, err, w.tail())
		}
		if m.agent.Machine.Phase != h.Machine.Phase {
			t.Fatalf("S24: host %s and its mirror differ at rest", name)
		}
	}
	for _, d := range w.s.Order {
		r := w.s.Rollouts[d]
		if r.Phase.Ended() {
			continue
		}
		if r.Blocked == "" {
			t.Fatalf("L3: rollout %s is %s at rest and says nothing\n%s", r.Name, r.Phase, w.tail())
		}
		if r.Phase != rollout.Active && r.Phase != rollout.Converging {
			t.Fatalf("L3: rollout %s rests in %s", r.Name, r.Phase)
		}
	}
}
