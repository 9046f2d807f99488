package sim

import (
	"maps"
	"slices"

	core "github.com/steadyfleet/steady/internal/core/agent"
	"github.com/steadyfleet/steady/internal/core/clock"
)

// drifts plans drift that only a disruptive repair undoes: of single hosts, and of
// all at once by a common cause.
func (p *planning) drifts() {
	for _, a := range p.w.agents {
		for range p.r.IntN(3) {
			p.add(p.some(0), func() { a.drifts("exec/app") }, "%s drifts", a.name)
		}
	}
	if p.r.IntN(2) == 0 {
		p.add(p.some(1.0/3), p.w.driftAll, "a common cause changes every host")
	}
}

func (w *World) driftAll() {
	for _, a := range w.agents {
		a.drifts("exec/app", "exec/proxy")
	}
}

// drifts has resources be other than declared, sometimes only for a while.
func (a *agent) drifts(names ...string) {
	if a.running == "" || !a.core.Machine.AtRest() {
		return // its generation is on its way and repairs all
	}
	for _, name := range names {
		if _, there := a.drift[name]; there {
			continue
		}
		a.drift[name] = false
		a.w.trace("%s: %s drifts", a.name, name)
		if a.w.rand.IntN(5) == 0 {
			a.w.after(a.w.between(clock.Second, 5*clock.Minute), func() {
				if begun, there := a.drift[name]; there && !begun && a.restaged[name] == 0 {
					delete(a.drift, name)
					a.w.trace("%s: %s heals by itself", a.name, name)
					a.observeRepairs()
				}
			})
		}
	}
	a.observeRepairs()
}

// repairing reports whether the host really stops what runs to repair it.
func (a *agent) repairing() bool {
	for _, begun := range a.drift { // order-free: any one will do
		if begun {
			return true
		}
	}
	return false
}

// observeRepairs tells the reducer what is seen of repairs.
func (a *agent) observeRepairs() {
	if !a.up {
		return
	}
	d := core.RepairsObserved{Reason: "the check fails", Failed: slices.Clone(a.gaveUp), Component: "kernel"}
	for _, name := range slices.Sorted(maps.Keys(a.drift)) {
		boot, staged := a.restaged[name]
		if staged && boot != a.boot+1 && a.w.faulty(Breakage, 0.2) { // the boot did not help
			a.drift[name], a.restaged[name], boot = false, a.boot+1, a.boot+1
			if a.core.Repairs.Reboot != "" {
				a.vain = a.boot + 1
			}
		}
		switch {
		case staged && boot != a.boot+1:
			delete(a.drift, name)
			delete(a.restaged, name)
			a.w.trace("%s: %s is repaired by a boot", a.name, name)
		case staged:
			d.Staged = append(d.Staged, name)
		case a.drift[name]:
			d.Pending, d.Running = true, true
		case !slices.Contains(a.gaveUp, name):
			d.Blocked = append(d.Blocked, name)
		}
	}
	before := a.core.Repairs
	a.step(d)
	a.checkStaged(&d, &before)
	a.bootByHand()
	a.begin()
}

// begin starts what may begin now, and goes on with what had begun.
func (a *agent) begin() {
	if !a.up || a.core.Parked != nil || a.core.Unconfirmed() {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(a.drift)) {
		if _, staged := a.restaged[name]; staged {
			continue
		}
		if a.working[name] || slices.Contains(a.gaveUp, name) || !a.drift[name] && !a.core.Repairs.Open(a.now()) {
			continue
		}
		a.w.checks.mayAct(a, "repairs "+name)
		a.drift[name], a.working[name] = true, true
		a.w.touched = true
		a.w.trace("%s: repairs %s under %s", a.name, name, a.core.Repairs.Grant)
		a.later(a.w.between(100, 3*clock.Minute), func() { a.repaired(name) })
	}
}

// repaired ends one repair, well or not; what was given up is tried again later.
func (a *agent) repaired(name string) {
	delete(a.working, name)
	if !a.drift[name] {
		return // another generation took over
	}
	if !a.w.faulty(Breakage, 0.15) {
		if a.stages {
			a.drift[name], a.restaged[name] = false, a.boot+1
			a.w.trace("%s: the repair of %s waits for a reboot", a.name, name)
		} else {
			delete(a.drift, name)
		}
		a.observeRepairs()
		return
	}
	a.drift[name] = false
	a.gaveUp = append(a.gaveUp, name)
	slices.Sort(a.gaveUp)
	a.later(5*clock.Minute, func() {
		a.gaveUp = slices.DeleteFunc(a.gaveUp, func(n string) bool { return n == name })
		a.observeRepairs()
	})
	a.observeRepairs()
}
