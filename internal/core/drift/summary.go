package drift

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/nodeconfig"
	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/core/status"
)

// Words of summaries that are no push status, presence or kind of drift.
const (
	WordConflict    = "conflict"
	WordInBin       = "in the bin"
	WordDeleting    = "being deleted"
	WordNotInEffect = "not in effect"
	WordDrifted     = "drifted"
	WordToAdopt     = "unadopted"
	WordRefused     = "refused"
	WordPushFails   = "push fails"
	WordDecided     = "decided"
)

// notInEffect is what devices report of what they have and do not use (nodesdk.NotInEffect).
const notInEffect = "not in effect"

// summary is how a leg is: its push, unless its node is known to have something else.
func (l *LegRow) summary() status.Summary {
	out := status.Summary{Word: string(l.Status), Level: status.Busy}
	show := status.Do(status.ObjectShow, nodeconfig.Command(l.Kind), l.Name)
	switch {
	case l.Wait != nil && l.Wait.Code == WaitsInBin:
		return status.Summary{Word: WordInBin, Level: status.Waiting, Reason: l.Wait.Message}
	case l.Status == Failed:
		out.Level, out.Reason, out.Since, out.Who = status.Critical, cmp.Or(l.Error, l.Code), l.FailedSince, status.Operator
		of := nodeconfig.Command(l.Kind)
		out.Next = []status.Remedy{show, status.Do(status.ObjectEdit, of, l.Name), status.Do(status.ObjectPush, of, l.Name)}
		if l.Wait != nil && l.Wait.Code == WaitsConflict { // nothing is pushed before somebody decided
			out.Next = []status.Remedy{status.Do(status.DriftShow, l.Episode), show}
		}
		return out
	case l.Episode != "" && l.Wait != nil && l.Wait.Code == WaitsConflict:
		return status.Summary{Word: WordConflict, Level: status.Warning, Reason: l.Wait.Message, Who: status.Operator, Next: []status.Remedy{status.Do(status.DriftShow, l.Episode)}}
	case l.Episode != "" && !l.Decided:
		return status.Summary{Word: l.Drift, Level: status.Warning, Reason: "node " + l.Node + " " + differs[l.Drift], Who: status.Operator, Next: []status.Remedy{status.Do(status.DriftShow, l.Episode)}}
	}
	switch l.Status {
	case Pending:
		out.Level = status.Waiting
		if w := l.Wait; w != nil {
			out.Reason = w.Message
			switch w.Code {
			case WaitsRegistration:
				out.Level, out.Who, out.Next = status.Warning, status.Operator, []status.Remedy{status.Do(status.NodeToken, l.Node), show}
			case WaitsDecision:
				out.Level, out.Who, out.Next = status.Warning, status.Operator, []status.Remedy{status.Do(status.NodeResume, l.Node)}
			case WaitsConnection:
				out.Level, out.Who = status.Away, status.DeviceOwner
			}
		}
	case Pushed:
		out.Level, out.Since = status.OK, l.PushedAt
		if l.Effect == notInEffect {
			out.Word, out.Level, out.Reason, out.Who = WordNotInEffect, status.Warning, cmp.Or(l.Detail, "the device has it and does not use it"), status.DeviceOwner
			out.Next = []status.Remedy{show}
		}
	}
	if l.Removed {
		out.Word = WordDeleting
	}
	return out
}

// differs is what a node does that an episode of a kind of drift tells of.
var differs = map[string]string{
	Extraneous: "has it, and the server does not know it",
	Missing:    "does not have it any more",
	Mismatched: "has it with other values",
}

// summary is the worst of the legs; the reason names the leg where there are several.
func (o *ObjectRow) summary() status.Summary {
	parts := make([]status.Summary, 0, len(o.Legs))
	for i := range o.Legs {
		l := &o.Legs[i]
		s := l.Summary
		if len(o.Legs) > 1 && s.Reason != "" && !strings.Contains(s.Reason, l.Node) {
			s.Reason = l.Role + " on " + l.Node + ": " + s.Reason
		}
		parts = append(parts, s)
	}
	return status.Worst(parts...)
}

// summary is how an episode is.
func (e *EpisodeRow) summary() status.Summary {
	out := status.Summary{Word: e.Drift, Level: status.Warning, Reason: e.Describe(), Since: e.OpenedAt, Who: status.Operator, Next: []status.Remedy{status.Do(status.DriftShow, e.ID), status.Do(status.DriftResolve, e.ID)}}
	switch {
	case e.Decided:
		return status.Summary{Word: WordDecided, Level: status.Busy, Reason: e.Describe() + "; an operator decided what becomes of that", Since: e.OpenedAt}
	case e.Conflict:
		out.Word = WordConflict
	}
	return out
}

// AwayFor is how long the configuration of a node may be unknown before a person is needed.
const AwayFor = clock.Hour

// NodeSummary is how a node is: the worst of its presence, its pushes and its drift.
func (s *State) NodeSummary(name string) status.Summary {
	row := s.NodeRow(name)
	return row.Summary
}

