package sim

import (
	core "github.com/steadyfleet/steady/internal/core/agent"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// evidenceProbe reads what a scanner on the host says.
var evidenceProbe = fleet.Probe{Name: "scanner", Mode: fleet.Enforce, Interval: 10 * clock.Second, Timeout: clock.Second,
	Evidence: &fleet.EvidenceProbe{Path: "/var/lib/scanner.json"}}

// unmetControl is one that passes no more on some hosts.
const unmetControl = "audit-log"

// looksAgain reports whether a control fails that is to pass again.
func (a *agent) looksAgain() bool {
	for _, control := range a.core.Machine.Outstanding() {
		if control != unmetControl+" of probe "+evidenceProbe.Name {
			return true
		}
	}
	return false
}

// evidence looks at what the scanner says, also long after the host converged:
// a control may fail, and pass again, at any time.
func (a *agent) evidence(p fleet.Probe, round int64) {
	d := p.Interval
	switch a.core.Machine.Phase {
	case host.Soaking:
	case host.Converged:
		d *= 4
	default:
		return
	}
	often := 0.04
	if a.unproven { // for long enough that rollouts are held by it
		often = 0.9
	}
	fails := a.w.faulty(Breakage, often)
	in := host.ProbeObserved{Name: p.Name, Pass: !fails}
	if fails {
		in.Results = append(in.Results, host.SubResult{Control: "disk-encrypted", Status: "fail"})
	}
	if a.unmet && a.core.Machine.Phase == host.Converged { // in its soak a host fails of it
		in.Results = append(in.Results, host.SubResult{Control: unmetControl, Status: "fail"})
	}
	if len(in.Results) > 0 {
		in.Pass, in.Reason = false, "a control fails"
	}
	a.unproven = fails
	if fails || a.w.now < a.w.faultsEnd || a.core.Machine.Phase == host.Soaking {
		a.probe(p, round, d)
	}
	a.step(core.ProbeObserved{Round: round, ProbeObserved: in})
}

// unmet reports whether a control of a rollout's hosts fails for good that, by the
// log, nobody accepted.
func (w *World) unmet(r *rollout.Rollout) bool {
	accepted := map[string]bool{}
	for _, ev := range w.log.events {
		if forced, ok := ev.(event.WaveForced); ok && forced.Manifest == r.Manifest {
			for _, f := range forced.Failing {
				for _, control := range f.Controls {
					accepted[f.Host+" fails "+control] = true
				}
			}
		}
	}
	for i := range r.Plan.Leaves {
		a := w.hosts[r.Plan.Leaves[i].Host]
		for _, control := range a.core.Machine.Outstanding() {
			if m := &a.core.Machine; m.Manifest == r.Manifest && !m.Reverting && !accepted[a.name+" fails "+control] {
				return true
			}
		}
	}
	return false
}
