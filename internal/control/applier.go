package control

import (
	"log/slog"

	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/plan"
)

// applier carries out decisions once they are durable. What hosts are to do
// reaches them by their long-polls, which publishing wakes; the rest is news for
// people.
type applier struct{ c *Control }

var _ plan.Applier = applier{}

func (a applier) log() *slog.Logger { return a.c.cfg.Log }

func (a applier) count(kind string) { a.c.metrics.decisions.WithLabelValues(kind).Inc() }

// OpenRollout implements plan.Applier, as do all methods below.
func (a applier) OpenRollout(e event.RolloutOpened) error {
	a.count("open")
	a.log().Info("rollout opened", "rollout", e.Rollout, "manifest", e.Manifest.Short(), "reason", e.Reason)
	return nil
}

func (a applier) QueueRollout(e event.RolloutQueued) error {
	a.count("queue")
	a.log().Info("rollout queued", "channel", e.Channel, "rollout", e.TargetRef, "reason", e.Reason)
	return nil
}

func (a applier) DeferRollout(e event.RolloutDeferred) error {
	a.count("defer")
	a.log().Info("rollout deferred", "channel", e.Channel, "rollout", e.TargetRef, "by", e.BlockedBy, "reason", e.Reason)
	return nil
}

func (a applier) MoveRollout(e event.RolloutMoved) error {
	a.count("move")
	a.log().Info("rollout moved", "rollout", e.Rollout, "from", e.From, "to", e.To, "reason", e.Reason)
	return nil
}

func (a applier) RevertRollout(e event.RolloutReverting) error {
	a.count("revert")
	a.log().Warn("rollout is being reverted", "rollout", e.Rollout, "wave", e.Wave, "reason", e.Reason)
	return nil
}

func (a applier) PromoteWave(e event.WavePromoted) error {
	a.count("promote")
	a.log().Info("wave promoted", "rollout", e.Rollout, "wave", e.Wave, "evidence", e.Evidence, "failed", e.Failed, "skipped", e.Skipped)
	return nil
}

func (a applier) ForceWave(e event.WaveForced) error {
	a.count("force")
	a.log().Warn("wave passed on a signed word", "rollout", e.Rollout, "wave", e.Wave, "held", e.Held, "actor", e.Actor, "reason", e.Reason)
	return nil
}

func (a applier) BreakGlass(e event.GlassBroken) error {
	a.count("break-glass")
	a.log().Warn("every wave is open", "rollout", e.Rollout, "actor", e.Actor, "reason", e.Reason)
	return nil
}

func (a applier) HoldWave(e event.WaveHeld) error {
	a.count("hold")
	a.log().Debug("wave held", "rollout", e.Rollout, "wave", e.Wave, "reason", e.Reason)
	return nil
}

func (a applier) Grant(host string, e event.Granted) error {
	a.count("grant")
	a.log().Debug("granted", "host", host, "grant", e.Grant, "rollout", e.Rollout, "purpose", e.Purpose, "reason", e.Reason)
	return nil
}

func (a applier) EndGrant(host string, e event.GrantEnded) error {
	a.count("end-grant")
	a.log().Info("grant ended", "host", host, "grant", e.Grant, "reason", e.Reason)
	return nil
}

func (a applier) FailSilent(host string, e event.HostFailedSilently) error {
	a.count("fail-silent")
	a.log().Warn("a host in flight went silent", "host", host, "rollout", e.Rollout, "grant", e.Grant)
	return nil
}

func (a applier) FreeSlot(host string, e event.HostSlotFreed) error {
	a.count("free-slot")
	a.log().Info("the slot of a decommissioned host is free", "host", host, "grant", e.Grant)
	return nil
}

func (a applier) Unfreeze(host string, e event.HostUnfrozen) error {
	a.count("unfreeze")
	a.log().Info("host unfrozen", "host", host, "reason", e.Reason)
	return nil
}

func (a applier) AddQuarantine(e event.QuarantineAdded) error {
	a.count("quarantine")
	a.log().Warn("bundle quarantined", "channel", e.Channel, "bundle", e.Digest.Short(), "reason", e.Reason)
	return nil
}
