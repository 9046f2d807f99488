package plan_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/steadyfleet/steady/internal/core/agent"
	"github.com/steadyfleet/steady/internal/core/audit"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/plan"
	"github.com/steadyfleet/steady/internal/core/rollout"
	"github.com/steadyfleet/steady/internal/testkit"
)

func verdict(m *rollout.Manifest, mode fleet.ProbeMode) event.ComplianceEvaluated {
	return event.ComplianceEvaluated{Channel: m.Header.Channel, Rollout: m.Header.Rollout(), Manifest: m.Digest, Controls: 3,
		Failures: []fleet.ControlFailure{{Control: "cis-docker-5.5", Title: "no privileged containers", Mode: mode, Hosts: []string{"h0"}, Detail: "container web"}}}
}

// TestS42FailingRequiredControlBlocksTheRollout checks that the rollout opens, is
// Failed at once, grants nobody, cannot be resumed, and gives way to a release
// that passes.
func TestS42FailingRequiredControlBlocksTheRollout(t *testing.T) {
	w := onOne(t, "h0 h1")
	m := w.manifest(spec{ref: "r2", waves: "h0 | h1", target: bundles[1]})
	w.release(fleet.Queue, m)
	w.record("", verdict(m, fleet.Enforce))
	w.live(6)
	r := w.phase("c@r2", rollout.Failed)
	if !strings.Contains(r.Reason, "cis-docker-5.5") || !strings.Contains(r.Reason, "blocked") {
		t.Fatalf("the reason is %q", r.Reason)
	}
	w.expect("h0=converged/one h1=converged/one")
	b := w.why("h0", gate.Compliance)
	if b == nil || b.Detail != "controls" || !strings.Contains(b.Message, "container web") {
		t.Fatalf("why says %+v", b)
	}
	var refused *plan.VerbError
	if _, err := plan.Operate(w.s, plan.Resume, "c@r2", "because", "ada", w.now); !errors.As(err, &refused) {
		t.Fatalf("resume: %v", err)
	}
	next := w.manifest(spec{ref: "r3", waves: "h0 | h1", target: bundles[2]})
	w.release(fleet.Queue, next)
	w.record("", verdict(next, fleet.Observe))
	w.live(8)
	w.phase("c@r3", rollout.Terminal)
	w.expect("h0=converged/three h1=converged/three")
}

// evidenced is a plan whose hosts have enforced evidence beside their probe.
func (w *world) evidenced(ref, waves string, mode fleet.ProbeMode) *rollout.Manifest {
	m := w.manifest(spec{ref: ref, waves: waves, target: bundles[1], soak: 30 * clock.Second})
	delete(w.docs, m.Digest)
	m.Header.Probes = append(m.Header.Probes, fleet.Probe{Name: "zscan", Mode: mode, Evidence: &fleet.EvidenceProbe{Path: "/var/lib/scan.json"}})
	for i := range m.Leaves {
		m.Leaves[i].Probes = []int{0, 1}
	}
	return w.docs.add(m)
}

func (m *machine) scan(failing ...string) {
	in := host.ProbeObserved{Name: "zscan", Pass: len(failing) == 0}
	for _, c := range failing {
		in.Results = append(in.Results, host.SubResult{Control: c, Status: "fail", Framework: "anssi"})
	}
	if err := m.step(agent.ProbeObserved{Round: m.round, ProbeObserved: in}); err != nil {
		m.w.t.Fatalf("scan: %v", err)
	}
	m.deliver()
}

// TestS42FailingEvidenceHoldsPromotion lets the evidence of a host fail after it
// converged: the wave waits with the control's id, and goes on when it passes.
func TestS42FailingEvidenceHoldsPromotion(t *testing.T) {
	for _, mode := range []fleet.ProbeMode{fleet.Enforce, fleet.Observe} {
		t.Run(string(mode), func(t *testing.T) {
			w := onOne(t, "h0 h1 h2")
			w.release(fleet.Queue, w.evidenced("r2", "h0 h1 | h2", mode))
			for range 40 { // until h0 alone has converged
				w.tick()
				w.hosts["h0"].work()
				w.hosts["h1"].poll()
				if w.now = w.now.Add(5 * clock.Second); w.hosts["h0"].agent.Machine.Phase == host.Converged {
					break
				}
			}
			w.hosts["h0"].deliver()
			w.expect("h0=converged/two")
			w.hosts["h0"].scan("BP28-R1", "BP28-R7")
			for range 12 {
				w.tick()
				w.hosts["h1"].work()
				w.hosts["h2"].work()
				w.now = w.now.Add(10 * clock.Second)
			}
			if mode == fleet.Observe {
				w.expect("h2=converged/two")
				return
			}
			r := w.phase("c@r2", rollout.Active)
			if r.Cursor != 0 {
				t.Fatalf("wave %d is open\n%s", r.Cursor, w.tail())
			}
			b := plan.FirstBlock(w.s, r, w.now)
			if b == nil || b.Code != gate.Compliance || !strings.Contains(b.Message, "BP28-R1 of probe zscan, BP28-R7 of probe zscan") || !strings.Contains(b.Message, "h0") {
				t.Fatalf("the rollout is held by %+v", b)
			}
			if b := w.why("h2", gate.Compliance); b == nil {
				t.Fatal("why does not name the evidence")
			}
			w.hosts["h0"].scan()
			w.live(12)
			w.phase("c@r2", rollout.Terminal)
		})
	}
}

// TestAuditSeesFailingEvidence forges a promotion over evidence that fails and a
// grant over a required control.
func TestAuditSeesFailingEvidence(t *testing.T) {
	w := onOne(t, "h0 h1")
	m := w.evidenced("r2", "h0 | h1", fleet.Enforce)
	w.release(fleet.Queue, m)
	for w.hosts["h0"].agent.Machine.Phase != host.Converged || w.hosts["h0"].agent.Machine.Manifest != m.Digest {
		w.tick()
		w.hosts["h0"].work()
		w.now = w.now.Add(5 * clock.Second)
	}
	w.hosts["h0"].deliver()
	w.hosts["h0"].scan("BP28-R1")
	forged := testkit.Value(event.NewEntry(w.now, event.Subject{}, event.WavePromoted{Rollout: "c@r2", Manifest: m.Digest, Evidence: 1, Reason: "forged"}))(t)
	if v := found(w, append(slices.Clone(w.log), forged)); !slices.Equal(named(v), []string{"S42"}) {
		t.Errorf("evidence: found %v", v)
	}
	w.hosts["h0"].scan()
	w.live(12)
	e := testkit.Value(event.NewEntry(w.now, event.Subject{}, verdict(m, fleet.Enforce)))(t)
	if v := found(w, slices.Insert(slices.Clone(w.log), at(t, w.log, event.RolloutOpened{}, 2)+1, e)); !slices.ContainsFunc(named(v), func(s string) bool { return s == "S42" }) {
		t.Errorf("control: found %v", v)
	}
}

func named(vs []audit.Violation) []string {
	var out []string
	for _, v := range vs {
		out = append(out, v.Invariant)
	}
	return out
}
