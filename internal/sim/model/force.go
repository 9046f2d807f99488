package model

import (
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// force lets the open wave of a rollout pass on a word that was signed for it, if
// nothing but evidence is missing. The last wave ends the rollout.
func (d *decider) force(r *rolloutFacts) bool {
	waves := r.manifest.Header.Waves
	word := d.last(fleet.OverridePromote, "", r.manifest.Digest, "", "", waves[r.cursor].Name)
	if word == nil || r.forced[r.cursor] || d.unproven(r, d.now) != "evidence" || d.held(r) || d.barred[r.manifest.Digest] {
		return false
	}
	t := d.count(r, r.cursor, r.cursor)
	d.do("", event.WaveForced{Manifest: r.manifest.Digest, Wave: r.cursor, Evidence: t.arrived, AtTarget: t.has, Failed: r.failures(r.cursor),
		Skipped: t.away, Waiting: t.ready, Failing: d.outstanding(r, r.cursor+1)})
	if r.cursor == len(waves)-1 && r.forced[r.cursor] {
		d.move(r, rollout.Terminal)
	}
	return true
}

// outstanding lists the hosts of the waves before one that run their target with
// required evidence that does not pass, and which nobody accepted there.
func (f *facts) outstanding(r *rolloutFacts, before int) []event.FailingEvidence {
	var out []event.FailingEvidence
	for i := range r.manifest.Leaves {
		leaf := &r.manifest.Leaves[i]
		m := &f.host(leaf.Host).machine
		if leaf.Wave >= before || m.Manifest != r.manifest.Digest || m.Reverting || f.host(leaf.Host).freed {
			continue
		}
		var controls []string
		for _, control := range m.Outstanding() {
			if !r.accepted[leaf.Host+"/"+control] {
				controls = append(controls, control)
			}
		}
		if len(controls) > 0 {
			out = append(out, event.FailingEvidence{Host: leaf.Host, Controls: controls})
		}
	}
	return out
}
