package forecast

import (
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/host"
)

var _ host.Effects = (*Host)(nil)

// Prepare takes its time.
func (h *Host) Prepare(e host.Prepare) error {
	h.always(h.next.Claim, func() { h.run(h.core.Prepared(e.Offer.Grant, h.now())) })
	return nil
}

// Claim asks the server, at once or as soon as it is there again.
func (h *Host) Claim(e host.Claim) error {
	h.claims = e.Offer.Grant
	h.always(h.next.Report, h.claim)
	return nil
}

// Decline is reported.
func (h *Host) Decline(e host.Decline) error {
	h.record(event.GrantDeclined{Grant: e.Grant, Code: e.Code, Detail: e.Detail})
	return nil
}

// Quarantine is reported.
func (h *Host) Quarantine(e host.Quarantine) error {
	h.record(event.BundleQuarantined{Rollout: h.core.Machine.Rollout, Digest: e.Digest, Reason: e.Reason})
	return nil
}

// Activate changes what runs, after some time.
func (h *Host) Activate(e host.Activate) error {
	h.turn++
	h.activate(e.Target, h.how.Activation)
	return nil
}

func (h *Host) activate(target digest.Digest, in clock.Duration) {
	if h.how.Never {
		return
	}
	h.later(in, func() {
		if h.how.Fails != "" {
			h.step(host.ActivationFailed{Code: h.how.Fails, Detail: "as modelled"})
			return
		}
		h.step(host.Activated{Observed: target})
	})
}

// Revert goes back, after some time.
func (h *Host) Revert(e host.Revert) error {
	h.turn++
	h.revert(e.To)
	return nil
}

func (h *Host) revert(to digest.Digest) {
	h.later(h.how.Revert, func() { h.step(host.RevertCompleted{Observed: to}) })
}

// StartProbes looks at every probe as the model says.
func (h *Host) StartProbes(host.StartProbes) error {
	h.turn++
	h.watch(h.now())
	return nil
}

// watch plays the looks at probes that are still to come of an activation that
// was complete at an instant of the host's clock.
func (h *Host) watch(complete clock.Instant) {
	seen := map[string]bool{}
	for _, o := range h.how.Probes {
		seen[o.Name] = true
		if in := complete.Add(o.After).Sub(h.now()); in >= 0 {
			h.later(in, func() { h.step(host.ProbeObserved{Name: o.Name, Pass: o.Pass, Reason: o.Reason, Results: o.Results}) })
		}
	}
	for _, s := range h.core.Machine.Probes {
		seen[s.Name] = seen[s.Name] || s.Seen
	}
	for i := range h.core.Plan.Probes {
		if p := &h.core.Plan.Probes[i]; p.Mode != fleet.Disabled && !seen[p.Name] {
			h.later(0, func() { h.step(host.ProbeObserved{Name: p.Name, Pass: true}) })
		}
	}
}

// BeginReboot takes as long as an activation.
func (h *Host) BeginReboot(host.BeginReboot) error {
	h.later(h.how.Activation, func() { h.step(host.Booted{BootID: h.core.Machine.BootID + "+", Current: h.core.Machine.Current}) })
	return nil
}

// NeedRepair is reported.
func (h *Host) NeedRepair(e host.NeedRepair) error {
	h.record(event.RepairNeeded{RepairNeed: e.RepairNeed})
	return nil
}

// EndRepair is reported.
func (h *Host) EndRepair(e host.EndRepair) error {
	h.record(event.RepairOver{Grant: e.Grant, OK: e.OK, Detail: e.Detail})
	return nil
}

// OpenRepair repairs all, after some time.
func (h *Host) OpenRepair(host.OpenRepair) error {
	h.later(h.how.Activation, func() { h.run(h.core.Drifted(host.Drift{}, h.now())) })
	return nil
}
