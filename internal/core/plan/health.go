package plan

import (
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/health"
	"github.com/steadyfleet/steady/internal/core/host"
)

// HealthFacts is what health.Assess has to know of a host besides its resources.
func (s *State) HealthFacts(name string, now clock.Instant) health.Facts {
	h := s.Hosts[name]
	if h == nil {
		return health.Facts{}
	}
	m := &h.Machine
	f := health.Facts{Enrolled: h.Incarnation > 0 && h.Ended == nil, Runs: m.Current != "", Online: h.Online}
	switch m.Phase {
	case host.Activating, host.Soaking:
		f.Moving = true
	case host.Deferred, host.Failed:
		f.Moving = m.Reverting || m.Rebooting()
	case host.Converged:
		s.failing(h, now, &f)
	}
	return f
}

// failing adds the enforce probes that a host's policy calls failed. Evidence of
// compliance has a gate of its own, where it can be accepted.
func (s *State) failing(h *Host, now clock.Instant, f *health.Facts) {
	p := s.hostPlan(h, h.Machine.Manifest)
	if p == nil {
		return
	}
	for i := range h.Machine.Probes {
		probe := &h.Machine.Probes[i]
		since := h.Clock.onServer(probe.FailingSince)
		if probe.Mode != fleet.Enforce || probe.Evidence || probe.Passing || since == 0 {
			continue
		}
		if by := since.Add(p.Policy.SustainedFailure); by.Reached(now) {
			f.Failing = append(f.Failing, health.Probe{Name: probe.Name, Message: probe.Reason})
		} else {
			f.NextFailing = clock.Earliest(f.NextFailing, by)
		}
	}
}

// foldHealth keeps what a host is degraded for.
func (s *State) foldHealth(at clock.Instant, h *Host, ev event.Event) {
	switch ev := ev.(type) {
	case event.HostDegraded:
		since := at
		if h.Degraded != nil {
			since = h.Degraded.Since
		}
		h.Degraded = &Degradation{Since: since, HostDegraded: ev}
	case event.HostRecovered:
		h.Degraded = nil
	}
	s.refresh(h)
}

// Degradation is what a host is degraded for, and since when.
type Degradation struct {
	Since clock.Instant `json:"since"`
	event.HostDegraded
}

// unfit reports whether the bundle of a host does not run as it should, so that
// the host is no evidence for it.
func (h *Host) unfit() bool { return h.Degraded != nil && h.Degraded.Bundle }
