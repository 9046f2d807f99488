package plan

import (
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
)

// Action is one decision of the planner. The sum is sealed: a new decision does
// not compile until every Applier carries it out.
type Action interface{ Apply(Applier) error }

// Applier carries out every kind of decision, after it is durable.
type Applier interface {
	OpenRollout(event.RolloutOpened) error
	QueueRollout(event.RolloutQueued) error
	DeferRollout(event.RolloutDeferred) error
	MoveRollout(event.RolloutMoved) error
	RevertRollout(event.RolloutReverting) error
	PromoteWave(event.WavePromoted) error
	ForceWave(event.WaveForced) error
	BreakGlass(event.GlassBroken) error
	HoldWave(event.WaveHeld) error
	Grant(host string, e event.Granted) error
	EndGrant(host string, e event.GrantEnded) error
	FailSilent(host string, e event.HostFailedSilently) error
	FreeSlot(host string, e event.HostSlotFreed) error
	AddQuarantine(event.QuarantineAdded) error
	Unfreeze(host string, e event.HostUnfrozen) error
}

// Decision is an action with the entry that records it.
type Decision struct {
	Action Action
	Entry  event.Entry
}

// Plan is what one tick decided, already folded into the state.
type Plan struct {
	Decisions []Decision
	// Next is when time alone will call for another tick; zero when only an
	// event can.
	Next clock.Instant
}

type (
	openRollout   struct{ event.RolloutOpened }
	queueRollout  struct{ event.RolloutQueued }
	deferRollout  struct{ event.RolloutDeferred }
	moveRollout   struct{ event.RolloutMoved }
	revertRollout struct{ event.RolloutReverting }
	promoteWave   struct{ event.WavePromoted }
	forceWave     struct{ event.WaveForced }
	breakGlass    struct{ event.GlassBroken }
	holdWave      struct{ event.WaveHeld }
	grant         struct {
		event.Granted
		host string
	}
	endGrant struct {
		event.GrantEnded
		host string
	}
	failSilent struct {
		event.HostFailedSilently
		host string
	}
	freeSlot struct {
		event.HostSlotFreed
		host string
	}
	addQuarantine struct{ event.QuarantineAdded }
	unfreeze      struct {
		event.HostUnfrozen
		host string
	}
)

func (a openRollout) Apply(h Applier) error   { return h.OpenRollout(a.RolloutOpened) }
func (a queueRollout) Apply(h Applier) error  { return h.QueueRollout(a.RolloutQueued) }
func (a deferRollout) Apply(h Applier) error  { return h.DeferRollout(a.RolloutDeferred) }
func (a moveRollout) Apply(h Applier) error   { return h.MoveRollout(a.RolloutMoved) }
func (a revertRollout) Apply(h Applier) error { return h.RevertRollout(a.RolloutReverting) }
func (a promoteWave) Apply(h Applier) error   { return h.PromoteWave(a.WavePromoted) }
func (a forceWave) Apply(h Applier) error     { return h.ForceWave(a.WaveForced) }
func (a breakGlass) Apply(h Applier) error    { return h.BreakGlass(a.GlassBroken) }
func (a holdWave) Apply(h Applier) error      { return h.HoldWave(a.WaveHeld) }
func (a grant) Apply(h Applier) error         { return h.Grant(a.host, a.Granted) }
func (a endGrant) Apply(h Applier) error      { return h.EndGrant(a.host, a.GrantEnded) }
func (a freeSlot) Apply(h Applier) error      { return h.FreeSlot(a.host, a.HostSlotFreed) }
func (a failSilent) Apply(h Applier) error    { return h.FailSilent(a.host, a.HostFailedSilently) }
func (a addQuarantine) Apply(h Applier) error { return h.AddQuarantine(a.QuarantineAdded) }
func (a unfreeze) Apply(h Applier) error      { return h.Unfreeze(a.host, a.HostUnfrozen) }
