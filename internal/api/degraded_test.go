package api_test

import (
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/health"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/internal/testkit"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// TestEverySurfaceSaysThatAHostIsDegraded has a container of a converged host fall
// over and come back.
func TestEverySurfaceSaysThatAHostIsDegraded(t *testing.T) {
	w := newWorld(t)
	a := settled(w, plan{hosts: 1, content: "one", host: delegating})
	report := func(phase engine.Phase, state spec.State, message string) {
		a.append(event.ResourceReported{Resource: "workspace/api", Phase: phase, State: string(state), Message: message, Layer: event.LayerBundle})
		testkit.Must(t, a.send())
	}
	surfaces := func() (operator.Status, operator.Host, string) {
		s := testkit.Value(w.op.Status(w.ctx()))(t)
		all := testkit.Value(w.op.Hosts(w.ctx()))(t)
		why := testkit.Value(w.op.Why(w.ctx(), "h-0000"))(t)
		return s, all[0], why.Message
	}
	report(engine.Converged, spec.RunningState, "")
	s, h, why := surfaces()
	if h.Health != health.Healthy || h.Degraded != nil || s.Health.Status != health.Healthy || s.Health.Hosts[health.Healthy] != 1 || strings.Contains(why, "degraded") {
		t.Errorf("a healthy host: %+v, %+v, %s", s.Health, h, why)
	}
	report(engine.Failed, spec.ErrorState, "3 attempts; last: exited with code 1")
	w.until("host.degraded", func() bool {
		s, h, why = surfaces()
		return h.Degraded != nil
	})
	const summary = "workspace/api is Error (3 attempts; last: exited with code 1)"
	if h.Health != health.Degraded || h.Degraded.Summary() != summary || s.Health.Hosts[health.Degraded] != 1 || s.Health.Errors["workspace"] != 1 ||
		len(s.Health.Degraded) != 1 || s.Channels[0].Health[health.Degraded] != 1 || !strings.HasPrefix(why, "is degraded for 0s: "+summary) {
		t.Errorf("a degraded host: %+v, %+v, %s", s.Health, h, why)
	}
	report(engine.Converged, spec.RunningState, "")
	w.until("host.recovered", func() bool {
		_, h, why = surfaces()
		return h.Degraded == nil
	})
	if h.Health != health.Healthy || strings.Contains(why, "degraded") {
		t.Errorf("a host that recovered: %+v, %s", h, why)
	}
	page := testkit.Value(w.op.Events(w.ctx(), operator.EventQuery{About: operator.AboutHost("h-0000"), Limit: 1000}))(t)
	var told []string
	for _, e := range page.Events {
		if e.Type == (event.HostDegraded{}).EventType() || e.Type == (event.HostRecovered{}).EventType() {
			told = append(told, e.Type)
		}
	}
	if strings.Join(told, " ") != "host.degraded host.recovered" {
		t.Errorf("events %v", told)
	}
}
