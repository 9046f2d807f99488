package sim

import (
	"maps"
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/plan"
)

// drifts plans drift that only a disruptive repair undoes: of single hosts, and of
// all at once by a common cause.
func (w *World) drifts() {
	r := w.rand
	for _, name := range w.fleet.hosts {
		for range r.IntN(3) {
			a := w.hosts[name]
			w.after(w.between(0, w.cfg.Faulty), func() { a.drifts("exec/app") })
		}
	}
	if r.IntN(2) == 0 {
		w.after(w.between(w.cfg.Faulty/3, w.cfg.Faulty), func() {
			w.trace("a common cause changes every host")
			for _, name := range w.fleet.hosts {
				w.hosts[name].drifts("exec/app", "exec/proxy")
			}
		})
	}
}

// drifts has resources be other than declared, sometimes only for a while.
func (a *agent) drifts(names ...string) {
	if a.running == "" || !a.core.Machine.Settled() {
		return // its generation is on its way and repairs all
	}
	for _, name := range names {
		if a.drift[name] {
			continue
		}
		a.drift[name] = false
		a.w.trace("%s: %s drifts", a.name, name)
		if a.w.rand.IntN(5) == 0 {
			a.w.after(a.w.between(clock.Second, 5*clock.Minute), func() {
				if begun, there := a.drift[name]; there && !begun {
					delete(a.drift, name)
					a.w.trace("%s: %s heals by itself", a.name, name)
					a.look()
				}
			})
		}
	}
	a.look()
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

// look tells the reducer where repairs stand.
func (a *agent) look() {
	if !a.up {
		return
	}
	d := host.Drift{Reason: "the check fails", Failed: slices.Clone(a.gaveUp)}
	for _, name := range slices.Sorted(maps.Keys(a.drift)) {
		switch {
		case a.drift[name]:
			d.Pending, d.Running = true, true
		case !slices.Contains(a.gaveUp, name):
			d.Held = append(d.Held, name)
		}
	}
	grant := a.core.Repairs.Grant
	effects := a.core.Drifted(d, a.now())
	if grant != "" && a.core.Repairs.Grant == "" && a.repairing() {
		a.w.violate("S1", "%s closes window %s while a repair runs", a.name, grant)
	}
	if a.w.faulty(0.002) && len(effects) == 0 {
		a.stop(a.w.between(clock.Second, clock.Minute))
		return
	}
	a.carry(effects)
	a.rest()
	a.begin()
}

// begin starts what may begin now, and goes on with what had begun.
func (a *agent) begin() {
	for _, name := range slices.Sorted(maps.Keys(a.drift)) {
		if a.working[name] || slices.Contains(a.gaveUp, name) || !a.drift[name] && !a.core.Repairs.Open(a.now()) {
			continue
		}
		a.drift[name], a.working[name] = true, true
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
	if !a.w.faulty(0.15) {
		delete(a.drift, name)
		a.look()
		return
	}
	a.drift[name] = false
	a.gaveUp = append(a.gaveUp, name)
	slices.Sort(a.gaveUp)
	a.later(5*clock.Minute, func() {
		a.gaveUp = slices.DeleteFunc(a.gaveUp, func(n string) bool { return n == name })
		a.look()
	})
	a.look()
}

// NeedRepair reports what waits.
func (a *agent) NeedRepair(e host.NeedRepair) error {
	a.record(event.RepairNeeded{RepairNeed: e.RepairNeed})
	return nil
}

// EndRepair reports that nothing waits any more, or that a window is closed.
func (a *agent) EndRepair(e host.EndRepair) error {
	a.record(event.RepairOver{Grant: e.Grant, OK: e.OK, Detail: e.Detail})
	return nil
}

// OpenRepair begins what waits.
func (a *agent) OpenRepair(host.OpenRepair) error {
	a.later(a.w.between(1, clock.Second), a.look)
	return nil
}

// stuckFor reports whether only people can let a host repair.
func (w *World) stuckFor(name string) bool {
	a, err := plan.Why(w.server.state, name, w.now)
	if err != nil || a.Repair == nil || a.Repair.Block == nil {
		return false
	}
	return a.Repair.Block.Code != gate.Presence && a.Repair.Block.Earliest == 0 // a failed host may hold the slot
}
