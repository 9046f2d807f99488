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
	if m, r := &a.core.Machine, &a.core.Repairs; m.AtRest() && (r.Grant == "" || r.Need == nil || r.Need.Reboot == "") {
		a.w.violate("S23", "%s is %s and reboots without a grant for that", a.name, m.Phase)
	}
	phase, boot := a.core.Machine.Phase, a.boot
	a.later(a.w.between(100, 30*clock.Second), func() {
		if a.boot != boot || a.core.Machine.Phase != phase || !a.core.Rebooting() || a.core.Parked != nil {
			return
		}
		if a.w.faulty(Breakage, 0.1) {
			a.step(core.RebootFailed{Detail: "exit code 1"})
			return
		}
		for name := range a.restaged { // order-free: each is away with the machine
			a.drift[name] = true
		}
		a.boot++
		a.stop(a.w.between(clock.Second, clock.Minute))
	})
	return nil
}

// checkStaged looks at what the reducer made of repairs that wait for a reboot.
func (a *agent) checkStaged(in *core.RepairsObserved, before *core.Repairs) {
	now := &a.core.Repairs
	if !a.up || a.setBack || len(in.Staged) == 0 {
		return
	}
	if !in.Running && !in.Pending && len(in.Blocked)+len(in.Failed) == 0 && now.Grant != "" && !a.core.Rebooting() {
		a.w.violate("S1", "%s keeps its slot under %s while its repair waits for a reboot", a.name, now.Grant)
	}
	if before.Need == nil && now.Need != nil && now.Need.Reboot != "" && a.vain == a.boot+1 {
		a.w.violate("S23", "%s asks again for a reboot that did not help", a.name)
	}
}

// bootByHand has a person boot a machine whose agent asks for no reboot any more.
func (a *agent) bootByHand() {
	if boot := a.boot; len(a.restaged) > 0 && a.core.Repairs.Futile == a.bootID() {
		a.w.after(a.w.between(clock.Minute, 10*clock.Minute), func() {
			if a.up && a.boot == boot {
				a.boot++
				a.w.trace("%s is booted by hand", a.name)
				a.stop(a.w.between(clock.Second, clock.Minute))
			}
		})
	}
}

// strandedIn reports whether only people can have a host go on from what is staged.
func strandedIn(why *plan.Explainer, name string) bool {
	a, err := why.Why(name)
	if err != nil || a.Reboot == nil || a.Reboot.Block == nil {
		return false
	}
	return a.Reboot.Block.Code != gate.Presence && a.Reboot.Block.Earliest == 0
}
