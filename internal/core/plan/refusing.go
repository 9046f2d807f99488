package plan

import (
	"cmp"
	"slices"

	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/fleet"
	"github.com/steadyfleet/steady/internal/core/gate"
	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/core/rollout"
)

// Given are the hosts of a channel that a release would give a bundle.
type Given struct {
	Channel string        `json:"channel"`
	Bundle  digest.Digest `json:"bundle"`
	Hosts   []string      `json:"hosts"`
}

// Refusing is why hosts would not run a bundle that a release gives them, and what has
// them run it all the same.
type Refusing struct {
	Given
	Reason string `json:"reason"`
	Next   string `json:"next"`
}

// Foresee reports for a release that is not pushed yet which hosts would not run what it gives
// them: the bundle is quarantined on the channel, or the hosts went back from it and
// quarantined it themselves. Answers are in the order of what is given.
func Foresee(s *State, given []Given) (out []Refusing) {
	for _, g := range given {
		c := s.Channels[g.Channel]
		if c == nil {
			continue
		}
		if why := s.quarantined(c, g.Bundle, ""); why != "" {
			next := "steady quarantine clear " + c.Name + " " + g.Bundle.Short() + " --reason R"
			if c.Quarantine[g.Bundle] == "" {
				next += " --sign KEYS"
			}
			out = append(out, Refusing{g, "it is quarantined on the channel: " + why, next})
			continue
		}
		for _, host := range g.Hosts {
			why := s.refusesBundle(c, host, g.Bundle)
			if why == "" {
				continue
			}
			i := slices.IndexFunc(out, func(r Refusing) bool {
				return r.Channel == g.Channel && r.Bundle == g.Bundle && r.Reason == why
			})
			if i < 0 {
				one := Given{Channel: g.Channel, Bundle: g.Bundle, Hosts: []string{host}}
				next := "steady quarantine clear " + c.Name + " " + string(g.Bundle) + " --reason R --sign KEYS" // hosts obey it as well
				out = append(out, Refusing{one, why, next})
				continue
			}
			out[i].Hosts = append(out[i].Hosts, host)
		}
	}
	return out
}

// refusesBundle reports why a host does not run a bundle that its channel allows; empty where
// nothing is known.
func (s *State) refusesBundle(c *Channel, name string, bundle digest.Digest) string {
	if t := s.Overrides.Quarantined(c.Name, bundle, name); t != nil {
		return t.Message()
	}
	h := s.Hosts[name]
	if h == nil || h.Machine.Current == bundle {
		return ""
	}
	if t := s.rolledBack(name, bundle); t != nil {
		return sentBack(t)
	}
	m := &h.Machine
	if again := s.Overrides.Allowed(c.Name, bundle); again != nil && again.IssuedAt > m.RevertedAt {
		return ""
	}
	if r := s.Rollouts[m.Manifest]; m.Refuses() && m.Target == bundle && (r == nil || !r.RetrySigned) {
		return "the host went back from it in " + m.Rollout + " and quarantined it"
	}
	return ""
}

// rolledBack returns the signed rollback by which a host had to go back from a bundle, or
// nil: the host quarantined the bundle as it did, unless an operator allowed it since.
func (s *State) rolledBack(name string, bundle digest.Digest) *gate.AcceptedOverride {
	for _, t := range s.Overrides.List() {
		if t.Action != fleet.OverrideRollback || s.Overrides.RolledBack(t.Manifest) == nil {
			continue
		}
		if again := s.Overrides.Allowed(t.Channel, bundle); again != nil && again.IssuedAt > t.IssuedAt {
			continue
		}
		m, err := s.docs.Manifest(t.Manifest)
		if err != nil {
			continue // its log is gone, and its documents with it
		}
		if i, is := m.Leaf(name); is && m.Leaves[i].Target == bundle {
			return &t
		}
	}
	return nil
}

// sentBack words the rollback after which a host refuses a bundle.
func sentBack(t *gate.AcceptedOverride) string {
	name := cmp.Or(t.Rollout, fleet.RolloutName(t.Channel, t.Manifest.Short()))
	return "an operator had " + name + " rolled back (" + t.Message() + "), and the host quarantined the bundle as it went back"
}

// unproven reports why the failures of a wave revert no host: hosts refuse what they are
// given, or fell silent.
func (s *State) unproven(r *rollout.Rollout, w int) string {
	var refusing []string
	why, silent := "", ""
	for i := range r.Members {
		m, leaf := &r.Members[i], &r.Plan.Leaves[i]
		switch {
		case leaf.Wave != w:
		case m.Refused != "":
			if refusing = append(refusing, leaf.Host); len(refusing) == 1 {
				why = s.refusal(leaf.Host, leaf.Target, m.Refused)
			}
		case m.Failed && !m.Proven:
			silent = "silent hosts prove nothing to others, so none is sent back"
		}
	}
	if len(refusing) > 0 {
		why = prose.Names(refusing, 5) + prose.Verb(len(refusing), " refuses", " refuse") + " the bundle: " + why
	}
	return prose.Clauses(why, silent)
}

// refusal words why a host declined a bundle, which said so itself: by the override that is
// the cause, where one is.
func (s *State) refusal(host string, bundle digest.Digest, said string) string {
	if t := s.rolledBack(host, bundle); t != nil {
		return sentBack(t)
	}
	return said
}
