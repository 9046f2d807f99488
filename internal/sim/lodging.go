package sim

import (
	"maps"
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/managed"
	"github.com/steadyfleet/steady/internal/core/spec"
	"github.com/steadyfleet/steady/reconcile/engine"
)

// lodging is what a host has of its managed layer, and runs of it. It outlives processes.
type lodging struct {
	layer   map[string]managed.Entry // as the server said last
	version uint64
	running map[string]managed.Entry
	broken  map[string]bool         // does not run here
	told    map[string]engine.Phase // what was reported
	fetches int                     // counts them: a late answer is nobody's
	due     clock.Instant           // of the world: when an entry ends
}

func newLodging() *lodging {
	return &lodging{running: map[string]managed.Entry{}, broken: map[string]bool{}, told: map[string]engine.Phase{}}
}

// reboot ends all that runs.
func (l *lodging) reboot() {
	if l != nil {
		clear(l.running)
	}
}

// fetch asks for the layer, as agents do when it changed and after a heartbeat.
func (a *agent) fetch() {
	l := a.lodging
	if l == nil || !a.up || a.core.Parked != nil {
		return
	}
	l.fetches++
	id, inc := l.fetches, a.inc
	a.w.send(a, func() {
		s := a.w.choose()
		if s.away() || s.labs == nil || !s.seen(a) {
			return
		}
		var layer map[string]managed.Entry
		version := uint64(0)
		if h := s.core.Managed.Hosts[a.name]; h != nil {
			layer, version = maps.Clone(h.Entries), h.Version
		}
		a.w.send(a, func() {
			if a.up && a.lodging == l && l.fetches == id && a.inc == inc {
				l.layer, l.version = layer, version
				a.later(a.w.between(100, 20*clock.Second), a.lodge)
			}
		})
	})
}

// lodgesAgain is what an agent does with its layer as it starts.
func (a *agent) lodgesAgain() {
	if a.lodging != nil {
		a.lodging.due = 0
		a.later(0, a.lodge)
	}
}

// lodge has the host run what its layer says until that ends by its own clock, and report.
func (a *agent) lodge() {
	l := a.lodging
	if l == nil || !a.up || a.core.Parked != nil || a.lies() {
		return
	}
	now := a.w.now.Add(a.wall)
	for _, id := range slices.Sorted(maps.Keys(l.running)) {
		if e, wanted := l.layer[id]; !wanted || e.NotAfter.Reached(now) {
			delete(l.running, id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(l.layer)) {
		if e := l.layer[id]; !e.NotAfter.Reached(now) {
			l.running[id] = e
			a.lodgesUntil(e.NotAfter.Sub(now))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(l.told)) {
		if _, there := l.running[id]; !there {
			delete(l.told, id)
			a.record(event.ResourceReported{Resource: id, State: string(spec.Removed), Layer: event.LayerManaged, Version: l.version})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(l.running)) {
		phase, state := engine.Converged, "Running"
		if l.broken[id] {
			phase, state = engine.Failed, "Error"
		}
		if l.told[id] != phase {
			l.told[id] = phase
			a.record(event.ResourceReported{Resource: id, Phase: phase, State: state, Layer: event.LayerManaged, Version: l.version})
		}
	}
	a.flush()
}

// lodgesUntil looks at an entry when it ends.
func (a *agent) lodgesUntil(in clock.Duration) {
	l, at := a.lodging, a.w.now.Add(in)
	if l.due != 0 && l.due <= at {
		return
	}
	l.due = at
	a.later(in, func() {
		if l.due == at {
			l.due = 0
			a.lodge()
		}
	})
}

// breaks has something of a session not run on a host, or run again.
func (a *agent) breaks(id string, broken bool) {
	a.lodging.broken[id] = broken
	a.lodge()
}
