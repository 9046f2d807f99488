package control

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/steadyfleet/steady/internal/core/drift"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/internal/core/server"
	"github.com/steadyfleet/steady/internal/testkit"
)

// TestRetriedPushesAreCounted: an operation counts if the one before of the same leg failed.
func TestRetriedPushesAreCounted(t *testing.T) {
	c := &Control{state: server.NewState(nil), metrics: &metrics{retries: prometheus.NewCounter(prometheus.CounterOpts{Name: "retries"})}}
	c.state.Nodes.Objects = map[string]*drift.Object{
		drift.Key("flow", "fresh"):  {Definition: on("flow"), Legs: map[string]*drift.Leg{"flow": {}}},
		drift.Key("flow", "failed"): {Definition: on("flow"), Legs: map[string]*drift.Leg{"flow": {Attempts: 2}}},
		drift.Key("tunnel", "half"): {Definition: on("ingress", "egress"), Legs: map[string]*drift.Leg{"ingress": {Attempts: 1}, "egress": {}}},
	}
	for _, of := range []event.SyncOf{event.Sync("gw", "flow", "fresh", ""), event.Sync("gw", "flow", "failed", ""),
		event.Sync("gw", "tunnel", "half", "ingress"), event.Sync("gw", "tunnel", "half", "egress"), event.Sync("gw", "flow", "gone", "")} {
		c.countRetries([]event.Entry{testkit.Value(event.NewEntry(1, event.Subject{}, event.PushStarted{SyncOf: of, Op: 1}))(t)})
	}
	var m dto.Metric
	testkit.Must(t, c.metrics.retries.Write(&m))
	if n := m.GetCounter().GetValue(); n != 2 {
		t.Errorf("%v were counted, expected 2", n)
	}
}

// on is a definition with legs of some roles on node gw.
func on(roles ...string) (d nodeconfig.Definition) {
	for _, role := range roles {
		d.Legs = append(d.Legs, nodeconfig.Leg{Role: role, Node: "gw"})
	}
	return d
}