func (r *NodeRow) summary() status.Summary {
	here := status.Summary{Word: string(r.Status), Level: status.OK, Since: r.Since}
	switch r.Status {
	case NodeRetired:
		here.Level, here.Reason = status.Waiting, r.Why
		return here
	case NodeComparing:
		if here.Level = status.Busy; r.unreadSince >= r.Since {
			break
		}
		here.Level, here.Reason, here.Who = status.Away, "it is connected, and its configuration was not read since "+prose.Date(r.unreadSince), status.DeviceOwner
		here.Next = []status.Remedy{status.Do(status.NodeStart, r.Name)}
	case NodeOffline:
		here.Level, here.Reason, here.Who = status.Away, cmp.Or(r.Why, "it is not connected"), status.DeviceOwner
		here.Next = []status.Remedy{status.Do(status.NodeStart, r.Name)}
	}
	return status.Worst(append(r.needs(), here)...)
}

// needs lists what a node needs a person for.
func (r *NodeRow) needs() (out []status.Summary) {
	add := func(is bool, word string, level status.Level, reason string, next status.Remedy) {
		if is {
			out = append(out, status.Summary{Word: word, Level: level, Reason: reason, Since: r.Since, Who: status.Operator, Next: []status.Remedy{next}})
		}
	}
	show := status.Do(status.NodeShow, r.Name)
	add(r.Status == NodePaused, string(r.Status), status.Critical, r.Why, status.Do(status.NodeResume, r.Name))
	add(r.Status == NodeUnknown, string(r.Status), status.Warning, "objects name it, and it never registered", status.Do(status.NodeToken, r.Name))
	add(r.Legs[Failed] > 0, WordPushFails, status.Critical, "failed pushes: "+strconv.Itoa(r.Legs[Failed]), show)
	add(r.Problem != "" && r.Status != NodeRetired, WordRefused, status.Critical, "its last report or connection was refused: "+r.Problem, show)
	add(r.Conflicts > 0, WordConflict, status.Warning, prose.Count(r.Conflicts, "conflict")+" with what the server has", show)
	add(r.undecided > 0, WordDrifted, status.Warning, prose.Count(r.undecided, "difference")+" from what the server has", show)
	add(r.ToAdopt > 0, WordToAdopt, status.Warning, prose.Count(r.ToAdopt, "object")+" that the server does not know", status.Do(status.NodeAdopt, r.Name))
	return out
}

// Kinds of items that are no kinds of objects.
const (
	KindNode  = "node"
	KindDrift = "drift"
)

// NodeItems lists what of a node needs a person: the node itself and its episodes of drift. Pushes
// are told of with their objects.
func (s *State) NodeItems(name string) (out []status.Item) {
	own := s.NodeRow(name)
	own.Legs, own.Conflicts, own.undecided = nil, 0, 0
	sum := own.summary()
	item := status.Item{Kind: KindNode, Name: name, Cause: own.Problem, Summary: sum}
	switch {
	case own.Status == NodeUnknown && len(s.legs[name]) == 0, own.Status == NodeRetired:
	case sum.Level == status.Away:
		item.Since, item.From = own.unreadSince, own.unreadSince.Add(AwayFor)
		out = append(out, item)
	case sum.Level.NeedsPerson():
		out = append(out, item)
	}
	n := s.Nodes[name]
	if n == nil {
		return out
	}
	for _, key := range slices.Sorted(maps.Keys(n.Episodes)) {
		e := n.Episodes[key].row()
		if e.Summary.Level.NeedsPerson() {
			out = append(out, status.Item{Kind: KindDrift, Name: e.ID, Cause: name, Summary: e.Summary})
		}
	}
	return out
}

// LostFor is how long pushes of a leg may get no answer before a person is needed: a connection that
// ends in the middle of one is made again, and the push with it.
const LostFor = 2 * clock.Minute

// ObjectItem is what of an object needs a person: a push that fails, a leg that is not in effect on
// its node, or one whose node was retired. Drift, and what waits for a node, are told with these.
func (s *State) ObjectItem(key string, now clock.Instant) *status.Item {
	o := s.Objects[key]
	if o == nil || o.Anonymous {
		return nil
	}
	row := s.objectRow(o, now)
	row.Legs = slices.DeleteFunc(row.Legs, func(l LegRow) bool {
		return l.Episode != "" || !l.Summary.Level.NeedsPerson() || l.Status == Pending && s.NodeRow(l.Node).Status != NodeRetired
	})
	if len(row.Legs) == 0 {
		return nil
	}
	sum := row.summary()
	if l := row.Legs[0]; !strings.Contains(sum.Reason, l.Node) {
		sum.Reason = "node " + l.Node + ": " + sum.Reason
	}
	item := &status.Item{Kind: o.Kind, Name: o.Name, Cause: row.Legs[0].Node + " " + row.Legs[0].Code, Summary: sum}
	if !slices.ContainsFunc(row.Legs, func(l LegRow) bool { return l.Code != codeConnectionLost }) {
		item.From = sum.Since.Add(LostFor)
	}
	return item
}

// ObjectsOf lists the keys of the objects that a node has legs of.
func (s *State) ObjectsOf(node string) (keys []string) {
	for _, r := range s.legsOf(node) {
		keys = append(keys, r.object)
	}
	return slices.Compact(keys)
}
