package plan

import (
	"maps"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// Opening is a rollout that opens once another one is cancelled, with those of its bundles
// that failed elsewhere.
type Opening struct {
	Rollout string      `json:"rollout"`
	Channel string      `json:"channel"`
	Failed  []Elsewhere `json:"failed,omitempty"`
}

// Elsewhere is a bundle that is quarantined on another channel than the one whose hosts
// would be given it.
type Elsewhere struct {
	Given
	// On is the channel on which it is quarantined, and Reason why.
	On     string `json:"on"`
	Reason string `json:"reason"`
}

// AfterCancel lists the rollouts that open once a rollout is cancelled, by channel. It is empty
// where there is nothing to cancel.
func AfterCancel(s *State, r *rollout.Rollout, now clock.Instant) (out []Opening) {
	if r.Final || r.Phase.Ended() && r.Phase != rollout.Failed && r.Phase != rollout.Reverted {
		return nil
	}
	cancelled, then := *r, *s
	cancelled.Final = true
	if !r.Phase.Ended() {
		cancelled.Phase = rollout.Failed
	}
	then.Rollouts = maps.Clone(s.Rollouts)
	then.Rollouts[r.Manifest] = &cancelled
	for _, name := range s.ChannelNames() {
		c := s.Channels[name]
		ref := c.pending()
		if ref == nil || gate.First(s.openFacts(c, now), gate.ToOpen, gate.AtOffer) == nil ||
			gate.First(then.openFacts(c, now), gate.ToOpen, gate.AtOffer) != nil {
			continue
		}
		o := Opening{Rollout: ref.Rollout, Channel: name}
		if m, err := s.docs.Manifest(ref.Digest); err == nil { // the planner reports it when it opens the rollout
			o.Failed = s.failedElsewhere(c, m)
		}
		out = append(out, o)
	}
	return out
}

// failedElsewhere lists the bundles of a manifest that other channels quarantined and its
// own did not.
func (s *State) failedElsewhere(c *Channel, m *rollout.Manifest) (out []Elsewhere) {
	at := map[digest.Digest]int{}
	for i := range m.Leaves {
		leaf := &m.Leaves[i]
		k, known := at[leaf.Target]
		if !known {
			k = -1
			if on, why := s.quarantinedBeside(c, leaf.Target); on != "" {
				k = len(out)
				out = append(out, Elsewhere{Given{Channel: c.Name, Bundle: leaf.Target}, on, why})
			}
			at[leaf.Target] = k
		}
		if k >= 0 {
			out[k].Hosts = append(out[k].Hosts, leaf.Host)
		}
	}
	return out
}

// quarantinedBeside returns another channel that quarantined a bundle which this one allows.
func (s *State) quarantinedBeside(c *Channel, bundle digest.Digest) (on, why string) {
	if s.quarantined(c, bundle, "") != "" {
		return "", ""
	}
	for _, name := range s.ChannelNames() {
		if why := s.quarantined(s.Channels[name], bundle, ""); why != "" {
			return name, why
		}
	}
	return "", ""
}
