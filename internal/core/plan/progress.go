package plan

import (
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// Progress is how far a host is on its way in a rollout. Instants are on the
// server's clock, and zero where the host's clock is not known yet.
type Progress struct {
	Phase host.Phase `json:"phase"`
	// SoakFrom is since when it soaks without an enforce probe that failed; zero
	// while it does not soak. Soak is how long it has to.
	SoakFrom clock.Instant  `json:"soakFrom,omitempty"`
	Soak     clock.Duration `json:"soak,omitempty"`
	// SustainedFailure is how long an enforce probe may fail.
	SustainedFailure clock.Duration  `json:"sustainedFailure"`
	Probes           []ProbeProgress `json:"probes,omitempty"`
}

// ProbeProgress is what is known of a probe since the activation.
type ProbeProgress struct {
	Name    string          `json:"name"`
	Mode    fleet.ProbeMode `json:"mode"`
	Seen    bool            `json:"seen"`
	Passing bool            `json:"passing"`
	// FailingSince is zero while it passes.
	FailingSince clock.Instant `json:"failingSince,omitempty"`
	Reason       string        `json:"reason,omitempty"`
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
	for i := range m.Probes {
		q := &m.Probes[i]
		out.Probes = append(out.Probes, ProbeProgress{Name: q.Name, Mode: q.Mode, Seen: q.Seen, Passing: q.Passing,
			FailingSince: h.Clock.onServer(q.FailingSince), Reason: q.Reason})
	}
	return out
}
