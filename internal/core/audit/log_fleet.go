package audit

import (
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/oracle"
)

// fleetEvent checks what people and releases decide: somebody answers for it.
func (l *Log) fleetEvent(e event.Entry, ev event.Event) {
	switch ev := ev.(type) {
	case event.OverrideAccepted:
		l.override(ev)
	case event.ComplianceEvaluated:
		for _, f := range ev.Failures {
			l.must(f.Control != "" && len(f.Hosts) > 0, "S28", "a control of %s fails and does not say where", ev.Rollout)
		}
	case event.QuarantineAdded:
		l.must(ev.Reason != "", "S28", "a quarantine without a reason")
	case event.QuarantineCleared:
		l.must(ev.Actor != "", "S17", "a quarantine cleared by nobody")
		l.must(!l.InForce(fleet.OverrideQuarantine, ev.Channel, "", ev.Digest, ""), "S17", "a signed quarantine of %s on %s cleared without a signature", ev.Digest.Short(), ev.Channel)
	case event.HostRevoked:
		l.must(ev.Reason != "" && ev.Actor != "", "S28", "host %s was revoked by nobody, or without a reason", e.Host())
	case event.HostDecommissioned:
		l.must(ev.Reason != "" && ev.Actor != "", "S28", "host %s was decommissioned by nobody, or without a reason", e.Host())
	case event.HostFrozen:
		l.must(ev.Actor != "" && ev.Reason != "", "S18", "host %s frozen by nobody, or without a reason", e.Host())
		l.must(ev.Until > e.At, "S18", "host %s frozen until %s at %s", e.Host(), ev.Until, e.At)
	case event.HostUnfrozen:
		until := l.Host(e.Host()).Frozen
		l.must(ev.Reason != "", "S28", "host %s unfrozen without a reason", e.Host())
		l.must(until != 0 && (ev.Actor != "" || until.Reached(e.At)), "S18", "host %s unfrozen by nobody before %s", e.Host(), until)
	case event.ManagedSet:
		l.managed(e, ev.Actor)
	case event.ManagedRemoved:
		l.managed(e, ev.Actor)
	case event.ManagedRequested:
		l.managed(e, ev.Actor)
	case event.HostTuned:
		l.managed(e, ev.Actor)
	case event.HostRetried:
		l.managed(e, ev.Actor)
	case event.StreamOpened:
		l.managed(e, ev.Actor)
	case event.LogCheckpoint:
		l.must(ev.Through < l.seq && ev.Through > l.checkpoint && ev.State != "" && ev.Audit != "", "S33", "a checkpoint of record %d after one of %d", ev.Through, l.checkpoint)
		l.checkpoint = ev.Through
	case event.ResourceRecorded:
		l.must(ev.Subject().Name != "" && len(ev.Write) > 0, "S25", "rows of no session were recorded, or none")
	case event.ServerResumed:
		l.must(ev.Reason != "", "S28", "the server resumed without a reason")
	case event.SafeModeEnded:
		l.must(ev.Actor != "" && ev.Reason != "", "S28", "safe mode was ended by nobody, or without a reason")
	}
}

// managed checks what the server did without a signature.
func (l *Log) managed(e event.Entry, actor string) {
	l.must(actor != "" && e.Host() != "", "S17", "%s of host %q by nobody", e.Type, e.Host())
}

// override checks what an operator signed as it is accepted.
func (l *Log) override(o event.OverrideAccepted) {
	l.must(o.Actor != "" && o.Envelope != "" && o.Digest != "", "S18", "override %s was accepted of nobody, or without what was signed", o.ID)
	l.must(o.Epoch == l.Epoch, "S5", "override %s of epoch %d was accepted in epoch %d", o.ID, o.Epoch, l.Epoch)
	for i := range l.Overrides {
		w := &l.Overrides[i]
		l.must(w.Digest != o.Digest, "S18", "override %s was accepted twice", o.ID)
		l.must(!oracle.SameTopic(&w.Override, &o.Override) || w.Version <= o.Version, "S18", "override %s was accepted after the later %s", o.ID, w.ID)
	}
}
