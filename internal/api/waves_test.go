package api_test

import (
	"testing"

	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
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
		if d.Purpose != host.Forward {
			t.Fatalf("host %d is offered %+v", i, d)
		}
		if i == 2 {
			if _, err := follower.Plan(w.ctx(), d.Rollout, d.Manifest); err != nil {
				t.Fatal(err)
			}
		}
		a.follow(d)
	}
	back := agents[2].offered()
	if back.Purpose != host.Back || len(back.Failures) != 2 {
		t.Fatalf("the order to go back is %+v", back)
	}
	for _, p := range back.Failures {
		var leaf fleet.Leaf
		must(t, trust.Decode(p.Leaf.Leaf, trust.MaxLeaf, &leaf))
		if leaf.Wave != 1 {
			t.Errorf("it is proven by %s of wave %d", leaf.Host, leaf.Wave)
		}
	}
	var m wire.HostManifest
	agents[2].do("GET", wire.RouteRollouts+back.Rollout, nil, &m)
	e, err := trust.ParseEnvelope(m.Envelope)
	must(t, err)
	for _, c := range []struct {
		proofs, self, failed int
	}{{2, -1, 2}, {1, -1, 1}, {1, 0, 1}, {1, 1, 2}, {0, 1, 1}} {
		failed, allowed, err := follower.Failures(e.Payload, back.Failures[:c.proofs], c.self)
		if err != nil || failed != c.failed || allowed != 1 {
			t.Errorf("%d proofs of wave 1 and itself in %d: %d failures of %d allowed, %v", c.proofs, c.self, failed, allowed, err)
		}
	}
}
