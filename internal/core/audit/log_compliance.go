package audit

import (
	"slices"

	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
)

// verdict keeps which manifests fail a required control.
func (l *Log) verdict(ev event.ComplianceEvaluated) {
	l.barred[ev.Manifest] = false
	for _, f := range ev.Failures {
		l.must(f.Control != "" && len(f.Hosts) > 0, "S28", "a control of %s fails and does not say where", ev.Rollout)
		if f.Mode == fleet.Enforce {
			l.barred[ev.Manifest] = true
		}
	}
}

// excuse is one control that an operator accepted not to pass on a host.
type excuse struct{ host, control string }

// looked is what a probe's result says; one that fails and names no control fails
// as a whole.
func looked(in host.ProbeObserved) look {
	l := look{passing: in.Pass}
	for _, r := range in.Results[:min(len(in.Results), host.MaxResults)] {
		if !in.Pass && r.Status != host.ControlPass {
			l.failing = append(l.failing, r.Control+" of probe "+in.Name)
		}
	}
	if !in.Pass && l.failing == nil {
		l.failing = []string{"probe " + in.Name + " as a whole"}
	}
	return l
}

// evidenced checks that no host of a wave, or of an earlier one, has required
// evidence that does not pass as the wave promotes.
func (l *Log) evidenced(r *rolloutFacts, wave int) {
	for i := range r.manifest.Leaves {
		leaf := &r.manifest.Leaves[i]
		if leaf.Wave > wave {
			continue
		}
		for _, e := range l.unproven(r, leaf) {
			l.addf("S42", "wave %d of %s promotes and host %s fails %s", wave, r.name, e.host, e.control)
		}
	}
}

// unproven lists the required evidence that a host fails in a rollout and that
// nobody accepted.
func (l *Log) unproven(r *rolloutFacts, leaf *fleet.Leaf) []excuse {
	h := l.host(leaf.Host)
	if h.manifest != r.manifest.Digest || h.reverting || h.freed {
		return nil
	}
	var out []excuse
	for _, k := range leaf.Probes {
		p := &r.manifest.Header.Probes[k]
		last, seen := h.probes[p.Name]
		if p.Evidence == nil || p.Mode != fleet.Enforce || !seen || last.passing {
			continue
		}
		for _, control := range last.failing {
			if e := (excuse{h.name, control}); !r.excused[e] {
				out = append(out, e)
			}
		}
	}
	return out
}

// excuse takes what an operator accepted of evidence: exactly what failed then.
func (l *Log) excuse(r *rolloutFacts, ev event.WaveForced) {
	named, hosts := map[excuse]bool{}, []string{}
	for _, f := range ev.Failing {
		hosts = append(hosts, f.Host)
		for _, control := range f.Controls {
			named[excuse{f.Host, control}] = true
		}
	}
	l.must(slices.Equal(hosts, ev.Outstanding), "S42", "wave %d of %s forced for the hosts %v and the evidence of %v", ev.Wave, r.name, ev.Outstanding, hosts)
	for i := range r.manifest.Leaves {
		leaf := &r.manifest.Leaves[i]
		if leaf.Wave > ev.Wave {
			continue
		}
		for _, e := range l.unproven(r, leaf) {
			l.must(named[e], "S42", "wave %d of %s forced: host %s fails %s, which was not accepted", ev.Wave, r.name, e.host, e.control)
			r.excused[e] = named[e]
			delete(named, e)
		}
	}
	l.must(len(named) == 0, "S42", "wave %d of %s forced over %d controls that did not fail", ev.Wave, r.name, len(named))
}
