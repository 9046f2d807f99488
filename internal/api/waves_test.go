package api_test

import (
	"testing"

	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/internal/trust"
	"github.com/steadyfleet/steady/internal/wire"
)

// S21: the policy limits failures wave by wave. A host goes back on the proof of
// more than that many in one wave, and never on failures that each wave allows.
func TestS21ProofIsOfOneWave(t *testing.T) {
	w := newWorld(t)
	w.release("r1", plan{hosts: 5, content: "one", policy: "    healthGate: {maxFailures: 1}\n",
		waves: "    waves:\n      - {name: first, selector: {hosts: [h-0000, h-0001]}}\n      - {name: rest, selector: {all: true}}\n"})
	agents := w.agents(5)
	for _, a := range agents { // all are there: none is skipped
		a.do("POST", wire.RouteHeartbeat, wire.Heartbeat{Incarnation: 1}, nil)
	}
	follower := agents[2].follower()
	for i, a := range agents {
		a.fail = i == 0 || i >= 3 // one of the first wave, two of the second
		d := a.offered()
		if d.Purpose != host.Update {
			t.Fatalf("host %d is offered %+v", i, d)
		}
		if i == 2 {
			testkit.Value(follower.Plan(w.ctx(), d.Rollout, d.Manifest))(t)
		}
		a.follow(d)
	}
	back := agents[2].offered()
	if back.Purpose != host.Rollback || len(back.Failures) != 2 {
		t.Fatalf("the order to go back is %+v", back)
	}
	for _, p := range back.Failures {
		var leaf fleet.Leaf
		testkit.Must(t, trust.Decode(p.Leaf.Leaf, trust.MaxLeaf, &leaf))
		if leaf.Wave != 1 {
			t.Errorf("it is proven by %s of wave %d", leaf.Host, leaf.Wave)
		}
	}
	var m wire.HostManifest
	agents[2].do("GET", wire.RouteRollouts+back.Rollout, nil, &m)
	e := testkit.Value(trust.ParseEnvelope(m.Envelope))(t)
	for _, c := range []struct {
		proofs, self, failed int
	}{{2, -1, 2}, {1, -1, 1}, {1, 0, 1}, {1, 1, 2}, {0, 1, 1}} {
		if err := follower.Failed(e.Payload, back.Failures[:c.proofs], c.self); (err == nil) != (c.failed > 1) {
			t.Errorf("%d proofs of wave 1 and itself in %d: %d failures of 1 allowed, %v", c.proofs, c.self, c.failed, err)
		}
	}
}
