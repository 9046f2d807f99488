package plan

import (
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/core/host"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// MaxFreeze bounds how far ahead a freeze may end. One that is meant to last is
// the release's business.
const MaxFreeze = 90 * clock.Day

// frozenUntil is when the host's freeze ends; zero when there is none.
func (h *Host) frozenUntil() clock.Instant {
	if h.Freeze == nil {
		return 0
	}
	return h.Freeze.Until
}

func (s *State) foldFreeze(h *Host, ev event.Event) {
	switch ev := ev.(type) {
	case event.HostFrozen:
		h.Freeze = &ev
		s.wake(ev.Until, h.Name)
	case event.HostUnfrozen:
		h.Freeze = nil
	}
	s.repairsDirty = s.repairsDirty || h.Repair != nil
	s.markHost(h)
}

// Freeze keeps a host from every grant but one to go back until an instant, and
// takes back what it was offered. What it claimed it finishes.
func Freeze(s *State, name string, until clock.Instant, reason, actor string, now clock.Instant) ([]event.Entry, error) {
	h := s.Hosts[name]
	switch {
	case h == nil:
		return nil, unknownErrorf("there is no host %q; steady host list shows them", name)
	case until <= now:
		return nil, verbErrorf("a freeze of host %s until %s is over already; steady host unfreeze ends one", name, until)
	case until > now.Add(MaxFreeze):
		return nil, verbErrorf("a freeze ends within %s; to keep host %s out for longer, take it out of the release", MaxFreeze, name)
	}
	d := &decider{s: s, now: now}
	d.add(name, event.HostFrozen{Until: until, Reason: reason, Actor: actor})
	if h.offered() && h.Grant.Purpose != host.Rollback {
		d.endGrant(h, "host "+name+" was frozen: "+reason, 0)
	}
	return d.entries, d.err
}

// Unfreeze ends a host's freeze.
func Unfreeze(s *State, name, reason, actor string, now clock.Instant) ([]event.Entry, error) {
	h := s.Hosts[name]
	if h == nil || h.Freeze == nil {
		return nil, verbErrorf("host %s is not frozen", name)
	}
	return Record(s, name, now, event.HostUnfrozen{Reason: reason, Actor: actor})
}

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
	d.withdraw("bundle "+target.Short()+" was quarantined: "+reason, func(h *Host) bool { return h.Grant.Target == target && s.grantedOn(h, channel) })
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
