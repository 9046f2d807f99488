package api_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/host"
	coreplan "github.com/steadyfleet/steady/internal/core/plan"
	corestatus "github.com/steadyfleet/steady/internal/core/status"
	"github.com/steadyfleet/steady/internal/testkit"
)

func (w *world) warns(text string) bool {
	in := testkit.Value(w.op.Attention(w.ctx()))(w.t)
	return slices.ContainsFunc(in.Items, func(i corestatus.InboxItem) bool { return strings.Contains(i.Reason, text) })
}

// S8: a planner that promotes a wave nobody has proven, as a fault of its own would have
// it, has its rollout paused by the running audit. Resumed, it goes on.
func TestS8RunningAuditPausesWhatBreaksAnInvariant(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.release("r1", plan{hosts: 2, content: "one", waves: twoWaves})
	agents := w.agents(2)
	w.until("the canary to be granted", func() bool { return agents[0].offered() != nil })
	testkit.Must(t, w.server.Control().Operate(w.ctx(), func(s *coreplan.State, now clock.Instant) ([]event.Entry, error) {
		r := s.Find("stable@r1")
		ev := event.WavePromoted{Rollout: r.Name, Manifest: r.Manifest, WaveName: "canary", Reason: "2 of 2 hosts converged"}
		e, err := event.NewEntry(now, event.Subject{}, ev)
		if err == nil {
			err = s.ApplyEvent(e, ev)
		}
		return []event.Entry{e}, err
	}))
	w.until("the audit to pause it", func() bool { return w.standing("stable@r1") == "paused" })
	page := testkit.Value(w.op.Events(w.ctx(), operator.EventQuery{Limit: 500}))(t)
	if !slices.ContainsFunc(page.Events, func(e operator.Event) bool {
		return e.Type == (event.RolloutPaused{}).EventType() && strings.Contains(string(e.Body), `"actor":"audit"`) && strings.Contains(string(e.Body), "S8")
	}) {
		t.Errorf("nothing says who paused it and why: %v", page.Events)
	}
	if !w.warns("an invariant does not hold: S8") {
		t.Error("the status does not say so")
	}
	if m := w.scrape(); !strings.Contains(m, `steady_audit_findings_total{invariant="S8",of="server"} 1`) {
		t.Error("the metrics do not count it")
	}
	testkit.Must(t, w.op.Operate(w.ctx(), coreplan.Resume, "stable@r1", "it was looked at"))
	stop := runAgents(t, agents...)
	w.until("r1 to converge", func() bool { return w.standing("stable@r1") == "done" })
	stop()
}

// A host that reports what cannot be is named, and stops nobody.
func TestLiarStopsNoRollout(t *testing.T) {
	w := newWorld(t)
	w.release("r1", plan{hosts: 2, content: "one"})
	agents := w.agents(2)
	liar := agents[1]
	booted := json.RawMessage(`{"bootId":"b","current":""}`)
	liar.append(event.HostStepped{Input: "booted", Data: booted, To: host.Pending})
	liar.append(event.HostStepped{Input: "booted", Data: booted, From: host.Soaking, To: host.Converged})
	testkit.Must(t, liar.send())
	w.until("the liar to be named", func() bool { return w.warns("host " + liar.name + " reports what contradicts itself: S19") })
	if s := w.standing("stable@r1"); s == "paused" {
		t.Errorf("r1 is %s", s)
	}
	stop := runAgents(t, agents[0])
	w.until("the other host to converge", func() bool { return testkit.Value(w.op.Host(w.ctx(), agents[0].name))(t).Phase == "converged" })
	stop()
}
