package server

import (
	"maps"
	"slices"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/drift"
	"github.com/steadyfleet/steady/internal/core/event"
)

// NodeSessions are the sessions of the nodes that the log has as online.
func (s *State) NodeSessions() map[string]uint64 {
	sessions := map[string]uint64{}
	for name, n := range s.Nodes.Nodes { // order-free: it fills a map
		if n.Online {
			sessions[name] = n.Session
		}
	}
	return sessions
}

// EndNodeSessions ends those of the sessions that go on, after a restart of the server, and
// folds that.
func EndNodeSessions(s *drift.State, sessions map[string]uint64, now clock.Instant) (out []event.OfNodes, err error) {
	for _, name := range slices.Sorted(maps.Keys(sessions)) {
		events, err := s.Step(drift.Disconnected{Node: name, Session: sessions[name], Reason: "the server was restarted"}, now)
		if err != nil {
			return nil, err
		}
		out = append(out, events...)
	}
	return out, nil
}

// NodeTotals is what the log says of nodes, in numbers.
type NodeTotals struct {
	Statuses, Legs, Episodes map[string]int
	// Oldest is since when the oldest episode of a kind is open.
	Oldest map[string]clock.Instant
	// Waiting is, by the status of its leg, when the oldest change was made that a node has not
	// acknowledged.
	Waiting map[string]clock.Instant
}

// InBin is what NodeTotals counts a leg as that is in the bin.
const InBin = "in-bin"

// NodeTotals counts.
func (s *State) NodeTotals() NodeTotals {
	t := NodeTotals{Statuses: map[string]int{}, Legs: map[string]int{InBin: 0}, Episodes: map[string]int{}, Oldest: map[string]clock.Instant{}, Waiting: map[string]clock.Instant{}}
	for _, status := range []drift.NodeStatus{drift.NodePaused, drift.NodeOffline, drift.NodeComparing, drift.NodeOnline, drift.NodeRetired, drift.NodeUnknown} {
		t.Statuses[string(status)] = 0
	}
	for _, status := range []drift.Status{drift.Pending, drift.Pushing, drift.Pushed, drift.Failed} {
		t.Legs[string(status)] = 0
	}
	for _, kind := range []string{drift.Extraneous, drift.Missing, drift.Mismatched} {
		t.Episodes[kind] = 0
	}
	for _, n := range s.Nodes.Nodes { // order-free: it only counts
		t.Statuses[string(n.Status())]++
		for _, e := range n.Episodes { // order-free: it only counts
			t.Episodes[e.Drift]++
			t.Oldest[e.Drift] = clock.Earliest(t.Oldest[e.Drift], e.OpenedAt)
		}
	}
	for _, o := range s.Nodes.Objects { // order-free: it only counts
		for _, l := range o.Legs { // order-free: it only counts
			switch {
			case l.Gone:
			case l.BinnedUntil != 0:
				t.Legs[InBin]++
			default:
				push := l.PushStatus()
				t.Legs[string(push)]++
				if push != drift.Pushed && (l.Acked == nil || l.Acked.Version < o.Version) {
					t.Waiting[string(push)] = clock.Earliest(t.Waiting[string(push)], o.ChangedAt)
				}
			}
		}
	}
	return t
}
