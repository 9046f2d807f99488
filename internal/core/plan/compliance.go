package plan

import (
	"slices"

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
			required = append(required, f.Message())
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

// dropVerdicts forgets the verdicts on manifests that nothing can open, resume or
// give to hosts that return.
func (s *State) dropVerdicts() {
	if len(s.Verdicts) == 0 {
		return
	}
	kept := map[digest.Digest]bool{}
	for _, c := range s.Channels { // order-free: it only fills a set
		kept[c.Active], kept[c.Latest], kept[c.Converged] = true, true, true
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

// controls is the gate of static controls for a manifest.
func (s *State) controls(name string, manifest digest.Digest) *gate.Block {
	return gate.CheckControls(name, s.Verdicts[manifest])
}

// outstandingBefore lists the hosts before a wave whose required evidence does not
// pass, in the order of names, with the controls that no operator accepted.
func (s *State) outstandingBefore(r *rollout.Rollout, wave int) []gate.Outstanding {
	var failing []gate.Outstanding
	for i := r.Outstanding.Next(0); i >= 0; i = r.Outstanding.Next(i + 1) {
		leaf := &r.Plan.Leaves[i]
		if leaf.Wave >= wave {
			continue
		}
		controls := slices.DeleteFunc(s.Hosts[leaf.Host].Machine.Outstanding(), func(c string) bool { return r.Excused(leaf.Host, c) != nil })
		if len(controls) > 0 {
			failing = append(failing, gate.Outstanding{Host: leaf.Host, Controls: controls})
		}
	}
	return failing
}

// fails reports whether the host runs the rollout's target with required evidence that
// does not pass. One that is retired has nothing to prove.
func (h *Host) fails(r *rollout.Rollout) bool {
	m := &h.Machine
	return m.Manifest == r.Manifest && !m.Reverting && !h.freedSlot() && len(m.Outstanding()) > 0
}

// excuses says what of a host's failing evidence operators accepted.
func excuses(r *rollout.Rollout, h *Host) string {
	words := ""
	for _, control := range h.Machine.Outstanding() {
		if w := r.Excused(h.Name, control); w != nil {
			words += "; " + control + " does not pass, " + w.Message()
		}
	}
	return words
}
