package drift

import (
	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/internal/core/status"
)

// NotKnown is the status of what a node has and the server does not know: nothing of it is pushed.
const NotKnown = Status(Extraneous)

// localRows lists the objects of a kind, or of all, that a node has and the server does not know.
func (s *State) localRows(n *Node, kind string) (out []ObjectRow) {
	row := func(l LegRow, at clock.Instant) {
		if name, _ := s.named(n.Name, place{l.Kind, l.ID}); name == "" && (kind == "" || l.Kind == kind) {
			l.Role, l.Node, l.Status, l.Drift = nodeconfig.KindOf(l.Kind).Roles[0], n.Name, NotKnown, Extraneous
			out = append(out, ObjectRow{Kind: l.Kind, Name: l.ID, Status: NotKnown, Local: true, ChangedAt: at, Legs: []LegRow{l}, Summary: l.Summary})
		}
	}
	for _, e := range n.Episodes { // order-free: who asks sorts
		if e.Drift == Extraneous {
			row(LegRow{Kind: e.Kind, ID: e.ID, Episode: e.Episode, Decided: e.Decided, Summary: e.row().Summary}, e.OpenedAt)
		}
	}
	if a := n.Adoption; a != nil {
		for _, x := range a.Objects {
			row(LegRow{Kind: x.Kind, ID: x.ID, Summary: status.Summary{Word: WordToAdopt, Level: status.Warning, Reason: "node " + n.Name + " " + differs[Extraneous],
				Since: a.Since, Who: status.Operator, Next: []status.Remedy{status.Do(status.NodeAdopt, n.Name)}}}, a.Since)
		}
	}
	return out
}

// localEpisode is the drift about an object that a node has by a name and the server does not know, or nil.
func (s *State) localEpisode(kind, name string) (found *Episode) {
	for _, n := range s.Nodes { // order-free: the oldest of all
		if e := n.Episodes[Key(kind, name)]; e != nil && e.Drift == Extraneous && (found == nil || e.OpenedAt < found.OpenedAt || e.OpenedAt == found.OpenedAt && e.Node < found.Node) {
			found = e
		}
	}
	return found
}
