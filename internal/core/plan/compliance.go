package plan

import (
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// foldCompliance keeps which required controls a manifest fails.
func (s *State) foldCompliance(ev event.ComplianceEvaluated) {
	var required []string
	for i := range ev.Failures {
		if f := &ev.Failures[i]; f.Mode == fleet.Enforce && len(f.Hosts) > 0 {
			required = append(required, f.Words())
		}
	}
	if len(required) == 0 {
		delete(s.Verdicts, ev.Manifest)
		return
	}
	if s.Verdicts == nil {
		s.Verdicts = map[digest.Digest][]string{}
	}
	s.Verdicts[ev.Manifest] = required
}

// dropVerdicts forgets the verdicts on manifests that nothing can open or resume.
func (s *State) dropVerdicts() {
	if len(s.Verdicts) == 0 {
		return
	}
	kept := map[digest.Digest]bool{}
	for _, c := range s.Channels { // order-free: it only fills a set
		kept[c.Active], kept[c.Latest] = true, true
		for _, m := range c.Manifests {
			kept[m.Digest] = true
		}
	}
	for d := range s.Verdicts { // order-free: each by itself
		if !kept[d] {
			delete(s.Verdicts, d)
		}
	}
}

// blocked is the gate of static controls for a manifest.
func (s *State) blocked(name string, manifest digest.Digest) *gate.Block {
	return gate.CheckControls(name, s.Verdicts[manifest])
}

// compliance asks about a host of a wave: the static controls of the plan, and the
// evidence of every host of an earlier wave.
func (s *State) compliance(r *rollout.Rollout, wave int) *gate.Block {
	if b := s.blocked(r.Name, r.Manifest); b != nil {
		return b
	}
	return s.evidenceBefore(r, wave)
}

// evidenceBefore is the gate of evidence over the waves before one.
func (s *State) evidenceBefore(r *rollout.Rollout, wave int) *gate.Block {
	return gate.CheckEvidence(r.Name, s.outstandingBefore(r, wave))
}

// outstandingBefore lists the hosts before a wave whose required evidence does not
// pass, in the order of names, but for those that an operator accepted.
func (s *State) outstandingBefore(r *rollout.Rollout, wave int) []gate.Outstanding {
	var failing []gate.Outstanding
	for i := r.Outstanding.Next(0); i >= 0; i = r.Outstanding.Next(i + 1) {
		if leaf := &r.Plan.Leaves[i]; leaf.Wave < wave && r.Excused(leaf.Host) == nil {
			failing = append(failing, gate.Outstanding{Host: leaf.Host, Controls: s.Hosts[leaf.Host].Machine.Outstanding()})
		}
	}
	return failing
}

// outstanding brings up to date whether a member runs the rollout's target with
// required evidence that does not pass.
func (s *State) outstanding(h *Host, r *rollout.Rollout, i int) {
	m := &h.Machine
	if r.SetOutstanding(i, m.Manifest == r.Manifest && !m.Reverting && len(m.Outstanding()) > 0) {
		s.dirty[r.Channel] = true
	}
}
