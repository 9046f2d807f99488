package plan

import (
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// Override takes an operator's signed override, which the caller has verified. It
// acts as the verb that it names and goes on to do so for rollouts that open
// later. One that is in force already returns no entries and no error.
func Override(s *State, t gate.AcceptedOverride, actor string, now clock.Instant) ([]event.Entry, error) {
	switch s.Overrides.Check(t) {
	case gate.OverrideKnown:
		return nil, nil
	case gate.OverrideOlder:
		n, _ := s.Overrides.Successor(t)
		return nil, verbErrorf("override %s was signed at %s, and %s at %s replaces it; sign a new one", t.ID, t.IssuedAt, n.ID, n.IssuedAt)
	case gate.OverrideFull:
		return nil, verbErrorf("%d overrides are in force, which is the most; a root with a new key epoch ends them", gate.MaxOverrides)
	}
	if n := s.Overrides.EndedBy(&t); n != nil {
		return nil, verbErrorf("override %s was signed at %s, and the retry %s at %s ends it; sign a new one", t.ID, t.IssuedAt, n.ID, n.IssuedAt)
	}
	if t.Epoch != s.Root.Epoch {
		return nil, verbErrorf("override %s is of key epoch %d, the fleet is at %d; sign it again", t.ID, t.Epoch, s.Root.Epoch)
	}
	d := &decider{s: s, now: now}
	r := s.Rollouts[t.Manifest]
	if err := d.mayOverride(r, &t); err != nil {
		return nil, err
	}
	d.add("", event.OverrideAccepted{Override: t.Override, Digest: t.Digest, Envelope: t.Envelope, Actor: actor})
	d.applyOverride(r, &t, bySignature(actor, &t))
	return d.entries, d.err
}

// bySignature names who answers for what a signed override does.
func bySignature(actor string, t *gate.AcceptedOverride) string {
	return strings.TrimSpace(actor + " with override " + t.ID)
}

// CarriesOut reports whether an actor is a signed override alone, which the planner
// carries out by itself when what it is about opens later.
func CarriesOut(actor string) bool { return strings.HasPrefix(actor, "with override ") }

// mayOverride refuses what cannot come about any more. Nothing is known of a
// rollout that has not opened, or whose log is gone: then it is taken.
func (d *decider) mayOverride(r *rollout.Rollout, t *gate.AcceptedOverride) error {
	if r == nil {
		return d.s.mayRemove(t)
	}
	if r.Channel != t.Channel {
		return verbErrorf("override %s is for channel %s, its manifest is of channel %s", t.ID, t.Channel, r.Channel)
	}
	latest := d.s.Channels[r.Channel].Latest == r.Manifest
	switch t.Action {
	case fleet.OverrideResume:
		if !r.Paused && r.Phase != rollout.Failed && !r.Reverting {
			return nil // it still stands against an older pause
		}
		return d.s.mayResume(r)
	case fleet.OverrideRetry:
		if n := d.s.Overrides.StopsAfter(t); n != nil {
			return verbErrorf("override %s was signed at %s, and %s at %s stops the rollout since; sign a new one", t.ID, t.IssuedAt, n.ID, n.IssuedAt)
		}
		if r.Plan != nil && latest && !d.s.mayStartAgain(r) {
			return nil // it still stands against an older pause, cancel or rollback
		}
		return d.s.mayRetry(r)
	case fleet.OverrideCancel:
		if r.Phase == rollout.Terminal || r.Phase == rollout.Superseded || r.Phase == rollout.Pruned {
			return verbErrorf("rollout %s is %s; there is nothing to cancel", r.Name, Status(r))
		}
	case fleet.OverrideRollback:
		return d.s.mayRollBack(r)
	}
	return d.mayLoosen(r, t)
}

// mayLoosen refuses a word that opens waves which it does not find.
func (d *decider) mayLoosen(r *rollout.Rollout, t *gate.AcceptedOverride) error {
	switch t.Action {
	case fleet.OverridePromote:
		return d.s.mayPromote(r, t.Wave, d.now)
	case fleet.OverrideBreakGlass:
		if r.Phase.Ended() && (r.Phase != rollout.Failed || r.Final) || r.Reverting || r.Plan == nil {
			return verbErrorf("rollout %s is %s; only one that goes on has waves to open", r.Name, Status(r))
		}
		if _, most := r.Canaries(0, d.now); most == 0 && r.Cursor >= len(r.Waves)-1 {
			return verbErrorf("every wave of %s is open", r.Name)
		}
	}
	return nil
}

// applyOverride does at once what the accepted override asks for.
func (d *decider) applyOverride(r *rollout.Rollout, t *gate.AcceptedOverride, actor string) {
	switch t.Action {
	case fleet.OverridePause:
		if r != nil && !r.Phase.Ended() && !r.Reverting {
			d.add("", event.RolloutPaused{Rollout: r.Name, Manifest: r.Manifest, Reason: t.Reason, Actor: actor})
		}
	case fleet.OverrideResume:
		if r != nil && (r.Paused || r.Phase == rollout.Failed) {
			d.resume(r, t.Reason, actor)
		}
	case fleet.OverrideCancel:
		if r != nil && !r.Final {
			d.cancel(r, t.Reason, actor)
		}
	case fleet.OverrideRollback:
		if r != nil && !r.Reverting {
			d.withdraw("rollout "+r.Name+" is rolled back", func(h *Host) bool { return h.Grant.Purpose == host.Update && h.Grant.Manifest == r.Manifest })
			d.add("", rollbackOf(r, t, actor))
		}
	case fleet.OverrideRetry:
		d.retrySigned(r, t, actor)
	case fleet.OverridePromote:
		if r != nil {
			d.force(r, d.s.forcing(r, t.Reason, actor, t.Digest, d.now))
		}
	case fleet.OverrideBreakGlass:
		if r != nil {
			d.add("", breakGlassOf(r, t, actor))
		}
	case fleet.OverrideQuarantine:
		d.withdraw("bundle "+t.Bundle.Short()+" is quarantined", func(h *Host) bool {
			return h.Grant.Target == t.Bundle && d.s.grantedOn(h, t.Channel) && (t.Host == "" || t.Host == h.Name)
		})
	case fleet.OverrideRemove:
		d.withdraw("host "+t.Host+" is removed from the fleet", func(h *Host) bool { return h.Name == t.Host })
	case fleet.OverrideUnquarantine:
		if c := d.s.Channels[t.Channel]; c != nil && t.Host == "" && c.Quarantine[t.Bundle] != "" {
			d.add("", event.QuarantineCleared{Channel: t.Channel, Digest: t.Bundle, Reason: t.Reason, Actor: actor})
		}
	case fleet.OverrideFreeze:
		d.withdraw("channel "+t.Channel+" is frozen", func(h *Host) bool { return h.Grant.Purpose == host.Update && d.s.grantedOn(h, t.Channel) })
	}
}

// grantedOn reports whether a host's grant is of a rollout of a channel.
func (s *State) grantedOn(h *Host, channel string) bool {
	r := s.Rollouts[h.Grant.Manifest]
	return r != nil && r.Channel == channel
}

func rollbackOf(r *rollout.Rollout, t *gate.AcceptedOverride, actor string) event.RolloutReverting {
	return event.RolloutReverting{Rollout: r.Name, Manifest: r.Manifest, Wave: r.Cursor, Reason: "rolled back: " + t.Reason,
		Override: t.Digest, Actor: actor}
}

func breakGlassOf(r *rollout.Rollout, t *gate.AcceptedOverride, actor string) event.BreakGlassUsed {
	return event.BreakGlassUsed{Rollout: r.Name, Manifest: r.Manifest, Wave: len(r.Plan.Header.Waves) - 1, Override: t.Digest, Reason: t.Reason, Actor: actor}
}

// begin starts an opened rollout, unless a signed override ended it before.
func (p *planner) begin(r *rollout.Rollout) {
	if t := p.s.Overrides.Cancelled(r.Manifest); t != nil {
		p.add("", event.RolloutMoved{Rollout: r.Name, Manifest: r.Manifest, From: string(r.Phase), To: string(rollout.Failed),
			Reason: "cancelled: " + t.Reason, Actor: bySignature("", t), Final: true})
	} else if b := p.s.controls(r.Name, r.Manifest); b != nil {
		p.move(r, rollout.Failed, b.Message)
	} else {
		p.move(r, rollout.Active, prose.Count(len(r.Members), "host")+" in "+prose.Count(len(r.Waves), "wave"))
	}
	if t := p.s.Overrides.BreakGlass(r.Manifest); t != nil && !r.Phase.Ended() {
		p.add("", breakGlassOf(r, t, bySignature("", t)))
	}
	if t := p.s.Overrides.RolledBack(r.Manifest); t != nil {
		p.add("", rollbackOf(r, t, bySignature("", t)))
	}
}

func (s *State) foldOverride(ev event.OverrideAccepted) {
	t := gate.AcceptedOverride{Override: ev.Override, Digest: ev.Digest, Envelope: ev.Envelope}
	if s.Overrides.Accept(t) != gate.OverrideNew {
		return
	}
	s.Signed++
	s.repairsDirty = true
	s.MarkAll()
	s.foldRemoval(&t)
	r := s.Rollouts[t.Manifest]
	if r == nil {
		return
	}
	switch t.Action {
	case fleet.OverridePause: // of one that ended too: it gives no more to hosts that return
		r.Paused, r.PauseReason = true, t.Message()
	case fleet.OverrideRollback:
		if r.Reverting {
			r.Ordered = true
			if r.Plan != nil {
				s.setMembers(r)
			}
		}
	}
}

// endOverrides forgets the signed words of earlier key epochs. Pauses, cancels and
// quarantines stay as if a token had asked for them.
func (s *State) endOverrides(epoch uint64) {
	for _, t := range s.Overrides.List() {
		c := s.Channels[t.Channel]
		if t.Epoch < epoch && t.Action == fleet.OverrideQuarantine && t.Host == "" && c != nil && c.Quarantine[t.Bundle] == "" {
			c.Quarantine[t.Bundle] = t.Message()
		}
	}
	for _, name := range s.HostNames() {
		if h := s.Hosts[name]; h.Leaving != nil && !h.Leaving.Reported && h.Leaving.Epoch < epoch {
			h.Leaving = nil
			s.refresh(h)
			s.markHost(h)
		}
	}
	if s.Overrides.End(epoch) {
		s.Signed++
		s.MarkAll()
	}
}

// quarantined says why a bundle is not granted to a host on a channel, or is
// empty.
func (s *State) quarantined(c *Channel, bundle digest.Digest, hostName string) string {
	if why := c.Quarantine[bundle]; why != "" {
		return why
	}
	if t := s.Overrides.Quarantined(c.Name, bundle, hostName); t != nil {
		return t.Message()
	}
	return ""
}

// signedQuarantine finds the signed quarantine of a bundle by its digest or the
// first digits of it.
func (s *State) signedQuarantine(channel, bundle string) *gate.AcceptedOverride {
	for _, t := range s.Overrides.List() {
		if t.Action == fleet.OverrideQuarantine && t.Channel == channel && (string(t.Bundle) == bundle || t.Bundle.Short() == bundle) {
			return &t
		}
	}
	return nil
}

func needsSignature(what string, t *gate.AcceptedOverride, next string) error {
	return verbErrorf("%s is blocked by an override: %s; a token cannot loosen what was signed: %s", what, t.Message(), next)
}
