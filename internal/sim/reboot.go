package sim

import (
	core "github.com/steadyfleet/steady/internal/core/agent"
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/plan"
)

// stage reports whether what is switched now waits for a reboot.
func (a *agent) stage() bool {
	if a.stages && a.staged == 0 {
		a.staged = a.boot + 1
	}
	if a.staged == a.boot+1 {
		return true
	}
	a.staged = 0
	return false
}

// BeginReboot takes the machine down, sometimes not at all, and up again.
func (a *agent) BeginReboot(core.BeginReboot) error {
	a.w.checks.mayAct(a, "reboots")
	phase, boot := a.core.Machine.Phase, a.boot
	a.later(a.w.between(100, 30*clock.Second), func() {
		if a.boot != boot || a.core.Machine.Phase != phase || !a.core.Machine.Rebooting() || a.core.Parked != nil {
			return
		}
		if a.w.faulty(Breakage, 0.1) {
			a.step(core.RebootFailed{Detail: "exit code 1"})
			return
		}
		a.boot++
		a.stop(a.w.between(clock.Second, clock.Minute))
	})
	return nil
}

// strandedIn reports whether only people can have a host go on from what is staged.
func strandedIn(why *plan.Explainer, name string) bool {
	a, err := why.Why(name)
	if err != nil || a.Reboot == nil || a.Reboot.Block == nil {
		return false
	}
	return a.Reboot.Block.Code != gate.Presence && a.Reboot.Block.Earliest == 0
}
