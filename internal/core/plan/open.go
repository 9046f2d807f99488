package plan

import (
	"slices"
	"strconv"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// pending returns the manifest that the channel should open next, or nil.
func (c *Channel) pending() *fleet.ManifestRef {
	if len(c.Manifests) == 0 || c.Manifests[0].Digest == c.Latest {
		return nil
	}
	return &c.Manifests[0]
}

// open starts the rollout of a new ref, queues it or says what holds it.
func (p *planner) open(c *Channel) {
	ref := c.pending()
	if ref == nil || p.err != nil {
		return
	}
	cur := p.s.Rollouts[c.Active]
	switch b := gate.First(p.s.openFacts(c, p.now), gate.ToOpen, gate.AtOffer); {
	case b == nil:
	case b.Code == gate.Queue:
		p.queue(c, ref, cur)
		return
	default:
		ev := event.RolloutDeferred{Channel: c.Name, TargetRef: ref.Rollout, BlockedBy: b.Detail, Reason: b.Message}
		if c.Deferral != ev.TargetRef+" "+ev.BlockedBy+" "+ev.Reason {
			p.add("", ev)
		}
		return
	}
	if cur != nil && cur.Phase != rollout.Superseded && !cur.Final {
		p.move(cur, rollout.Superseded, ref.Rollout+" replaces it")
		p.endOffers(cur, "superseded by "+ref.Rollout)
	}
	p.add("", event.RolloutOpened{Rollout: ref.Rollout, Channel: c.Name, Ref: ref.Rollout[len(c.Name)+1:], Manifest: ref.Digest,
		Reason: "release " + strconv.FormatUint(p.s.Release.Version, 10) + " brought it"})
	if r := p.s.Rollouts[ref.Digest]; r != nil && p.err == nil {
		p.begin(r)
	}
}

// keeps reports whether the channel's rollout goes on although a ref waits. One that has
// granted nobody gives way at once, whatever the channel says. One
// that required controls block takes nobody's place: it would only end as failed. What
// was signed in a key epoch that has ended gives way to what was signed since: hosts
// refuse the rest of it, and it might never end. The same goes for one that hosts left for
// a rollout which the log lacks: see overtaken.
func (s *State) keeps(c *Channel, cur *rollout.Rollout, ref *fleet.ManifestRef) bool {
	if cur == nil || cur.Phase.Ended() && !cur.Reverting {
		return false
	}
	ended := s.outdated(cur) && s.Release.Epoch >= s.Root.Epoch
	return c.OnNewRef != fleet.Supersede && !ended && cur.Granted && !s.overtaken(cur) || cur.Reverting || s.controls(ref.Rollout, ref.Digest) != nil
}

func (p *planner) queue(c *Channel, ref *fleet.ManifestRef, cur *rollout.Rollout) {
	if c.Queued == ref.Digest {
		return
	}
	ev := event.RolloutQueued{Channel: c.Name, TargetRef: ref.Rollout, Manifest: ref.Digest,
		Reason: "rollout " + cur.Name + " is " + string(cur.Phase)}
	if c.Queued != "" {
		ev.Dropped = c.Queued.Short()
		if i := slices.IndexFunc(c.Manifests, func(m fleet.ManifestRef) bool { return m.Digest == c.Queued }); i >= 0 {
			ev.DroppedRollout = c.Manifests[i].Rollout
		}
	}
	p.add("", ev)
}

// nobodyThere reports whether no host of a rollout is enrolled: nobody waits for it.
func nobodyThere(r *rollout.Rollout) bool {
	return r.Plan != nil && !r.Granted && len(r.Members) > 0 && r.Total().Present() == 0
}

// predecessors lists the channels that must be at rest before one may open, with
// when time can bring them there if now is given.
func (s *State) predecessors(channel string, now clock.Instant) []gate.Predecessor {
	var before []gate.Predecessor
	for _, e := range s.Edges {
		if e.Gated != channel {
			continue
		}
		pre := gate.Predecessor{Channel: e.Gates, Reason: e.Reason}
		if c := s.Channels[e.Gates]; c != nil {
			// A reverted one holds like a halted one: what it led failed.
			if r := s.Rollouts[c.Latest]; r != nil && !r.Final && !nobodyThere(r) && (!r.Phase.Ended() || r.Phase == rollout.Failed || r.Phase == rollout.Reverted) {
				pre.Rollout, pre.Phase = r.Name, string(r.Phase)
				pre.Halted, pre.Reverted = r.Phase == rollout.Failed, r.Phase == rollout.Reverted
				if now != 0 {
					pre.Earliest = latest(Blocks(WaveGates(s, r, now)))
				}
			} else if ref := c.pending(); ref != nil {
				pre.Rollout, pre.Phase = ref.Rollout, "about to open"
			}
		}
		before = append(before, pre)
	}
	return before
}
