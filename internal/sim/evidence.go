package sim

import (
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
)

// evidenceProbe reads what a scanner on the host says.
var evidenceProbe = fleet.Probe{Name: "scanner", Mode: fleet.Enforce, Interval: 10 * clock.Second, Timeout: clock.Second,
	Evidence: &fleet.EvidenceProbe{Path: "/var/lib/scanner.json"}}

// evidence looks at what the scanner says, also long after the host converged:
// a control may fail, and pass again, at any time.
func (a *agent) evidence(p fleet.Probe, round int) {
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
		in.Reason, in.Results = "a control fails", []host.SubResult{{Control: "disk-encrypted", Status: "fail"}}
	}
	a.unproven = fails
	if fails || a.w.now < a.w.calm || a.core.Machine.Phase == host.Soaking {
		a.probe(p, round, d)
	}
	a.input(in)
}
