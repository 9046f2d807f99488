package plan

import (
	"fmt"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

func (s *State) foldChannel(ev event.Event) error {
	of := func(name string, fold func(*Channel)) error {
		c := s.Channels[name]
		if c == nil {
			return fmt.Errorf("%s names channel %q, which no release has", ev.EventType(), name)
		}
		fold(c)
		return nil
	}
	switch ev := ev.(type) {
	case event.QuarantineAdded:
		return of(ev.Channel, func(c *Channel) {
			c.Quarantine[ev.Digest] = ev.Reason
			s.dirty[c.Name] = true
		})
	case event.QuarantineCleared:
		return of(ev.Channel, func(c *Channel) {
			delete(c.Quarantine, ev.Digest)
			s.acknowledge(c)
			s.dirty[c.Name], s.repairsDirty = true, true
		})
	case event.RolloutQueued:
		return of(ev.Channel, func(c *Channel) { c.Queued = ev.Manifest })
	case event.RolloutDeferred:
		return of(ev.Channel, func(c *Channel) { c.Deferral = ev.TargetRef + " " + ev.BlockedBy + " " + ev.Reason })
	}
	return nil
}

// acknowledge has the failures so far of hosts that returned to ended rollouts
// count no more, or what an operator cleared would be quarantined again at once.
func (s *State) acknowledge(c *Channel) {
	for _, d := range []digest.Digest{c.Latest, c.Converged} {
		r := s.Rollouts[d]
		if r == nil || r.Phase != rollout.Terminal || len(r.Acknowledged) != len(r.Waves) {
			continue
		}
		for w := range r.Waves {
			r.Acknowledged[w] = r.Waves[w].Failures
		}
	}
}

func (s *State) foldOpened(at clock.Instant, ev event.RolloutOpened) error {
	c := s.Channels[ev.Channel]
	if c == nil {
		return fmt.Errorf("%s names channel %q, which no release has", ev.EventType(), ev.Channel)
	}
	r := &rollout.Rollout{Name: ev.Rollout, Channel: ev.Channel, Ref: ev.Ref, Manifest: ev.Manifest,
		Phase: rollout.Opening, Reason: ev.Reason, OpenedAt: at}
	if t := s.Overrides.Paused(r.Manifest); t != nil {
		r.Paused, r.PauseReason = true, t.Message()
	}
	r.Place = len(s.Order)
	s.Rollouts[ev.Manifest], s.names[r.Name] = r, ev.Manifest
	s.Order = append(s.Order, ev.Manifest)
	was := s.Rollouts[c.Latest]
	c.Active, c.Latest, c.Queued, c.Deferral = ev.Manifest, ev.Manifest, "", ""
	if err := s.attach(r); err != nil {
		return err
	}
	if last := s.Rollouts[c.Converged]; was != nil && was.Reverting && last != nil && last != was {
		s.setMembers(last) // hosts that the reverted rollout did not fetch back are its own again
	}
	s.refreshOn(r.Manifest) // a log that was restored may open what hosts run already: they are ahead of others
	s.rebudget()
	if was != nil && was.Reverting {
		s.refreshOn(was.Manifest)
	}
	return nil
}

// refreshOn brings up to date the hosts that are on a manifest, also those that say so of one
// which is not of their channel: others place them by it.
func (s *State) refreshOn(d digest.Digest) {
	for _, h := range s.Hosts { // order-free: each is brought up to date by itself
		if h.Machine.Manifest == d {
			s.refresh(h)
		}
	}
}

func (s *State) foldRollout(at clock.Instant, ev event.OfRollout) error {
	name, d := ev.Of()
	if d == "" {
		d = s.names[name]
	}
	r := s.Rollouts[d]
	if r == nil {
		return fmt.Errorf("%s names rollout %q, which never opened", ev.EventType(), name)
	}
	s.dirty[r.Channel] = true
	switch ev := ev.(type) {
	case event.RolloutMoved:
		return s.foldMoved(at, r, ev)
	case event.RolloutReverting:
		r.Reverting, r.Reason = true, ev.Reason
		r.Ordered = r.Ordered || ev.Override != ""
		if r.Plan != nil {
			s.setMembers(r)
		}
		s.refreshOn(r.Manifest)
	case event.RolloutPaused:
		r.Paused, r.PauseReason = true, ev.Reason
	case event.RolloutResumed:
		r.Paused, r.PauseReason = false, ""
		if r.Phase == rollout.Failed { // a pause excuses nothing
			for w := range r.Waves {
				r.Acknowledged[w] = r.Waves[w].Failures
			}
		}
	case event.RolloutRetried:
		s.foldRetried(r, at, ev)
	case event.RolloutCancelled:
		r.Final, r.Reason = true, "cancelled: "+ev.Reason
		if c := s.Channels[r.Channel]; c.Active == r.Manifest {
			c.Active = ""
		}
		s.MarkAll()
	case event.WavePromoted:
		r.Promoted(ev, at)
	case event.WaveForced:
		s.foldForced(r, ev)
	case event.BreakGlassUsed:
		r.SetBlocked("", at)
		r.Cursor, r.BreakGlass = max(r.Cursor, ev.Wave), "opened by "+ev.Actor+": "+ev.Reason
	case event.WaveBlocked:
		r.SetBlocked(ev.Code, at)
	}
	return nil
}

func (s *State) foldMoved(at clock.Instant, r *rollout.Rollout, ev event.RolloutMoved) error {
	to := rollout.Phase(ev.To)
	if !rollout.Legal(r.Phase, to) {
		return fmt.Errorf("rollout %s cannot go from %s to %s", r.Name, r.Phase, to)
	}
	c := s.Channels[r.Channel]
	r.Phase, r.Reason = to, ev.Reason
	r.Final = r.Final || (to == rollout.Failed && ev.Final)
	if to.Ended() {
		r.EndedAt = at
	} else {
		r.EndedAt = 0
	}
	switch to {
	case rollout.Active:
		c.Active = r.Manifest
	case rollout.Failed:
		if r.Final {
			c.Active = ""
		}
	case rollout.Terminal:
		c.Converged, c.Active = r.Manifest, ""
		s.rebudget()
	case rollout.Reverted, rollout.Superseded:
		if c.Active == r.Manifest {
			c.Active = ""
		}
	case rollout.Pruned:
		delete(s.Rollouts, r.Manifest)
	}
	s.MarkAll() // channel edges look at other channels
	s.repairsDirty = true
	return nil
}
