package plan

import (
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// AddQuarantine refuses a bundle on a channel on an operator's word, and takes
// back what was offered of it. Bundle is a digest, or the short form of one that
// a rollout of the channel targets. Hosts that run it keep it.
func AddQuarantine(s *State, channel, bundle, reason, actor string, now clock.Instant) ([]event.Entry, error) {
	c := s.Channels[channel]
	if c == nil {
		return nil, unknownErrorf("there is no channel %q; steady status shows them", channel)
	}
	target, ok := s.bundleOf(c, bundle)
	if !ok {
		return nil, verbErrorf("no rollout of channel %s that is known targets bundle %s; give its whole digest, sha256:…", channel, bundle)
	}
	if was, there := c.Quarantine[target]; there {
		return nil, verbErrorf("bundle %s is quarantined on channel %s already: %s", target.Short(), channel, was)
	}
	d := &decider{s: s, now: now}
	d.add("", event.QuarantineAdded{Channel: channel, Digest: target, Reason: reason, Actor: actor})
	for _, name := range s.HostNames() {
		g := s.Hosts[name].Grant
		if g == nil || g.Claimed || g.Purpose == host.Back || g.Target != target {
			continue
		}
		if r := s.Rollouts[g.Manifest]; r != nil && r.Channel == channel {
			d.add(name, event.GrantEnded{Grant: g.ID, Reason: "bundle " + target.Short() + " was quarantined: " + reason})
		}
	}
	return d.entries, d.err
}

// bundleOf reads a bundle's whole digest, or finds its short form among the
// targets of the channel's rollouts, that to come included.
func (s *State) bundleOf(c *Channel, bundle string) (digest.Digest, bool) {
	if d, err := digest.Parse(bundle); err == nil {
		return d, true
	}
	plans := make([]*rollout.Manifest, 0, 3)
	for _, r := range s.live(c) {
		plans = append(plans, r.Plan)
	}
	if ref := c.pending(); ref != nil {
		if m, err := s.docs.Manifest(ref.Digest); err == nil { // the planner reports it when it opens the rollout
			plans = append(plans, m)
		}
	}
	for _, m := range plans {
		for i := range m.Leaves {
			if d := m.Leaves[i].Target; d.Short() == bundle {
				return d, true
			}
		}
	}
	return "", false
}
