package forecast

import (
	core "github.com/steadyfleet/steady/internal/core/agent"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
)

var _ core.Effects = (*Host)(nil)

// Prepare takes its time.
func (h *Host) Prepare(e core.Prepare) error {
	h.always(h.next.Claim, func() { h.step(core.Prepared{Grant: e.Offer.Grant}) })
	return nil
}

// Claim asks the server, at once or as soon as it is there again.
func (h *Host) Claim(e core.Claim) error {
	h.claims = e.Offer.Grant
	h.always(h.next.Report, h.claim)
	return nil
}

// Activate changes what runs, after some time.
func (h *Host) Activate(e core.Activate) error {
	h.turn++
	h.activate(e.Generation, h.how.Activation)
	return nil
}

func (h *Host) activate(g core.Generation, in clock.Duration) {
	if h.how.Never {
		return
	}
	h.later(in, func() {
		if h.how.Fails != "" {
			h.step(core.GenerationObserved{Generation: g, Outcome: core.Broken, Code: h.how.Fails, Detail: "as modelled"})
			return
		}
		h.step(core.GenerationObserved{Generation: g, Outcome: core.Complete})
	})
}

// Revert goes back, after some time.
func (h *Host) Revert(e core.Revert) error {
	h.turn++
	h.revert(e.Generation)
	return nil
}

func (h *Host) revert(g core.Generation) {
	h.later(h.how.Revert, func() { h.step(core.GenerationObserved{Generation: g, Outcome: core.Complete}) })
}

// Leave never comes: a forecast signs nothing.
func (h *Host) Leave(core.Leave) error { return nil }

// StartProbes observes every probe as the model says.
func (h *Host) StartProbes(e core.StartProbes) error {
	h.round = e.Round
	if len(e.Probes) > 0 { // else they end, and what runs goes on
		h.turn++
		h.watch(h.now())
	}
	return nil
}

// watch plays what probes are still to find of an activation that was complete at an
// instant of the host's clock.
func (h *Host) watch(complete clock.Instant) {
	seen := map[string]bool{}
	for _, o := range h.how.Probes {
		seen[o.Name] = true
		if in := complete.Add(o.After).Sub(h.now()); in >= 0 {
			h.later(in, func() { h.probed(host.ProbeObserved{Name: o.Name, Pass: o.Pass, Reason: o.Reason, Results: o.Results}) })
		}
	}
	for _, s := range h.core.Machine.Probes {
		seen[s.Name] = seen[s.Name] || s.Seen
	}
	for i := range h.core.Plan.Probes {
		if p := &h.core.Plan.Probes[i]; p.Mode != fleet.Disabled && !seen[p.Name] {
			h.later(0, func() { h.probed(host.ProbeObserved{Name: p.Name, Pass: true}) })
		}
	}
}

func (h *Host) probed(in host.ProbeObserved) {
	h.step(core.ProbeObserved{Round: h.round, ProbeObserved: in})
}

// BeginReboot takes as long as an activation.
func (h *Host) BeginReboot(core.BeginReboot) error {
	h.later(h.how.Activation, func() { h.step(core.Started{BootID: h.core.Machine.BootID + "+", Current: h.core.Machine.Current}) })
	return nil
}

// BeginRepairs repairs all, after some time.
func (h *Host) BeginRepairs(core.BeginRepairs) error {
	h.repairs = true
	h.later(h.how.Activation, func() {
		h.repairs = false
		h.observeRepairs()
	})
	return nil
}

// Observe says whether repairs run.
func (h *Host) Observe(core.Observe) error {
	h.always(0, h.observeRepairs)
	return nil
}

func (h *Host) observeRepairs() { h.step(core.RepairsObserved{Pending: h.repairs, Running: h.repairs}) }

// CloseRepairs implements core.Effects; nothing begins by itself here.
func (h *Host) CloseRepairs(core.CloseRepairs) error { return nil }

// Sweep implements core.Effects; there is no content here.
func (h *Host) Sweep(core.Sweep) error { return nil }

// RunResources and StopResources implement core.Effects; no state is set back here.
func (h *Host) RunResources(core.RunResources) error   { return nil }
func (h *Host) StopResources(core.StopResources) error { return nil }
