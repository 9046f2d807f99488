package control

import (
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/drift"
)

// nodeCounts is what the log says of nodes, in numbers.
type nodeCounts struct {
	presence, legs, episodes map[string]int
	oldest                   map[string]clock.Instant // open episode, by kind
}

func countNodes(s *drift.State) *nodeCounts {
	c := &nodeCounts{
		presence: map[string]int{"online": 0, "paused": 0, "offline": 0, "retired": 0, "never-registered": 0},
		legs:     map[string]int{string(drift.Pending): 0, string(drift.Pushing): 0, string(drift.Pushed): 0, string(drift.Failed): 0, "in-bin": 0},
		episodes: map[string]int{drift.Extraneous: 0, drift.Missing: 0, drift.Mismatched: 0},
		oldest:   map[string]clock.Instant{},
	}
	for _, n := range s.Nodes { // order-free: it only counts
		c.presence[nodePresence(n)]++
		for _, e := range n.Episodes { // order-free: it only counts
			c.episodes[e.Drift]++
			c.oldest[e.Drift] = clock.Earliest(c.oldest[e.Drift], e.OpenedAt)
		}
	}
	for _, o := range s.Objects { // order-free: it only counts
		for _, l := range o.Legs { // order-free: it only counts
			switch {
			case l.Gone:
			case l.BinnedUntil != 0:
				c.legs["in-bin"]++
			default:
				c.legs[string(l.Status)]++
			}
		}
	}
	return c
}

func nodePresence(n *drift.Node) string {
	switch {
	case n.RetiredAt != 0:
		return "retired"
	case n.RegisteredAt == 0:
		return "never-registered"
	case !n.Online:
		return "offline"
	case n.Paused != nil:
		return "paused"
	}
	return "online"
}
