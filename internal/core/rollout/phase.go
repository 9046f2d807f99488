// Package rollout is one manifest on its way over its hosts: the rollout
// machine, what each member stands at, and the aggregates per wave and per
// class of members that let a planner look at what changed and not at what
// exists.
package rollout

import "slices"

// Phase is where a rollout stands. Pause is an overlay, not a phase.
type Phase string

// The phases. Failed is the halted state: no new grants, hosts in flight
// finish, nobody is reverted. Reverted is where rollback-and-halt ends, also
// when the failures were only proven after it had halted.
const (
	Opening    Phase = "opening"
	Active     Phase = "active"
	Converging Phase = "converging"
	Terminal   Phase = "terminal"
	Failed     Phase = "failed"
	Reverted   Phase = "reverted"
	Superseded Phase = "superseded"
	Pruned     Phase = "pruned"
)

// Phases lists every phase.
var Phases = []Phase{Opening, Active, Converging, Terminal, Failed, Reverted, Superseded, Pruned}

var phaseEdges = map[Phase][]Phase{
	"":         {Opening},
	Opening:    {Active, Superseded, Failed},
	Active:     {Converging, Terminal, Failed, Reverted, Superseded},
	Converging: {Active, Terminal, Failed, Reverted, Superseded},
	Terminal:   {Superseded, Pruned},
	Failed:     {Active, Reverted, Superseded, Pruned},
	Reverted:   {Active, Superseded, Pruned},
	Superseded: {Pruned},
}

// Legal reports whether a rollout may go from one phase to another.
func Legal(from, to Phase) bool { return slices.Contains(phaseEdges[from], to) }

// Ended reports whether the rollout gives out nothing more, so that a queued
// ref may open. A failed one has ended in this sense although an operator may
// still resume it.
func (p Phase) Ended() bool {
	switch p {
	case Terminal, Failed, Reverted, Superseded, Pruned:
		return true
	}
	return false
}
