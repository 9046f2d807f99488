package plan

import (
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/health"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// HealthFacts is what health.Assess has to know of a host besides its resources.
func (s *State) HealthFacts(name string, now clock.Instant) health.Facts {
	h := s.Hosts[name]
	if h == nil {
		return health.Facts{}
	}
	m := &h.Machine
	f := health.Facts{Enrolled: h.Incarnation > 0 && h.Reports(), Runs: m.Current != "", Online: h.Online}
	f.Moving = h.moving()
	f.Failed = h.SilentFailure || h.Overdue || m.Phase == host.Failed && !m.Reverting
	if m.Phase == host.Converged {
		s.failing(h, now, &f)
	}
	return f
}

// moving reports whether a host is on its way in a rollout, whose own deadlines end that.
func (h *Host) moving() bool {
	m := &h.Machine
	switch m.Phase {
	case host.Activating, host.Soaking:
	case host.Deferred, host.Failed:
		if !m.Reverting && !m.Rebooting() {
			return false
		}
	default:
		return false
	}
	return !h.SilentFailure && !h.Overdue
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

// Progress is how far a host is on its way in a rollout. Instants are on the
// server's clock, and zero where the host's clock is not known yet.
type Progress struct {
	Phase host.Phase `json:"phase"`
	// SoakFrom is since when it soaks without an enforce probe that failed; zero
	// while it does not soak. Soak is how long it has to.
	SoakFrom clock.Instant  `json:"soakFrom,omitempty"`
	Soak     clock.Duration `json:"soak,omitempty"`
	// SustainedFailure is how long an enforce probe may fail.
	SustainedFailure clock.Duration `json:"sustainedFailure"`
	// Probes are those since the activation, without what evidence says of controls.
	Probes []host.ProbeState `json:"probes,omitempty"`
}

// Progress says how far a host is in a rollout; nil while it is not in flight in it.
func (s *State) Progress(r *rollout.Rollout, name string) *Progress {
	h := s.Hosts[name]
	if h == nil || h.Machine.Rollout != r.Name || !h.Machine.InFlight() {
		return nil
	}
	m := &h.Machine
	p := s.hostPlan(h, m.Manifest)
	if p == nil {
		return nil
	}
	out := &Progress{Phase: m.Phase, SustainedFailure: p.Policy.SustainedFailure}
	if m.Phase == host.Soaking {
		out.SoakFrom, out.Soak = h.Clock.onServer(m.SoakFrom), p.Soak
	}
	out.Probes = h.Probes()
	for i := range out.Probes {
		out.Probes[i].Evidence, out.Probes[i].Failing = false, nil
	}
	return out
}

// Probes are those since the host's last activation, with instants on the server's clock.
func (h *Host) Probes() []host.ProbeState {
	out := slices.Clone(h.Machine.Probes)
	for i := range out {
		out[i].FailingSince = h.Clock.onServer(out[i].FailingSince)
	}
	return out
}
