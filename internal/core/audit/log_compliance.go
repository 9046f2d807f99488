package audit

import (
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
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

// evidenced checks that no host of a wave, or of an earlier one, has required
// evidence that does not pass as the wave promotes.
func (l *Log) evidenced(r *rolloutFacts, wave int) {
	for i := range r.manifest.Leaves {
		leaf := &r.manifest.Leaves[i]
		h := l.host(leaf.Host)
		if leaf.Wave > wave || r.excused[h.name] {
			continue
		}
		if probe := h.unproven(r, leaf); probe != "" {
			l.addf("S42", "wave %d of %s promotes and host %s fails probe %s", wave, r.name, leaf.Host, probe)
		}
	}
}

// unproven names a probe for required evidence that a host fails in a rollout.
func (h *hostFacts) unproven(r *rolloutFacts, leaf *fleet.Leaf) string {
	if h.manifest != r.manifest.Digest || h.reverting {
		return ""
	}
	for _, k := range leaf.Probes {
		p := &r.manifest.Header.Probes[k]
		if passing, seen := h.probes[p.Name]; p.Evidence != nil && p.Mode == fleet.Enforce && seen && !passing {
			return p.Name
		}
	}
	return ""
}

// excuse takes what an operator accepted of evidence: exactly what failed then.
func (l *Log) excuse(r *rolloutFacts, ev event.WaveForced) {
	named := map[string]bool{}
	for _, name := range ev.Outstanding {
		named[name] = true
	}
	for i := range r.manifest.Leaves {
		leaf := &r.manifest.Leaves[i]
		h := l.host(leaf.Host)
		failing := leaf.Wave <= ev.Wave && !r.excused[h.name] && h.unproven(r, leaf) != ""
		l.must(failing == named[h.name], "S42", "wave %d of %s forced: host %s fails required evidence: %t, accepted: %t", ev.Wave, r.name, h.name, failing, named[h.name])
		if named[h.name] {
			r.excused[h.name] = true
			delete(named, h.name)
		}
	}
	l.must(len(named) == 0, "S42", "wave %d of %s forced for %d hosts that it does not have", ev.Wave, r.name, len(named))
}
